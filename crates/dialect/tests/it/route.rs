use backstop_dialect::{Dialect, recognise};
use expect_test::expect;

fn table(paths: &[&str]) -> String {
    paths
        .iter()
        .map(|path| match recognise(path) {
            None => format!("{path:<52} -\n"),
            Some(route) => {
                let mut line = format!("{path:<52} {} {:?}", route.dialect, route.operation);
                if !route.prefix.is_empty() {
                    line += &format!(" under {}", route.prefix);
                }
                if let Some(model) = &route.model_in_path {
                    line += &format!(" model={model}");
                }
                if route.streams {
                    line += " streams";
                }
                if route.is_stateful() {
                    line += " stateful";
                }
                line + "\n"
            }
        })
        .collect()
}

#[test]
fn paths_are_recognised_with_and_without_their_version() {
    let paths = [
        "/v1/chat/completions",
        "/chat/completions",
        "/v1/chat/completions/",
        "/v1/chat/completions/chatcmpl-1/messages",
        "/v1/completions",
        "/v1/responses",
        "/v1/responses/compact",
        "/v1/responses/input_tokens",
        "/v1/responses/resp_1",
        "/v1/responses/resp_1/cancel",
        "/v1/conversations/conv_1/items",
        "/v1/messages",
        "/v1/messages/count_tokens",
        "/v1/messages/batches",
        "/v1/messages/batches/b_1/results",
        "/v1/embeddings",
        "/v1/models",
        "/v1/models/some/model",
        "/v1/files",
        "/v1/files/file-1/content",
        "/v1/batches",
        "/v1/images/generations",
        "/v1/audio/transcriptions",
        "/v1/moderations",
    ];
    expect![[r#"
        /v1/chat/completions                                 openai-chat Generate
        /chat/completions                                    openai-chat Generate
        /v1/chat/completions/                                openai-chat Generate
        /v1/chat/completions/chatcmpl-1/messages             openai-chat Stored stateful
        /v1/completions                                      openai-chat Generate
        /v1/responses                                        openai-responses Generate
        /v1/responses/compact                                openai-responses Compact
        /v1/responses/input_tokens                           openai-responses CountTokens
        /v1/responses/resp_1                                 openai-responses Stored stateful
        /v1/responses/resp_1/cancel                          openai-responses Stored stateful
        /v1/conversations/conv_1/items                       openai-responses Stored stateful
        /v1/messages                                         anthropic-messages Generate
        /v1/messages/count_tokens                            anthropic-messages CountTokens
        /v1/messages/batches                                 anthropic-messages Batches stateful
        /v1/messages/batches/b_1/results                     anthropic-messages Batches stateful
        /v1/embeddings                                       openai-chat Embeddings
        /v1/models                                           openai-chat Models
        /v1/models/some/model                                openai-chat Models
        /v1/files                                            openai-chat Files stateful
        /v1/files/file-1/content                             openai-chat Files stateful
        /v1/batches                                          openai-chat Batches stateful
        /v1/images/generations                               openai-chat Images
        /v1/audio/transcriptions                             openai-chat Audio
        /v1/moderations                                      openai-chat Other
    "#]]
    .assert_eq(&table(&paths));
}

#[test]
fn models_in_paths_and_paths_of_the_providers_own_are_recognised() {
    let paths = [
        "/v1beta/models",
        "/v1beta/models/gemini-3-pro:generateContent",
        "/v1beta/models/gemini-3-pro:streamGenerateContent",
        "/v1beta/models/gemini-3-pro:countTokens",
        "/v1beta/models/mine%2Fgemini-3-pro:generateContent",
        "/v1beta/models/mine/gemini-3-pro:generateContent",
        "/models/gemini-3-pro:embedContent",
        "/v1beta/models/gemini-3-pro:batchGenerateContent",
        "/v1beta/files/abc",
        "/upload/v1beta/files",
        "/v1beta/cachedContents",
        "/openai/deployments/mine/chat/completions",
        "/api/paas/v4/chat/completions",
        "/v1/unheard/of",
        "/",
        "",
        "chat/completions",
    ];
    expect![[r#"
        /v1beta/models                                       gemini Models
        /v1beta/models/gemini-3-pro:generateContent          gemini Generate model=gemini-3-pro
        /v1beta/models/gemini-3-pro:streamGenerateContent    gemini Generate model=gemini-3-pro streams
        /v1beta/models/gemini-3-pro:countTokens              gemini CountTokens model=gemini-3-pro
        /v1beta/models/mine%2Fgemini-3-pro:generateContent   gemini Generate model=mine/gemini-3-pro
        /v1beta/models/mine/gemini-3-pro:generateContent     gemini Generate model=mine/gemini-3-pro
        /models/gemini-3-pro:embedContent                    gemini Embeddings model=gemini-3-pro
        /v1beta/models/gemini-3-pro:batchGenerateContent     gemini Batches model=gemini-3-pro stateful
        /v1beta/files/abc                                    gemini Files stateful
        /upload/v1beta/files                                 gemini Files stateful
        /v1beta/cachedContents                               gemini Files stateful
        /openai/deployments/mine/chat/completions            openai-chat Generate under openai/deployments/mine
        /api/paas/v4/chat/completions                        openai-chat Generate under api/paas/v4
        /v1/unheard/of                                       -
        /                                                    -
                                                             -
        chat/completions                                     -
    "#]].assert_eq(&table(&paths));
}

#[test]
fn a_version_is_told_from_a_word() {
    let version = |path| recognise(path).and_then(|route| route.version.map(str::to_owned));

    assert_eq!(version("/v1/models").as_deref(), Some("v1"));
    assert_eq!(version("/v1beta1/models").as_deref(), Some("v1beta1"));
    assert_eq!(version("/v4/models").as_deref(), Some("v4"));
    assert_eq!(version("/models"), None);
}

#[test]
fn the_two_openai_shapes_pass_each_other_and_nobody_else() {
    let passed: String = Dialect::ALL
        .iter()
        .map(|format| {
            let passed: Vec<_> =
                Dialect::ALL.iter().filter(|other| format.passes(**other)).map(|it| it.as_str()).collect();
            format!("{format}: {}\n", passed.join(" "))
        })
        .collect();

    expect![[r#"
        openai-chat: openai-chat openai-responses
        openai-responses: openai-chat openai-responses
        anthropic-messages: anthropic-messages
        gemini: gemini
    "#]]
    .assert_eq(&passed);
}
