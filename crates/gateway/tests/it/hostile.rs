//! What providers and clients must not get out of the gateway, whatever they send.

use std::{io::Write as _, time::Duration};

use backstop_faultd::{Client, Point, Reply, Script, key};

use crate::world::{CHAT, CLIENT_KEY, Setup, World, ask, request};

#[tokio::test]
async fn what_goes_back_is_the_answer_of_the_last_attempt_and_never_of_an_earlier_one() {
    let script = Script::new()
        .on(key("sk-one"), Reply::error(401, "invalid_api_key", "Incorrect API key provided."))
        .otherwise(Reply::answer().error_event(Point::Content(0), "invalid_value", "Invalid value for x"));
    let world = World::of(script, &["sk-one", "sk-two"]).await;
    let got = world.stream().await;
    assert_eq!(world.asked(), [("sk-one".to_owned(), 1), ("sk-two".to_owned(), 1)]);
    assert_eq!((got.status, got.header("x-should-retry")), (400, "false"), "{}", got.body);
    assert_eq!(got.header("content-type"), "application/json");
    assert!(got.body.contains("Invalid value") && !got.body.contains("API key"), "{}", got.body);
}

#[tokio::test]
async fn a_fault_of_the_request_told_inside_a_success_is_a_400() {
    let error = r#"{"error":{"message":"Invalid value for x","type":"invalid_request_error","code":"invalid_value"}}"#;
    let world = World::of(Script::new().otherwise(Reply::json(200, error)), &["sk-one", "sk-two"]).await;
    let got = world.chat().await;
    assert_eq!((got.status, got.body.as_str()), (400, error));
    assert_eq!(world.provider.log().len(), 1);
}

#[tokio::test]
async fn a_provider_that_repeats_the_key_leaves_it_neither_with_the_client_nor_in_a_file() {
    const SECRET: &str = "plain-words-are-a-key-here";
    let said = format!("cannot read Bearer {SECRET}, sorry");
    let script = Script::new()
        .on(key(SECRET).nth(1), Reply::error(400, "invalid_request_error", &said).header("x-echo", SECRET))
        .on(key(SECRET).nth(2), Reply::answer().error_event(Point::Content(1), "server_error", &said))
        .otherwise(Reply::error(418, "odd", &said));
    let provider = &format!("[[provider.key]]\nlabel = \"one\"\nvalue = \"{SECRET}\"\n");
    let world = World::new(Setup { script, keys: &[], provider, ..Setup::default() }).await;
    let refused = world.chat().await;
    let answers = [refused.body.clone(), world.stream().await.body, world.chat().await.body];
    assert_eq!((refused.status, refused.header("x-echo")), (400, "***"));
    for answer in answers {
        assert!(!answer.contains(SECRET), "{answer}");
    }
    let World { gateway, folder, .. } = world;
    gateway.shutdown().await;
    for file in std::fs::read_dir(folder.path()).unwrap() {
        let path = file.unwrap().path();
        let bytes = std::fs::read(&path).unwrap_or_default();
        let found = bytes.windows(said.len()).any(|window| window == said.as_bytes());
        assert!(!found, "{}", path.display());
    }
}

#[tokio::test]
async fn an_upload_that_cannot_be_sent_again_asks_the_client_to_and_passes_no_refusal_on() {
    for status in [401, 402, 429] {
        let refusal = Reply::error(status, "invalid_api_key", "Insufficient credit, key sk-one");
        let script = Script::new().on(key("sk-one"), refusal);
        let world = World::of(script, &["sk-one", "sk-two"]).await;
        let head = format!(
            "POST /proxy/p/v1/audio/transcriptions HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {CLIENT_KEY}\r\ncontent-type: multipart/form-data; boundary=b\r\ncontent-length: 3\r\n\r\nabc",
        );
        let got = ask(world.gateway.addr(), head.as_bytes()).await;
        assert_eq!((got.status, got.header("x-should-retry")), (503, "true"), "{}", got.body);
        assert!(!got.body.contains("credit"), "{}", got.body);
        let told = got.json()["backstop"]["attempts"].as_array().unwrap().len();
        assert_eq!(
            (got.header("x-backstop-attempts"), told),
            ("1", 1),
            "none is counted that was never made"
        );
        assert_eq!(world.asked(), [("sk-one".to_owned(), 1)]);
    }
}

#[tokio::test]
async fn methods_that_make_a_server_repeat_the_request_are_not_passed_on() {
    let world = World::new(Setup::default()).await;
    let got = ask(world.gateway.addr(), &request("TRACE", "/proxy/p/v1/models", "", "")).await;
    assert_eq!(got.status, 501, "{}", got.body);
    assert!(world.provider.log().is_empty());
}

#[tokio::test]
async fn a_client_held_to_models_cannot_name_another_one_beside_it() {
    let tables = "[[client]]\nname = \"held\"\nvalue = \"held-client-key-0123456789\"\nmodels = [\"m\"]\n";
    let world = World::new(Setup { tables, ..Setup::default() }).await;
    let held = "authorization: Bearer held-client-key-0123456789\r\n";
    let path = "/proxy/p/v1/chat/completions";
    for body in [
        r#"{"model":"dear","messages":[],"model":"m"}"#,
        r#"{"model":"m","messages":[],"Model":"dear"}"#,
        r#"{"model":"m","messages":[],"MODEL":"dear"}"#,
    ] {
        assert_eq!(world.post_with(path, body, held).await.status, 400, "{body}");
    }
    assert!(world.provider.log().is_empty());
    assert_eq!(world.post_with(path, CHAT, held).await.status, 200);
}

#[tokio::test]
async fn the_gateways_own_key_is_not_passed_through_however_it_is_spaced() {
    let world =
        World::new(Setup { keys: &[], provider: "auth = \"pass-through\"", ..Setup::default() }).await;
    let headers = format!("x-backstop-client-key: {CLIENT_KEY}\r\nauthorization: Bearer\t{CLIENT_KEY}\r\n");
    assert_eq!(world.post_with("/proxy/p/v1/chat/completions", CHAT, &headers).await.status, 200);
    assert_eq!(world.provider.log()[0].header("authorization"), None);
}

#[tokio::test]
async fn a_dead_key_stays_dead_when_it_leaves_the_configuration_and_comes_back() {
    let script = Script::new()
        .on(key("sk-one"), Reply::error(401, "invalid_api_key", "Incorrect API key provided."))
        .on(key("sk-two"), Reply::status(429).header("retry-after", "3600"));
    let world = World::of(script, &["sk-one", "sk-two", "sk-three"]).await;
    assert_eq!(world.chat().await.status, 200);
    world.reload(|config| config.providers.clear());
    assert_eq!(world.chat().await.status, 404);
    world.reload(|_| {});
    assert_eq!(world.chat().await.status, 200);
    world.reload(|config| drop(config.providers[0].keys.remove(0)));
    world.reload(|_| {});
    assert_eq!(world.chat().await.status, 200);
    let asked = [("sk-one".to_owned(), 1), ("sk-two".to_owned(), 1), ("sk-three".to_owned(), 3)];
    assert_eq!(world.asked(), asked);
}

#[tokio::test]
async fn a_packed_error_is_read_for_the_verdict_and_passed_on_as_it_came() {
    let dead = r#"{"error":{"message":"Incorrect API key provided.","type":"invalid_request_error","code":"invalid_api_key"}}"#;
    let wrong = r#"{"error":{"message":"Invalid value for x","type":"invalid_request_error","code":"invalid_value"}}"#;
    let said =
        |status, text: &str| Reply::json(status, gzip(text.as_bytes())).header("content-encoding", "gzip");
    let script = Script::new().on(key("sk-one"), said(401, dead)).on(key("sk-two"), said(400, wrong));
    let world = World::of(script, &["sk-one", "sk-two"]).await;
    let mut client = Client::new(world.gateway.addr());
    client.send(&request("POST", "/proxy/p/v1/chat/completions", CHAT, "")).await.unwrap();
    let head = client.head().await.unwrap();
    let mut body = Vec::new();
    while let Some(piece) = client.piece().await.unwrap() {
        body.extend_from_slice(&piece);
    }
    assert_eq!((head.status, body), (400, gzip(wrong.as_bytes())));
    assert!(head.headers.iter().any(|(name, value)| name == "content-encoding" && value == "gzip"));
    assert_eq!(world.keys(), ["sk-one disabled", "sk-two active"]);
}

#[tokio::test]
async fn a_packed_answer_is_judged_by_what_it_says() {
    let error = r#"{"error":{"message":"Rate limit reached","type":"rate_limit_error","code":"rate_limit_exceeded"}}"#;
    let answer = r#"{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}]}"#;
    let said = |text: &str| Reply::json(200, gzip(text.as_bytes())).header("content-encoding", "gzip");
    let script = Script::new().on(key("sk-one"), said(error)).on(key("sk-two"), said(answer));
    let world = World::of(script, &["sk-one", "sk-two"]).await;
    let got = world.chat().await;
    assert_eq!((got.status, got.header("content-encoding")), (200, "gzip"));
    assert_eq!(world.keys(), ["sk-one resting", "sk-two active"]);
}

#[tokio::test]
async fn a_packed_error_that_repeats_the_key_is_unpacked_to_take_it_out() {
    const SECRET: &str = "plain-words-are-a-key-here";
    let said = format!(
        "{{\"error\":{{\"message\":\"cannot read Bearer {SECRET}\",\"type\":\"invalid_request_error\"}}}}"
    );
    let reply = Reply::json(400, gzip(said.as_bytes())).header("content-encoding", "gzip");
    let world = World::of(Script::new().otherwise(reply), &[SECRET]).await;
    let got = world.chat().await;
    assert_eq!((got.status, got.header("content-encoding"), got.whole), (400, "", true));
    assert_eq!(got.body, said.replace(SECRET, &"*".repeat(SECRET.len())));
}

#[tokio::test]
async fn an_error_whose_words_come_slowly_holds_nobody_up_if_its_status_says_it_all() {
    let slow = |reply: Reply| reply.first_event_after(Duration::from_secs(600));
    let script = Script::new()
        .on(key("sk-one"), slow(Reply::status(500)))
        .on(key("sk-two"), slow(Reply::status(429).header("retry-after", "600")));
    let world = World::of(script, &["sk-one", "sk-two", "sk-three"]).await;
    let got = tokio::time::timeout(Duration::from_secs(9), world.chat()).await.expect("two short waits");
    assert_eq!((got.status, got.header("x-backstop-key")), (200, "sk-three"));
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packing = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    packing.write_all(bytes).unwrap();
    packing.finish().unwrap()
}

#[tokio::test]
async fn a_flood_of_interim_answers_is_no_answer() {
    let script = Script::new()
        .on(key("sk-one"), Reply::raw("HTTP/1.1 103 Early Hints\r\n\r\n".repeat(200_000)))
        .on(key("sk-two"), Reply::answer().informational(100));
    let world = World::new(Setup { script, provider: "timeout_ms = 5000\n", ..Setup::default() }).await;
    let got = world.stream().await;
    assert_eq!((got.status, got.header("x-backstop-key"), got.whole), (200, "sk-two", true), "{}", got.body);
}
