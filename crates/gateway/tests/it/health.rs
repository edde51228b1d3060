//! Health outlives the process.

use backstop_faultd::{Reply, Script, key};

use crate::world::{Setup, World};

#[tokio::test]
async fn rests_and_disabled_keys_are_left_alone_after_a_restart() {
    let script = Script::new()
        .on(key("sk-limited"), Reply::status(429).header("retry-after", "600"))
        .on(key("sk-dead"), Reply::error(401, "invalid_api_key", "Incorrect API key provided: sk-dead."));
    let keys = &["sk-limited", "sk-dead", "sk-good"];
    let world =
        World::new(Setup { script, keys, provider: "rules = \"openai\"\n", ..Setup::default() }).await;
    assert_eq!(world.chat().await.status, 200);
    let world = world.restarted();
    assert_eq!(world.keys(), ["sk-limited active without m", "sk-dead disabled", "sk-good active"]);
    assert_eq!(world.chat().await.status, 200);
    assert_eq!(world.asked(), [("sk-limited".into(), 1), ("sk-dead".into(), 1), ("sk-good".into(), 2)]);
}

#[tokio::test]
async fn requests_errors_and_unknown_failures_are_kept() {
    let script = Script::new()
        .on(key("sk-one"), Reply::status(429).header("retry-after", "600"))
        .on(key("sk-two").nth(1), Reply::json(418, "{\"oops\":\"a teapot of a new kind\"}"));
    let world = World::of(script, &["sk-one", "sk-two", "sk-three"]).await;
    let got = world.chat().await;
    assert_eq!(got.status, 200, "{}", got.body);
    let id = got.header("x-backstop-request-id").to_owned();
    let control = world.gateway.control();
    let store = control.store().clone();
    // Whatever waits in the store's queues is written before it closes.
    let folder = world.folder.path().to_owned();
    world.gateway.shutdown().await;
    store.close();
    drop((control, store));
    let store = backstop_store::Store::open(&folder).unwrap();
    let row = store.request(&id).unwrap().expect("the request is logged");
    assert_eq!((row.status, row.attempts.len(), row.served_provider.as_deref()), (200, 3, Some("p")));
    let classes: Vec<_> = row
        .attempts
        .iter()
        .map(|attempt| attempt.failure.as_ref().map(|failure| failure.class.as_str()))
        .collect();
    assert_eq!(classes, [Some("rate_limit"), Some("unknown"), None]);
    assert_eq!(store.unknown_failures().unwrap().len(), 1);
    let errors = store.key_errors(row.attempts[0].key).unwrap();
    assert_eq!(errors.len(), 1);
}
