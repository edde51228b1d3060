//! What needs no change passes byte for byte, in all four shapes.

use backstop_faultd::{Faultd, Reply, Script, key};

use crate::world::{Setup, World, ask, request};

/// Path and body of a request in each shape, for a stream and for a whole answer.
const SHAPES: [(&str, &str, &str, &str); 8] = [
    (
        "openai-chat",
        "/v1/chat/completions",
        r#"{"model":"m", "messages":[{"role":"user","content":"hi"}],"x":1.50}"#,
        "",
    ),
    (
        "openai-chat",
        "/v1/chat/completions",
        r#"{"stream": true,"model":"m","messages":[{"role":"user","content":"hi"}]}"#,
        "",
    ),
    ("openai-responses", "/v1/responses", r#"{"model":"m","input":"hi"}"#, ""),
    ("openai-responses", "/v1/responses", r#"{"model":"m","input":"hi","stream":true}"#, ""),
    (
        "anthropic-messages",
        "/v1/messages?beta=true",
        r#"{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}"#,
        "anthropic-version: 2023-06-01\r\nanthropic-beta: a,b\r\n",
    ),
    (
        "anthropic-messages",
        "/v1/messages",
        r#"{"model":"m","max_tokens":9,"stream":true,"messages":[{"role":"user","content":"hi"}]}"#,
        "anthropic-version: 2023-06-01\r\n",
    ),
    ("gemini", "/v1beta/models/m:generateContent", r#"{"contents":[{"parts":[{"text":"hi"}]}]}"#, ""),
    (
        "gemini",
        "/v1beta/models/m:streamGenerateContent?alt=sse",
        r#"{"contents":[{"parts":[{"text":"hi"}]}]}"#,
        "",
    ),
];

#[tokio::test]
async fn request_and_answer_pass_byte_for_byte_in_every_shape() {
    let direct = Faultd::start(Script::new()).await.unwrap();
    for (format, path, body, headers) in SHAPES {
        let world = World::new(Setup { format, ..Setup::default() }).await;
        let through = world.post_with(&format!("/proxy/p{path}"), body, headers).await;
        let straight = ask(direct.addr(), &request("POST", path, body, headers)).await;
        assert_eq!(through.status, 200, "{path}: {}", through.body);
        assert_eq!(through.body, straight.body, "{path}");
        assert!(through.whole);
        assert_eq!(through.header("content-type"), straight.header("content-type"), "{path}");
        let call = world.provider.log().remove(0);
        assert_eq!(call.body, body.as_bytes(), "{path}");
        assert_eq!((call.path.as_str(), call.key.as_deref()), (path, Some("sk-one")));
        for line in headers.lines() {
            let (name, value) = line.split_once(": ").unwrap();
            assert_eq!(call.header(name), Some(value), "{path}");
        }
    }
}

#[tokio::test]
async fn the_clients_key_and_its_traces_stay_here() {
    let world = World::new(Setup::default()).await;
    let headers = "cookie: a=b\r\nx-forwarded-for: 10.0.0.1\r\nx-custom: kept\r\n";
    let got = world.post_with("/proxy/p/v1/chat/completions?key=abc&x=1", crate::world::CHAT, headers).await;
    assert_eq!(got.status, 200);
    let call = world.provider.log().remove(0);
    assert_eq!(call.header("authorization"), Some("Bearer sk-one"));
    assert_eq!(call.path, "/v1/chat/completions?x=1");
    assert_eq!((call.header("cookie"), call.header("x-forwarded-for")), (None, None));
    assert_eq!(call.header("x-custom"), Some("kept"));
    assert_eq!(got.header("x-backstop-key"), "sk-one");
    assert_eq!(got.header("x-backstop-provider"), "p");
    assert_eq!(got.header("x-backstop-model"), "m");
    assert_eq!(got.header("x-backstop-attempts"), "1");
    assert!(got.header("x-backstop-request-id").starts_with("req_"));
}

#[tokio::test]
async fn other_paths_of_a_provider_pass_unread() {
    let world = World::new(Setup::default()).await;
    let got = world.get("/proxy/p/v1/models").await;
    assert_eq!(got.status, 200, "{}", got.body);
    assert!(got.json()["data"].is_array());
    assert_eq!(world.provider.log()[0].path, "/v1/models");
}

#[tokio::test]
async fn an_upload_streams_through() {
    let world = World::new(Setup::default()).await;
    let body = "x".repeat(3 << 20);
    let head = format!(
        "POST /proxy/p/v1/files HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\ncontent-type: multipart/form-data; boundary=b\r\ncontent-length: {}\r\n\r\n",
        crate::world::CLIENT_KEY,
        body.len()
    );
    let got = ask(world.gateway.addr(), &[head.as_bytes(), body.as_bytes()].concat()).await;
    assert!(got.status < 500, "{} {}", got.status, got.body);
    let call = world.provider.log().remove(0);
    assert_eq!((call.body.len(), call.path.as_str()), (body.len(), "/v1/files"));
}

#[tokio::test]
async fn an_upload_that_a_key_is_refused_for_is_to_be_sent_again() {
    let script =
        Script::new().on(key("sk-one"), Reply::error(401, "invalid_api_key", "Incorrect API key provided."));
    let world = World::of(script, &["sk-one", "sk-two"]).await;
    let headers = "content-type: multipart/form-data; boundary=b\r\n";
    let got = ask(world.gateway.addr(), &upload(headers, b"content-length: 4\r\n\r\nfile")).await;
    assert_eq!((got.status, got.header("x-should-retry")), (503, "true"), "{}", got.body);
    assert!(!got.body.contains("Incorrect API key"), "{}", got.body);
}

#[tokio::test]
async fn an_upload_that_is_too_long_is_refused_and_blames_nobody() {
    let tables = "[server]\nupload_limit = 1048576\n";
    let world = World::new(Setup { tables, ..Setup::default() }).await;
    let piece = [b"40000\r\n".as_slice(), "x".repeat(0x40000).as_bytes(), b"\r\n"].concat();
    let headers = "content-type: audio/wav\r\ntransfer-encoding: chunked\r\n";
    let long = [b"\r\n".as_slice(), &piece.repeat(5), b"0\r\n\r\n"].concat();
    let got = ask(world.gateway.addr(), &upload(headers, &long)).await;
    assert_eq!(got.status, 413, "{}", got.body);

    assert_eq!(world.keys(), ["sk-one active", "sk-two active"]);
}

fn upload(headers: &str, rest: &[u8]) -> Vec<u8> {
    let head = format!(
        "POST /proxy/p/v1/files HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\n{headers}",
        crate::world::CLIENT_KEY,
    );
    [head.as_bytes(), rest].concat()
}

#[tokio::test]
async fn without_keys_nothing_and_with_pass_through_the_clients_own_key_is_sent() {
    let none = World::new(Setup { keys: &[], provider: "auth = \"none\"", ..Setup::default() }).await;
    assert_eq!(none.chat().await.status, 200);
    assert_eq!(none.provider.log()[0].key, None);

    let own = World::new(Setup { keys: &[], provider: "auth = \"pass-through\"", ..Setup::default() }).await;
    let headers =
        format!("authorization: Bearer sk-own\r\nx-backstop-client-key: {}\r\n", crate::world::CLIENT_KEY);
    let got = own.post_with("/proxy/p/v1/chat/completions", crate::world::CHAT, &headers).await;
    assert_eq!(got.status, 200, "{}", got.body);
    let call = own.provider.log().remove(0);
    assert_eq!(call.header("authorization"), Some("Bearer sk-own"));
    assert_eq!(call.header("x-backstop-client-key"), None);
}
