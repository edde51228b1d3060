//! Usage windows that answers tell of.

use backstop_faultd::{Reply, Script, key};
use backstop_triage::{ProviderId, QuotaSnapshot};

use crate::world::{Setup, World};

fn quota(world: &World, label: &str) -> Option<QuotaSnapshot> {
    let keys = world.gateway.control().keys(&ProviderId::from("p"));
    keys.into_iter().find(|key| key.label == label).and_then(|key| key.quota)
}

fn a_quarter_is_left() -> Script {
    Script::new().otherwise(
        Reply::answer()
            .header("x-ratelimit-limit-tokens", "1000")
            .header("x-ratelimit-remaining-tokens", "250")
            .header("x-ratelimit-reset-tokens", "45s"),
    )
}

#[tokio::test]
async fn a_good_answer_tells_how_full_the_keys_windows_are() {
    let script = a_quarter_is_left();
    let world = World::new(Setup { script, provider: "rules = \"openai\"\n", ..Setup::default() }).await;
    assert_eq!(world.stream().await.status, 200);
    let windows = quota(&world, "sk-one").unwrap().windows;
    assert_eq!((windows[0].used, windows[0].limit, windows[0].exhausted), (Some(750.0), Some(1000.0), false));
    assert_eq!(quota(&world, "sk-two"), None);
}

#[tokio::test]
async fn a_key_rests_until_the_window_opens_that_an_earlier_answer_told_of() {
    let later = |seconds: i64| (jiff::Timestamp::now().as_second() + seconds).to_string();
    let told = Reply::answer()
        .header("anthropic-ratelimit-unified-5h-status", "allowed_warning")
        .header("anthropic-ratelimit-unified-5h-utilization", "0.97")
        .header("anthropic-ratelimit-unified-5h-reset", later(7200));
    // The refusal names the window and gives no time.
    let full = Reply::error(429, "rate_limit_error", "5-hour limit reached");
    let script = Script::new().on(key("sk-one").nth(1), told).on(key("sk-one"), full);
    let provider = "rules = \"claude-subscription\"\n";
    let setup = Setup { script, format: "anthropic-messages", provider, ..Setup::default() };
    let world = World::new(setup).await;
    let body = r#"{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}"#;
    for _ in 0..2 {
        assert_eq!(world.post("/proxy/p/v1/messages", body).await.status, 200);
    }
    let keys = world.gateway.control().keys(&ProviderId::from("p"));
    let rests = keys[0].until.unwrap().duration_since(jiff::Timestamp::now()).as_secs();
    // Jitter may add thirty seconds.
    assert!((7100..=7240).contains(&rests), "{rests}");
}

#[tokio::test]
async fn what_is_known_of_windows_outlives_the_process() {
    let script = a_quarter_is_left();
    let world = World::new(Setup { script, provider: "rules = \"openai\"\n", ..Setup::default() }).await;
    assert_eq!(world.chat().await.status, 200);
    let known = quota(&world, "sk-one").expect("told by the answer");
    assert_eq!(quota(&world.restarted(), "sk-one"), Some(known));
}
