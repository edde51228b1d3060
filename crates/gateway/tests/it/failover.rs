//! Failures before the client has seen anything: the next key, the next model, the next provider, or back at once.

use backstop_faultd::{Faultd, How, Point, Reply, Script, key, model};

use crate::world::{Setup, World};

#[tokio::test]
async fn bad_keys_are_asked_once_and_then_left_alone() {
    let script = Script::new()
        .on(key("sk-limited"), Reply::status(429).header("retry-after", "600"))
        .on(key("sk-dead"), Reply::error(401, "invalid_api_key", "Incorrect API key provided: sk-dead."))
        .on(key("sk-broken").streaming(), Reply::answer().cut(Point::Headers, How::Reset));
    let keys = &["sk-limited", "sk-dead", "sk-broken", "sk-good"];
    let world =
        World::new(Setup { script, keys, provider: "rules = \"openai\"\n", ..Setup::default() }).await;
    let first = world.stream().await;
    assert_eq!((first.status, first.whole), (200, true), "{}", first.body);
    assert_eq!(first.count("[DONE]"), 1);
    assert_eq!(first.header("x-backstop-attempts"), "4");
    for _ in 0..3 {
        assert_eq!(world.chat().await.status, 200);
        assert_eq!(world.stream().await.status, 200);
    }
    let asked = world.asked();
    assert_eq!(asked[0], ("sk-limited".into(), 1));
    assert_eq!(asked[1], ("sk-dead".into(), 1));
    assert_eq!(world.keys()[..2], ["sk-limited active without m", "sk-dead disabled"]);
}

#[tokio::test]
async fn a_malformed_request_goes_back_after_one_call_whatever_the_number_of_keys() {
    let body = r#"{"error":{"message":"Invalid value for 'temperature'.","type":"invalid_request_error","param":"temperature","code":null}}"#;
    let script = Script::new().otherwise(Reply::json(400, body).header("x-request-id", "up-1"));
    let world = World::of(script, &["sk-one", "sk-two", "sk-three"]).await;
    let got = world.chat().await;
    assert_eq!((got.status, got.body.as_str()), (400, body));
    assert_eq!(got.header("x-should-retry"), "false");
    assert_eq!(got.header("x-request-id"), "up-1");
    assert_eq!(world.provider.log().len(), 1);
    assert_eq!(world.keys(), ["sk-one active", "sk-two active", "sk-three active"]);
}

#[tokio::test]
async fn overload_waits_on_the_same_key_twice_and_then_moves_on() {
    let settings = "overload_wait_s = 0\nprovider_fault_limit = 9\n";
    let script = Script::new().on(key("sk-one"), Reply::error(503, "overloaded", "The model is overloaded."));
    let world = World::new(Setup { script, provider: settings, ..Setup::default() }).await;
    let got = world.chat().await;
    assert_eq!(got.status, 200, "{}", got.body);
    assert_eq!(world.asked(), [("sk-one".into(), 3), ("sk-two".into(), 1)]);
    assert_eq!(world.keys(), ["sk-one active", "sk-two active"]);
}

#[tokio::test]
async fn a_missing_model_tries_the_next_model_on_the_same_key() {
    let script = Script::new().on(
        model("m"),
        Reply::error(404, "model_not_found", "The model `m` does not exist or you do not have access to it."),
    );
    let provider = "models = [\"m\", \"n\"]\nmodel_fallback = true\n";
    let world = World::new(Setup { script, provider, ..Setup::default() }).await;
    let got = world.chat().await;
    assert_eq!(got.status, 200, "{}", got.body);
    assert_eq!(got.header("x-backstop-model"), "n");
    let log = world.provider.log();
    assert_eq!((log[1].model.as_deref(), log[1].key.as_deref()), (Some("n"), Some("sk-one")));
    assert_eq!(String::from_utf8_lossy(&log[1].body), crate::world::CHAT.replace("\"m\"", "\"n\""));
}

#[tokio::test]
async fn a_provider_without_a_usable_key_hands_over_to_its_fallback() {
    let other = Faultd::start(Script::new()).await.unwrap();
    let tables = format!(
        "[[provider]]\nid = \"q\"\nformat = \"openai-chat\"\nbase_url = \"{}\"\n[[provider.key]]\nvalue = \"sk-q\"\n",
        other.base_url()
    );
    let provider = "[[provider.fallback]]\nprovider = \"q\"\nmodel = \"other\"\n";
    let script = Script::new().otherwise(Reply::status(429).header("retry-after", "600"));
    let world = World::new(Setup { script, provider, tables: &tables, ..Setup::default() }).await;
    let got = world.chat().await;
    assert_eq!((got.status, got.header("x-backstop-provider")), (200, "q"), "{}", got.body);
    assert_eq!(other.log()[0].model.as_deref(), Some("other"));
    assert_eq!(got.header("x-backstop-attempts"), "3");
}

#[tokio::test]
async fn a_silent_provider_with_many_keys_is_bounded() {
    let names: Vec<String> = (0..50).map(|number| format!("sk-{number}")).collect();
    let keys: Vec<&str> = names.iter().map(String::as_str).collect();
    let script = Script::new().otherwise(Reply::never());
    let provider = "timeout_ms = 150\n";
    let world = World::new(Setup { script, keys: &keys, provider, ..Setup::default() }).await;
    let got = world.chat().await;
    assert_eq!(got.status, 504, "{}", got.body);
    assert_eq!(got.header("x-should-retry"), "true");
    let calls = world.provider.log().len();
    assert!(calls <= 4, "{calls} calls");
}

#[tokio::test]
async fn an_error_inside_a_success_moves_on() {
    let script = Script::new().on(
        key("sk-one"),
        Reply::json(
            200,
            r#"{"error":{"message":"Rate limit reached","code":"rate_limit_exceeded","type":"requests"}}"#,
        ),
    );
    let world = World::of(script, &["sk-one", "sk-two"]).await;
    let got = world.chat().await;
    assert_eq!((got.status, got.header("x-backstop-key")), (200, "sk-two"), "{}", got.body);
}

#[tokio::test]
async fn an_answer_that_breaks_off_moves_on() {
    for how in [How::Reset, How::Close] {
        let script = Script::new().on(key("sk-one"), Reply::answer().cut(Point::Bytes(20), how));
        let world = World::of(script, &["sk-one", "sk-two"]).await;
        let got = world.chat().await;
        assert_eq!((got.status, got.whole), (200, true), "{how:?}: {}", got.body);
        assert_eq!(got.header("x-backstop-key"), "sk-two");
    }
}

#[tokio::test]
async fn redirects_are_never_followed() {
    let elsewhere = Faultd::start(Script::new()).await.unwrap();
    let target = format!("{}/v1/chat/completions", elsewhere.base_url());
    let world = World::of(Script::new().otherwise(Reply::redirect(307, target)), &["sk-one"]).await;
    let got = world.chat().await;
    assert!(got.status >= 400, "{}", got.status);
    assert!(elsewhere.log().is_empty());
}

#[tokio::test]
async fn a_success_that_is_no_answer_moves_on() {
    let replies = [
        Reply::json(200, ""),
        Reply::empty(204),
        Reply::json(200, r#"{"id":"x","object":"chat.completion","choices":[]}"#),
        Reply::json(200, r#"{"code":1000,"success":false,"msg":"Authentication Failed"}"#),
    ];
    for reply in replies {
        let world = World::of(Script::new().on(key("sk-one"), reply), &["sk-one", "sk-two"]).await;
        let got = world.chat().await;
        assert_eq!((got.status, got.header("x-backstop-key")), (200, "sk-two"), "{}", got.body);
    }
}

#[tokio::test]
async fn every_way_to_break_off_is_hidden_while_one_good_key_is_left() {
    let points = [
        Point::Request,
        Point::Status,
        Point::Headers,
        Point::Bytes(1),
        Point::ChunkSize(0),
        Point::FinalChunk,
    ];
    for streaming in [false, true] {
        for at in points {
            for how in [How::Close, How::Reset] {
                let world = World::of(
                    Script::new().on(key("sk-one"), Reply::answer().cut(at, how)),
                    &["sk-one", "sk-two"],
                )
                .await;
                let got = if streaming { world.stream().await } else { world.chat().await };
                assert_eq!((got.status, got.whole), (200, true), "{at:?} {how:?} {streaming}: {}", got.body);
            }
        }
    }
}

#[tokio::test]
async fn malformed_answers_move_on() {
    use backstop_faultd::Framing;
    let replies = [
        Reply::raw("HTTP/1.1 garbage\r\n\r\n"),
        Reply::raw("\x00\x01\x02"),
        Reply::answer().framing(Framing::WrongLength(100)),
        Reply::answer().framing(Framing::BadChunks),
        Reply::answer().framing(Framing::DuplicateLength),
        Reply::answer().filler_headers(5_000),
    ];
    for reply in replies {
        let world = World::of(Script::new().on(key("sk-one"), reply.clone()), &["sk-one", "sk-two"]).await;
        let got = world.chat().await;
        assert_eq!((got.status, got.whole), (200, true), "{reply:?}: {}", got.body);
    }
}

#[tokio::test]
async fn a_clients_own_words_in_an_error_steer_nothing() {
    let words = "your credit balance is too low to access this API, invalid api key";
    let body =
        format!(r#"{{"error":{{"message":"Cannot process: {words}","type":"invalid_request_error"}}}}"#);
    let world = World::of(Script::new().otherwise(Reply::json(400, body)), &["sk-one", "sk-two"]).await;
    let asked = format!(r#"{{"model":"m","messages":[{{"role":"user","content":"{words}"}}]}}"#);
    let got = world.post("/proxy/p/v1/chat/completions", &asked).await;
    assert_eq!((got.status, world.provider.log().len()), (400, 1), "{}", got.body);
    assert_eq!(world.keys(), ["sk-one active", "sk-two active"]);
}

#[tokio::test]
async fn a_bomb_of_an_error_is_read_as_far_as_evidence_needs() {
    let script = Script::new().on(key("sk-one"), Reply::gzip_bomb(500, 1 << 24));
    let world = World::of(script, &["sk-one", "sk-two"]).await;
    let got = world.chat().await;
    assert_eq!((got.status, got.header("x-backstop-key")), (200, "sk-two"));
}
