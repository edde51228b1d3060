use expect_test::expect;
use proptest::prelude::*;
use serde_json::json;

use crate::preset::Format;

use super::{directory::Tokens, metadata::Alone, *};

#[test]
fn the_first_step_that_knows_wins_and_every_step_is_shown() {
    let queries =
        queries(Endpoint { base_url: "http://127.0.0.1:11434/v1", format: Format::OpenaiChat }, "qwen3:8b");
    let answers: Vec<Answer> = queries
        .into_iter()
        .map(|query| {
            let result = match query.url.as_str() {
                url if url.ends_with("/api/show") => Ok(json!({
                    "parameters": "num_ctx                        8192\nstop                           \"<|im_end|>\"",
                    "model_info": { "general.architecture": "qwen3", "qwen3.context_length": 40_960 },
                })),
                url if url.ends_with("/models") => Ok(json!({ "object": "list", "data": [{ "id": "qwen3:8b" }] })),
                _ => Err("404 not found".to_owned()),
            };
            Answer { query, result }
        })
        .collect();
    let question =
        Question { model: "qwen3:8b", place: "http://127.0.0.1:11434/v1", answers: &answers, ..nothing() };
    let resolution = resolve(&question, now());
    assert_eq!((resolution.context, resolution.source), (8_192, Step::LocalServer));
    expect![[r#"
        step            context    output     age_s   limit_s  detail
        override              -         -         -         -  none set
        cache                 -         -         -         -  nothing remembered
        endpoint              -         -         -         3  GET http://127.0.0.1:11434/v1/models/qwen3:8b: 404 not found; GET http://127.0.0.1:11434/v1/models: says nothing about it
        local_server       8192         -         -         2  POST http://127.0.0.1:11434/api/show  <-- used
        provider_api          -         -         -         5  not asked
        public_list           -         -         -         5  not asked
        name                  -         -         -         -  no size in the name
        directory             -         -         -         -  not listed
        default          128000         -         -         -  the setting default_context
    "#]]
    .assert_eq(&resolution.to_string());
}

#[test]
fn each_step_is_used_when_those_before_it_are_silent() {
    let learned = Cached::learned("maximum context length is 8192 tokens", now()).unwrap();
    let steps = |question: Question<'_>| {
        let resolution = resolve(&question, now());
        (resolution.context, resolution.source)
    };
    let model = "vendor/unheard-of-32k";
    assert_eq!(
        steps(Question { fixed: Some(5_000), cached: Some(learned), model, ..nothing() }),
        (5_000, Step::Override)
    );
    assert_eq!(steps(Question { cached: Some(learned), model, ..nothing() }), (8_192, Step::Cache));
    assert_eq!(steps(Question { model, ..nothing() }), (32_768, Step::Name));
    assert_eq!(
        steps(Question { model: "glm-4.7", place: "https://api.z.ai/api/paas/v4", ..nothing() }),
        (200_000, Step::Directory)
    );
    assert_eq!(steps(Question { model: "unheard-of", ..nothing() }), (128_000, Step::Default));
}

#[test]
fn old_knowledge_is_shown_but_not_believed() {
    let asked = Cached {
        limits: Limits { context: 9_000, max_output: None },
        origin: Origin::AskedLocally,
        at: "2026-11-30T11:00:00Z".parse().unwrap(),
    };
    let resolution = resolve(&Question { model: "unheard-of", cached: Some(asked), ..nothing() }, now());
    assert_eq!(resolution.source, Step::Default);
    assert_eq!(resolution.steps[1].age_s, Some(3_600));
}

#[test]
fn the_shapes_of_all_known_servers_are_read() {
    let read = |body: Value, model: &str| {
        metadata::read(&body, model, Alone::MustBeNamed).map(|limits| (limits.context, limits.max_output))
    };
    let openrouter = json!({ "data": [
        { "id": "z-ai/glm-4.6", "context_length": 202_752, "top_provider": { "context_length": 200_000, "max_completion_tokens": 65_536 } },
        { "id": "openai/gpt-4o", "context_length": 128_000, "top_provider": { "context_length": null, "max_completion_tokens": 16_384 } },
    ]});
    assert_eq!(read(openrouter.clone(), "z-ai/glm-4.6"), Some((200_000, Some(65_536))));
    assert_eq!(read(openrouter.clone(), "gpt-4o"), Some((128_000, Some(16_384))));
    assert_eq!(read(openrouter, "gpt-4"), None);
    let anthropic = json!({ "type": "model", "id": "claude-opus-4-6", "max_input_tokens": 200_000, "max_tokens": 64_000 });
    assert_eq!(read(anthropic, "claude-opus-4-6"), Some((200_000, Some(64_000))));
    let nullable =
        json!({ "type": "model", "id": "claude-opus-4-6", "max_input_tokens": null, "max_tokens": null });
    assert_eq!(read(nullable, "claude-opus-4-6"), None);
    let gemini = json!({ "models": [{ "name": "models/gemini-2.5-pro", "inputTokenLimit": 1_048_576, "outputTokenLimit": 65_536 }] });
    assert_eq!(read(gemini, "gemini-2.5-pro"), Some((1_048_576, Some(65_536))));
    let vllm =
        json!({ "object": "list", "data": [{ "id": "Qwen/Qwen2.5-7B-Instruct", "max_model_len": 32_768 }] });
    assert_eq!(read(vllm, "Qwen/Qwen2.5-7B-Instruct"), Some((32_768, None)));
    let groq = json!({ "id": "llama-3.3-70b-versatile", "context_window": 131_072, "max_completion_tokens": 32_768 });
    assert_eq!(read(groq, "llama-3.3-70b-versatile"), Some((131_072, Some(32_768))));
    let lmstudio = json!({ "data": [{ "id": "qwen2.5-7b", "state": "loaded", "max_context_length": 131_072, "loaded_context_length": 4_096 }] });
    assert_eq!(read(lmstudio, "qwen2.5-7b"), Some((4_096, None)));
    let lmstudio_v1 = json!({ "models": [{ "key": "qwen/qwen3-8b", "loaded_instances": [{ "id": "x", "config": { "context_length": 16_384 } }], "max_context_length": 40_960 }] });
    assert_eq!(read(lmstudio_v1, "qwen3-8b"), Some((16_384, None)));
    let ollama = json!({ "model_info": { "llama.context_length": 131_072 }, "parameters": "stop \"x\"" });
    assert_eq!(read(ollama, "llama3.2:latest"), Some((131_072, None)));
    let copilot = json!({ "data": [{ "id": "gpt-4.1", "capabilities": { "limits": { "max_context_window_tokens": 128_000, "max_output_tokens": 16_384, "max_prompt_tokens": 111_616 } } }] });
    assert_eq!(read(copilot, "gpt-4.1"), Some((111_616, Some(16_384))));
    let text = json!({ "id": "m", "context_length": "131,072" });
    assert_eq!(read(text, "m"), Some((131_072, None)));
}

#[test]
fn the_only_model_of_a_local_server_is_ours_and_of_a_strange_one_it_is_not() {
    let props = json!({ "default_generation_settings": { "n_ctx": 4_096 }, "total_slots": 2 });
    assert_eq!(metadata::read(&props, "anything", Alone::IsOurs).unwrap().context, 4_096);
    let list = json!({ "data": [{ "id": "/models/q4.gguf", "max_model_len": 16_384 }] });
    assert_eq!(metadata::read(&list, "mine", Alone::IsOurs).unwrap().context, 16_384);
    assert_eq!(metadata::read(&list, "mine", Alone::MustBeNamed), None);
}

#[test]
fn insane_numbers_are_no_answer() {
    for context in
        [json!(0), json!(1_023), json!(10_000_001), json!(-5), json!("lots"), json!(null), json!([1])]
    {
        assert_eq!(metadata::read(&json!({ "context_length": context }), "m", Alone::MustBeNamed), None);
    }
}

#[test]
fn the_size_in_a_name_is_read() {
    for (name, window) in [
        ("moonshot-v1-32k", Some(32_768)),
        ("llama3.1:128k", Some(128_000)),
        ("qwen2.5-14b-instruct-1m", Some(1_000_000)),
        ("gpt-4-32k-0613", Some(32_768)),
        ("claude-sonnet-4-6[1m]", Some(1_000_000)),
        ("Yi-34B-200K", Some(200_000)),
        ("smollm-135m", None),
        ("qwen-7b", None),
        ("kimi-k2", None),
        ("128k", None),
        ("model-3k", None),
        ("", None),
    ] {
        assert_eq!(window_in_name(name), window, "{name}");
    }
}

#[test]
fn the_directory_prefers_the_providers_own_row_and_the_longest_match() {
    let find = |place: &str, model: &str| {
        let entry = Directory::embedded().find(place, model)?;
        Some(format!("{} {}", entry.context, entry.row))
    };
    let table: Vec<String> = [
        ("https://api.z.ai/api/coding/paas/v4", "glm-4.7"),
        ("https://api.z.ai/api/paas/v4", "GLM-4.7"),
        ("https://api.openai.com/v1", "gpt-4o-2024-08-06"),
        ("https://api.openai.com/v1", "gpt-4o-mini-my-tune"),
        ("https://myazure.openai.azure.com/openai", "gpt-4o"),
        ("https://openrouter.ai/api/v1", "z-ai/glm-4.6"),
        ("https://openrouter.ai.evil.example/api/v1", "z-ai/glm-4.6"),
        ("https://relay.example/v1", "vendor/claude-opus-4-5"),
        ("groq", "llama-3.3-70b-versatile"),
        ("https://relay.example/v1", "glm-5.2-turbo-preview"),
    ]
    .into_iter()
    .map(|(place, model)| format!("{model:<24} {}", find(place, model).unwrap_or_else(|| "-".to_owned())))
    .collect();
    expect![[r#"
        glm-4.7                  204800 zai-coding-plan/glm-4.7
        GLM-4.7                  200000 zai/glm-4.7
        gpt-4o-2024-08-06        128000 openai/gpt-4o-2024-08-06
        gpt-4o-mini-my-tune      128000 openai/gpt-4o-mini
        gpt-4o                   128000 azure/gpt-4o
        z-ai/glm-4.6             202752 openrouter/z-ai/glm-4.6
        z-ai/glm-4.6             200000 */glm-4.6
        vendor/claude-opus-4-5   200000 */claude-opus-4-5
        llama-3.3-70b-versatile  131072 groq/llama-3.3-70b-versatile
        glm-5.2-turbo-preview    1000000 */glm-5.2"#]]
    .assert_eq(&table.join("\n"));
    assert_eq!(find("https://relay.example/v1", "my-chat-model"), None);
    assert_eq!(find("", ""), None);
}

#[test]
fn the_directory_names_its_sources_and_the_larger_window_of_a_disagreement() {
    let directory = Directory::embedded();
    assert_eq!(directory.sources().len(), 3);
    assert!(directory.public_list().is_some_and(|url| url.starts_with("https://")));
    let entry = directory.find("https://api.z.ai/api/paas/v4", "glm-4.6").unwrap();
    assert_eq!((entry.context, entry.disputed), (200_000, Some(204_800)));
    assert!(entry.reasoning && entry.exact);
}

#[test]
fn a_request_costs_what_its_tokens_cost() {
    let entry = Directory::embedded().find("https://api.anthropic.com", "claude-opus-4-5").unwrap();
    let tokens = Tokens { input: 1_000, output: 2_000, cache_read: 100_000, cache_write: 10_000 };
    let cost = entry.price.unwrap().cost(tokens);
    assert!((cost - (0.005 + 0.05 + 0.05 + 0.0625)).abs() < 1e-9, "{cost}");
}

#[test]
fn overflow_errors_that_state_the_window_teach_it() {
    for (text, limit) in [
        (
            "This model's maximum context length is 128000 tokens. However, your messages resulted in 145000 tokens.",
            128_000,
        ),
        (
            "This model's maximum context length is 8,192 tokens. However, you requested 4096 output tokens",
            8_192,
        ),
        ("prompt is too long: 208423 tokens > 200000 maximum", 200_000),
        (
            "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000, decrease input length or `max_tokens` and try again",
            200_000,
        ),
        (
            "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).",
            1_048_575,
        ),
        ("Invalid request: Your request exceeded model token limit : 131072", 131_072),
        ("Your request exceeded model token limit: 262144 (requested: 558009)", 262_144),
        ("the model is loaded with context length of only 32768 tokens, which is not enough", 32_768),
        ("greater than the context length (n_keep: 13055>= n_ctx: 4096). Try", 4_096),
        (
            r#"{"error":{"code":400,"message":"the request exceeds the available context size","n_prompt_tokens":9000,"n_ctx":8192}}"#,
            8_192,
        ),
        ("The input (61709 tokens) is longer than the model's context length (40960 tokens).", 40_960),
        (
            "Requested token count exceeds the model's maximum context length of 32768 tokens. You requested a total of 40000 tokens",
            32_768,
        ),
        (
            "However, the model's context length is only 8192 tokens, resulting in a maximum input length of 8192 tokens.",
            8_192,
        ),
        ("`inputs` tokens + `max_new_tokens` must be <= 8193. Given: 7927 `inputs` tokens and 2048", 8_193),
        ("Range of input length should be [1, 98304]", 98_304),
        ("Request body too large for gpt-4o model. Max size: 8000 tokens.", 8_000),
        (
            "This endpoint's maximum context length is 163840 tokens. However, you requested about 200000 tokens",
            163_840,
        ),
        ("This model's maximum prompt length is 131072 but the request contains 140000 tokens.", 131_072),
    ] {
        assert_eq!(stated_limit(text), Some(limit), "{text}");
    }
}

#[test]
fn texts_about_max_tokens_or_without_a_limit_teach_nothing() {
    for text in [
        "max_tokens is too large: 65535. This model supports at most 16384 completion tokens, whereas you provided 65535.",
        "max_tokens: 65536 > 8192, which is the maximum allowed number of output tokens for claude-3-5-sonnet",
        "Invalid max_tokens value, the valid range of max_tokens is [1, 8192]",
        "This request requires more credits, or fewer max_tokens. You requested up to 65535 tokens, but can only afford 4000.",
        "Range of max_tokens should be [1, 8192]",
        "the request exceeds the available context size. try increasing the context size or enable context shift",
        "the input length exceeds the context length",
        "Prompt is too long",
        "Rate limit reached for model in organization on tokens per min (TPM): Limit 6000, Used 5000, Requested 9000.",
        "maximum context length is 12 tokens",
        "the max input characters is 20000",
        "",
    ] {
        assert_eq!(stated_limit(text), None, "{text}");
    }
}

#[test]
fn a_wrong_cached_value_is_dropped_by_a_stated_limit_or_by_what_happens() {
    let asked = Cached {
        limits: Limits { context: 200_000, max_output: Some(64_000) },
        origin: Origin::Asked,
        at: now(),
    };
    let stated = asked.after_overflow("maximum context length is 32768 tokens", Some(40_000), now()).unwrap();
    assert_eq!((stated.limits.context, stated.origin), (32_768, Origin::Learned));
    assert_eq!(stated.limits.max_output, None);
    assert_eq!(asked.after_overflow("Prompt is too long", Some(50_000), now()), None);
    assert_eq!(asked.after_overflow("Prompt is too long", Some(190_000), now()), Some(asked));
    assert_eq!(asked.after_overflow("Prompt is too long", None, now()), Some(asked));
    assert_eq!(asked.after_answer(250_000), None);
    assert_eq!(asked.after_answer(150_000), Some(asked));
}

#[test]
fn queries_go_where_the_server_keeps_its_models() {
    let urls = |base_url: &str, format: Format, model: &str| {
        let queries = queries(Endpoint { base_url, format }, model);
        let lines: Vec<String> = queries
            .iter()
            .map(|query| {
                let key = if query.authorised { "" } else { " (no key)" };
                format!("{} {} {}{key}", query.step.as_str(), query.method.as_str(), query.url)
            })
            .collect();
        lines.join("\n")
    };
    expect![[r#"
        endpoint GET https://api.z.ai/api/paas/v4/models/glm-5
        endpoint GET https://api.z.ai/api/paas/v4/models
        public_list GET https://openrouter.ai/api/v1/models (no key)"#]]
    .assert_eq(&urls("https://api.z.ai/api/paas/v4/", Format::OpenaiChat, "glm-5"));
    expect![[r#"
        provider_api GET https://api.anthropic.com/v1/models/claude-opus-4-6
        provider_api GET https://api.anthropic.com/v1/models
        public_list GET https://openrouter.ai/api/v1/models (no key)"#]]
    .assert_eq(&urls("https://api.anthropic.com", Format::AnthropicMessages, "claude-opus-4-6"));
    expect![[r#"
        endpoint GET http://localhost:1234/v1/models/qwen%2Fqwen3-8b
        endpoint GET http://localhost:1234/v1/models
        local_server POST http://localhost:1234/api/show
        local_server GET http://localhost:1234/api/v0/models
        local_server GET http://localhost:1234/props"#]]
    .assert_eq(&urls("http://localhost:1234/v1", Format::OpenaiChat, "qwen/qwen3-8b"));
}

#[test]
fn local_addresses_are_told_from_public_ones() {
    for url in [
        "http://127.0.0.1:1",
        "http://[::1]:8080/v1",
        "http://10.0.0.7/v1",
        "http://box/v1",
        "http://nas.local",
        "http://100.101.1.1",
        "http://host.docker.internal:11434",
    ] {
        assert!(is_local(url), "{url}");
    }
    for url in [
        "https://api.openai.com/v1",
        "http://8.8.8.8",
        "http://[2001:db8::1]/",
        "",
        "https://localhost.example.com",
    ] {
        assert!(!is_local(url), "{url}");
    }
}

proptest! {
    #[test]
    fn no_input_makes_it_fail(model in ".{0,60}", place in ".{0,60}", text in ".{0,300}", bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = Directory::embedded().find(&place, &model);
        let _ = window_in_name(&model);
        let _ = stated_limit(&text);
        let _ = queries(Endpoint { base_url: &place, format: Format::OpenaiChat }, &model);
        if let Ok(json) = serde_json::from_slice::<Value>(&bytes) {
            let _ = metadata::read(&json, &model, Alone::IsOurs);
        }
        let resolution = resolve(&Question { model: &model, place: &place, ..nothing() }, now());
        prop_assert!(SANE.contains(&resolution.context));
    }
}

fn nothing() -> Question<'static> {
    Question { model: "", place: "", fixed: None, cached: None, answers: &[], default: DEFAULT_CONTEXT }
}

fn now() -> Timestamp {
    "2026-11-30T12:00:00Z".parse().unwrap()
}
