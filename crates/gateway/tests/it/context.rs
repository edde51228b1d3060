//! What a model takes: learned, looked up, listed, counted.

use std::time::Duration;

use backstop_faultd::{Faultd, How, Point, Reply, Script, key, model};
use serde_json::Value;

use crate::world::{Setup, World};

/// A chat request whose prompt is about this many tokens.
fn prompt(model: &str, tokens: usize) -> String {
    let words = "wor ".repeat(tokens);
    format!(r#"{{"model":"{model}","messages":[{{"role":"user","content":"{words}"}}]}}"#)
}

/// A second provider `q`.
fn other(server: &Faultd, more: &str) -> String {
    format!(
        "[[provider]]\nid = \"q\"\nformat = \"openai-chat\"\nbase_url = \"{}\"\n{more}[[provider.key]]\nvalue = \"sk-q\"\n",
        server.base_url()
    )
}

const CHAT: &str = "/proxy/p/v1/chat/completions";
const OVERFLOW: &str = "This model's maximum context length is 8192 tokens. However, your messages resulted in 12003 tokens. Please reduce the length of the messages.";

#[tokio::test]
async fn a_stated_window_is_learned_and_what_is_far_above_it_is_not_sent_there_again() {
    let script = Script::new().on(model("m"), Reply::error(400, "context_length_exceeded", OVERFLOW));
    let world = World::of(script, &["sk-one", "sk-two"]).await;
    let first = world.post(CHAT, &prompt("m", 12_000)).await;
    assert_eq!(first.status, 400, "{}", first.body);
    assert_eq!(first.header("x-should-retry"), "false");
    let asked = generations(&world);
    assert_eq!(asked, 1, "an overflow is the same with every key");
    let second = world.post(CHAT, &prompt("m", 12_000)).await;
    assert_eq!((second.status, generations(&world)), (400, 1), "{}", second.body);
    assert_eq!(second.json()["error"]["code"], "context_length_exceeded");
    let message = second.json()["error"]["message"].to_string();
    assert!(message.contains("maximum context length is 8192 tokens"), "{message}");
    assert_eq!(world.post(CHAT, &prompt("n", 12_000)).await.status, 200, "another model is not meant");
    assert_eq!(world.post(CHAT, &prompt("m", 6_000)).await.status, 400);
    assert_eq!(generations(&world), 3, "a prompt that may fit is sent");
}

/// Calls that ask for an answer, without those that ask for windows.
fn generations(world: &World) -> usize {
    world.provider.log().iter().filter(|call| call.path.ends_with("/chat/completions")).count()
}

#[tokio::test]
async fn a_fallback_that_is_too_small_is_skipped() {
    let small = Faultd::start(Script::new()).await.unwrap();
    let large = Faultd::start(Script::new()).await.unwrap();
    let third = other(&large, "").replace("\"q\"", "\"r\"");
    let tables = format!("{}{third}", other(&small, "context = { other = 4096 }\n"));
    let provider = "[[provider.fallback]]\nprovider = \"q\"\nmodel = \"other\"\n[[provider.fallback]]\nprovider = \"r\"\nmodel = \"other\"\n";
    let script = Script::new().otherwise(Reply::status(429).header("retry-after", "600"));
    let world = World::new(Setup { script, provider, tables: &tables, ..Setup::default() }).await;
    let got = world.post(CHAT, &prompt("m", 12_000)).await;
    assert_eq!((got.status, got.header("x-backstop-provider")), (200, "r"), "{}", got.body);
    assert_eq!(world.post(CHAT, &prompt("m", 100)).await.header("x-backstop-provider"), "q");
}

#[tokio::test]
async fn the_client_reads_its_own_dialects_words_when_nothing_takes_the_prompt() {
    let world = World::new(Setup {
        format: "anthropic-messages",
        provider: "context = { m = 4096 }\n",
        ..Setup::default()
    })
    .await;
    let got = world.post("/proxy/p/v1/messages", &prompt("m", 12_000)).await;
    assert_eq!(got.status, 400, "{}", got.body);
    let message = got.json()["error"]["message"].as_str().unwrap_or_default().to_owned();
    assert!(message.starts_with("prompt is too long: 12"), "{message}");
    assert!(message.ends_with(" tokens > 4096 maximum"), "{message}");
    assert!(world.provider.log().is_empty());
}

#[tokio::test]
async fn a_reset_near_the_window_gets_one_fresh_try_and_is_then_an_overflow() {
    let script = Script::new().otherwise(Reply::answer().cut(Point::Headers, How::Reset));
    let provider = "context = { m = 16384 }\nlast_key_ladder_s = []\n";
    let world = World::new(Setup { script, provider, ..Setup::default() }).await;
    let got = world.post(CHAT, &prompt("m", 12_000)).await;
    assert_eq!(got.status, 400, "{}", got.body);
    assert_eq!(got.json()["error"]["code"], "context_length_exceeded");
    assert_eq!(generations(&world), 2);
    assert_eq!(world.keys(), ["sk-one active", "sk-two active"], "no key is blamed");
}

#[tokio::test]
async fn a_reset_with_an_unknown_window_is_the_networks_fault() {
    let script = Script::new().on(key("sk-one"), Reply::answer().cut(Point::Headers, How::Reset));
    let provider = "last_key_ladder_s = []\n";
    let world = World::new(Setup { script, provider, ..Setup::default() }).await;
    let got = world.post(CHAT, &prompt("nobody-knows-this-one", 100_000)).await;
    assert_eq!(got.status, 200, "{}", got.body);
}

#[tokio::test]
async fn the_model_with_the_larger_window_answers_what_did_not_fit() {
    let script = Script::new().on(model("m"), Reply::error(400, "context_length_exceeded", OVERFLOW));
    let provider = "context_fallback = \"m-long\"\n";
    let world = World::new(Setup { script, provider, ..Setup::default() }).await;
    let first = world.post(CHAT, &prompt("m", 12_000)).await;
    assert_eq!((first.status, first.header("x-backstop-model")), (200, "m-long"), "{}", first.body);
    assert_eq!(first.header("x-backstop-attempts"), "2");
    let second = world.post(CHAT, &prompt("m", 12_000)).await;
    assert_eq!((second.status, second.header("x-backstop-model")), (200, "m-long"), "{}", second.body);
    assert_eq!(second.header("x-backstop-attempts"), "1", "the window was learned");
}

#[tokio::test]
async fn lists_of_models_tell_their_windows_in_each_shape() {
    let provider = "models = [\"m\", \"told\", \"n-32k\"]\ncontext = { m = 65536 }\ndefault_context = 9000\n";
    let list = r#"{"object":"list","data":[{"id":"told","object":"model","max_model_len":12288},{"id":"unlike","object":"model"}]}"#;
    let script = Script::new().on(backstop_faultd::path("/v1/models"), Reply::json(200, list));
    let world = World::new(Setup { script, provider, ..Setup::default() }).await;
    let windows = |list: &Value| -> Vec<u64> {
        let entries = list["data"].as_array().or_else(|| list["models"].as_array()).unwrap();
        let names = ["context_length", "max_input_tokens", "inputTokenLimit"];
        let window = |entry: &Value| names.iter().find_map(|name| entry[name].as_u64());
        entries.iter().map(|entry| window(entry).unwrap_or_default()).collect()
    };
    assert_eq!(windows(&world.get("/v1/models").await.json()), [65_536, 9_000, 32_768]);
    // The list has made the gateway ask.
    let known = async {
        while windows(&world.get("/v1/models").await.json()) != [65_536, 12_288, 32_768] {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), known).await.expect("the window within the patience");
    let anthropic = crate::world::request("GET", "/v1/models", "", "anthropic-version: 2023-06-01\r\n");
    let anthropic = crate::world::ask(world.gateway.addr(), &anthropic).await.json();
    assert_eq!(windows(&anthropic), [65_536, 12_288, 32_768]);
    assert_eq!(windows(&world.get("/v1beta/models").await.json()), [65_536, 12_288, 32_768]);
    assert_eq!(world.get("/v1/models/p%2Ftold").await.json()["context_length"], 12_288);
}

#[tokio::test]
async fn windows_are_asked_the_way_that_requests_go_through_a_proxy_and_with_the_key_in_the_query() {
    let list = r#"{"object":"list","data":[{"id":"told","object":"model","max_model_len":12288}]}"#;
    let script = Script::new().on(backstop_faultd::path("/v1/models"), Reply::json(200, list));
    let server = Faultd::start(script).await.unwrap();
    let proxy = tunnel(server.addr()).await;
    let tables = format!(
        "[[provider]]\nid = \"q\"\nformat = \"openai-chat\"\nbase_url = \"http://far.test/v1\"\nallow_private = true\nproxy = \"http://{proxy}\"\nkey_header = \"query:token\"\nmodels = [\"told\"]\n[[provider.key]]\nvalue = \"sk-q\"\n"
    );
    let world = World::new(Setup { tables: &tables, ..Setup::default() }).await;
    let known = async {
        while world.get("/v1/models/q%2Ftold").await.json()["context_length"] != 12_288 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), known).await.expect("the window within the patience");
    let paths: Vec<String> = server.log().into_iter().map(|call| call.path).collect();
    assert!(paths.iter().all(|path| path.ends_with("?token=sk%2Dq")), "{paths:?}");
}

/// A proxy that leads every tunnel to one address.
async fn tunnel(target: std::net::SocketAddr) -> std::net::SocketAddr {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut inward, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.push(inward.read_u8().await.unwrap());
                }
                inward.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await.unwrap();
                let mut outward = tokio::net::TcpStream::connect(target).await.unwrap();
                let _ = tokio::io::copy_bidirectional(&mut inward, &mut outward).await;
            });
        }
    });
    address
}

#[tokio::test]
async fn a_count_is_the_providers_where_it_can_and_a_marked_estimate_where_it_cannot() {
    let body = prompt("m", 1_000);
    let counted = Script::new().otherwise(Reply::json(200, r#"{"input_tokens":1234}"#));
    let world = World::new(Setup { script: counted, format: "anthropic-messages", ..Setup::default() }).await;
    let got = world.post("/proxy/p/v1/messages/count_tokens", &body).await;
    assert_eq!((got.status, got.json()["input_tokens"].as_u64()), (200, Some(1_234)));
    assert_eq!(got.header("x-backstop-estimate"), "");

    let missing = Script::new().otherwise(Reply::json(404, r#"{"detail":"Not Found"}"#));
    let world = World::new(Setup { script: missing, format: "anthropic-messages", ..Setup::default() }).await;
    for _ in 0..5 {
        let got = world.post("/proxy/p/v1/messages/count_tokens", &body).await;
        let tokens = got.json()["input_tokens"].as_u64().unwrap_or_default();
        assert_eq!((got.status, got.header("x-backstop-estimate")), (200, "true"), "{}", got.body);
        assert!((900..1_200).contains(&tokens), "{tokens}");
        assert_eq!(got.json()["backstop"]["estimate"], true);
    }
    assert_eq!(world.keys(), ["sk-one active", "sk-two active"], "a missing endpoint is no key's fault");
    assert_eq!(world.provider.log().len(), 5);
}

#[tokio::test]
async fn a_provider_of_another_dialect_has_its_prompts_estimated() {
    let world = World::of(Script::new(), &["sk-one"]).await;
    let got = world.post("/v1/messages/count_tokens", &prompt("p/m", 1_000)).await;
    assert_eq!((got.status, got.header("x-backstop-estimate")), (200, "true"), "{}", got.body);
    assert!(world.provider.log().is_empty());
}
