//! Objects that live at a provider go back to the key that made them.

use backstop_faultd::{Reply, Script, path};

use crate::world::{Setup, World};

#[tokio::test]
async fn a_stored_answer_is_continued_with_the_key_that_made_it() {
    let answer = r#"{"id":"resp_0123456789abcdef","object":"response","status":"completed","output":[{"type":"message","role":"assistant","content":[{"type":"output_text","text":"hi"}]}]}"#;
    let script = Script::new().on(path("/responses"), Reply::json(200, answer));
    let provider = "rotation = \"round-robin\"\n";
    let setup = Setup {
        script,
        format: "openai-responses",
        keys: &["sk-one", "sk-two", "sk-three"],
        provider,
        ..Setup::default()
    };
    let world = World::new(setup).await;
    let first = world.post("/proxy/p/v1/responses", r#"{"model":"m","input":"hi","store":true}"#).await;
    let maker = first.header("x-backstop-key").to_owned();
    for _ in 0..4 {
        let body = r#"{"model":"m","input":"more","previous_response_id":"resp_0123456789abcdef"}"#;
        let got = world.post("/proxy/p/v1/responses", body).await;
        assert_eq!((got.status, got.header("x-backstop-key")), (200, maker.as_str()), "{}", got.body);
    }
    let got = world.get("/proxy/p/v1/responses/resp_0123456789abcdef").await;
    assert_eq!(got.header("x-backstop-key"), maker);
}

#[tokio::test]
async fn a_stateful_call_that_may_have_been_accepted_is_not_repeated() {
    let script = Script::new().otherwise(Reply::reset());
    let world = World::new(Setup { script, format: "openai-responses", ..Setup::default() }).await;
    let got = world.post("/proxy/p/v1/responses", r#"{"model":"m","input":"hi","background":true}"#).await;
    assert!(matches!(got.status, 502 | 504), "{}", got.status);
    assert_eq!(got.header("x-should-retry"), "false");
    assert_eq!(world.provider.log().len(), 1);
}
