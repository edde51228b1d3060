//! Who is told what: one alert for one cause, through a webhook, in the bell, and across restarts.

use std::time::Duration;

use backstop_faultd::{Faultd, Reply, Script, key};
use serde_json::Value;

use crate::world::{Setup, World};

/// A webhook's receiver.
struct Sink(Faultd);

impl Sink {
    async fn new() -> Self {
        Self(Faultd::start(Script::new().otherwise(Reply::json(200, "{}"))).await.unwrap())
    }

    /// The table that leads here, behind settings for impatient tests.
    fn tables(&self) -> String {
        format!(
            "[settings]\nalert_clear_s = 1\n[[alert]]\nchannel = \"webhook\"\nurl = \"http://{}/hook\"\nsecret = \"whsec\"\n",
            self.0.addr()
        )
    }

    /// Waits for this many notices; each as `type condition group count`.
    async fn notices(&self, count: usize) -> Vec<String> {
        let arrived = async {
            while self.0.log().len() < count {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), arrived)
            .await
            .expect("the notices within the patience");
        let told = |body: &[u8]| {
            let notice: Value = serde_json::from_slice(body).unwrap();
            let word = |name: &str| notice[name].as_str().unwrap_or_default().to_owned();
            format!("{} {} {} {}", word("type"), word("condition"), word("group"), notice["count"])
        };
        self.0.log().iter().map(|call| told(&call.body)).collect()
    }
}

fn dead(key: &str) -> Reply {
    Reply::error(401, "invalid_api_key", format!("Incorrect API key provided: {key}."))
}

#[tokio::test]
async fn forty_dead_keys_are_one_alert_and_a_restart_announces_nothing_again() {
    let sink = Sink::new().await;
    let keys: Vec<String> = (1..=41).map(|number| format!("sk-{number:02}")).collect();
    let mut script = Script::new();
    for name in &keys[..40] {
        script = script.on(key(name), dead(name));
    }
    let names: Vec<&str> = keys.iter().map(String::as_str).collect();
    let provider = "rules = \"openai\"\nmax_attempts = 100\n";
    let tables = sink.tables();
    let world =
        World::new(Setup { script, keys: &names, provider, tables: &tables, ..Setup::default() }).await;
    assert_eq!(world.chat().await.status, 200);
    assert_eq!(sink.notices(1).await, ["alert.raised key_disabled p 40"]);
    let bell = world.gateway.control().store().notices().unwrap();
    assert_eq!(
        (bell.len(), bell[0].kind.as_str(), bell[0].subject.as_str()),
        (1, "key_disabled", "provider/p")
    );
    assert!(bell[0].text.contains("sk-01") && bell[0].text.contains("and 30 more"), "{}", bell[0].text);

    let world = world.restarted();
    assert_eq!(world.chat().await.status, 200);
    // Another cause shows that the rounds go on.
    world.gateway.control().reload_refused();
    let told = sink.notices(2).await;
    assert_eq!(told, ["alert.raised key_disabled p 40", "alert.raised config_reload_failed configuration 1"]);
    let on: Vec<String> =
        world.gateway.control().alerts().iter().map(|(topic, _)| topic.to_string()).collect();
    assert_eq!(on, ["key_disabled/p", "config_reload_failed/configuration"]);
}

#[tokio::test]
async fn a_provider_without_any_usable_key_is_told_with_its_causes_and_taken_back_once() {
    let sink = Sink::new().await;
    let script = Script::new().on(key("sk-one"), dead("sk-one")).on(key("sk-two"), dead("sk-two"));
    let tables = sink.tables();
    let provider = "rules = \"openai\"\n";
    let world = World::new(Setup { script, provider, tables: &tables, ..Setup::default() }).await;
    assert_eq!(world.chat().await.status, 502);
    assert_eq!(sink.notices(1).await, ["alert.raised provider_down p 1"]);
    let control = world.gateway.control();
    for status in control.keys(&"p".into()) {
        assert!(control.act(&"p".into(), status.id, backstop_triage::pool::Deed::Reset).await);
    }
    assert_eq!(sink.notices(2).await[1], "alert.recovered provider_down p 1");
    let channels = control.alert_channels();
    assert_eq!((channels.len(), channels[0].delivered, channels[0].queued), (1, 2, 0));
}

#[tokio::test]
async fn a_fallback_in_use_is_told() {
    let sink = Sink::new().await;
    let other = Faultd::start(Script::new()).await.unwrap();
    let tables = format!(
        "{}[[provider]]\nid = \"q\"\nformat = \"openai-chat\"\nbase_url = \"{}\"\n[[provider.key]]\nvalue = \"sk-q\"\n",
        sink.tables(),
        other.base_url()
    );
    let provider = "overload_wait_s = 0\noverload_retries = 0\n[[provider.fallback]]\nprovider = \"q\"\n";
    let script = Script::new().otherwise(Reply::error(503, "overloaded", "The model is overloaded."));
    let world = World::new(Setup { script, provider, tables: &tables, ..Setup::default() }).await;
    assert_eq!(world.chat().await.header("x-backstop-provider"), "q");
    assert_eq!(sink.notices(1).await, ["alert.raised fallback_in_use p 1"]);
}

#[tokio::test]
async fn a_channel_that_cannot_work_is_refused_with_its_line() {
    let catalog = backstop_triage::Catalog::embedded();
    let text = "[[alert]]\nchannel = \"webhook\"\nurl = \"https://example.org\"\n";
    let environment = backstop_gateway::config::Environment::default();
    let error = backstop_gateway::config::Config::parse(
        text,
        std::path::Path::new("backstop.toml"),
        &environment,
        &catalog,
    );
    let error = error.unwrap_err();
    assert_eq!(error.problems[0].line, 1);
    assert!(error.problems[0].what.contains("a webhook is signed"), "{}", error.problems[0].what);
}
