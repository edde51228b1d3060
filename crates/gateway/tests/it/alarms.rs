//! Who is told what: one alert for one cause, through a webhook, in the bell, and across restarts. Each condition is
//! brought about by what brings it about in life.

use std::{process::Command, time::Duration};

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

/// What is told first of a provider `p` with these keys after this many requests.
async fn told(setup: Setup<'_>, requests: usize) -> (String, World) {
    let sink = Sink::new().await;
    let tables = format!("{}{}", sink.tables(), setup.tables);
    let world = World::new(Setup { tables: &tables, ..setup }).await;
    for _ in 0..requests {
        world.chat().await;
    }
    let mut notices = sink.notices(1).await;
    (notices.remove(0), world)
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
    let world =
        World::new(Setup { script, keys: &["sk-one"], provider, tables: &tables, ..Setup::default() }).await;
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

#[tokio::test]
async fn a_full_window_is_told_for_its_key() {
    let full = r#"{"error":{"code":"1308","message":"Usage limit reached for 5 hour. Your limit will reset at 2099-01-01 00:00:00"}}"#;
    let script = Script::new().on(key("sk-one"), Reply::json(429, full));
    let setup = Setup { script, provider: "rules = \"zai\"\n", ..Setup::default() };
    assert_eq!(told(setup, 1).await.0, "alert.raised key_quota_exhausted p 1");
}

#[tokio::test]
async fn an_account_without_money_is_told_once_for_all_its_keys() {
    let empty = || {
        Reply::error(
            429,
            "insufficient_quota",
            "You exceeded your current quota, please check your plan and billing details.",
        )
    };
    let script = Script::new().on(key("sk-one"), empty()).on(key("sk-two"), empty());
    let keys = &["sk-one", "sk-two", "sk-three"];
    let setup = Setup { script, keys, provider: "rules = \"openai\"\n", ..Setup::default() };
    let (first, world) = told(setup, 1).await;
    assert!(first.starts_with("alert.raised account_out_of_money p "), "{first}");
    let on = world.gateway.control().alerts();
    assert_eq!(on.len(), 1, "one cause, one alert: {on:?}");
}

#[tokio::test]
async fn a_model_that_is_refused_again_and_again_is_told_as_its_own_breaker() {
    let gone =
        Reply::error(404, "model_not_found", "The model `m` does not exist or you do not have access to it.");
    let setup =
        Setup { script: Script::new().otherwise(gone), provider: "rules = \"openai\"\n", ..Setup::default() };
    assert_eq!(told(setup, 3).await.0, "alert.raised model_circuit_open p 1");
}

#[tokio::test]
async fn a_provider_that_fails_everybody_is_told_as_a_breaker() {
    let down = Reply::error(500, "server_error", "The server had an error while processing your request.");
    let provider = "rules = \"openai\"\ncircuit_breaker_threshold = 2\nlast_key_ladder_s = []\n";
    let setup = Setup { script: Script::new().otherwise(down), provider, ..Setup::default() };
    assert_eq!(told(setup, 3).await.0, "alert.raised circuit_open p 1");
}

#[tokio::test]
async fn a_failure_in_unknown_words_is_told() {
    let odd = Reply::json(418, r#"{"oops":"a teapot of a new kind"}"#);
    let setup = Setup { script: Script::new().on(key("sk-one").nth(1), odd), ..Setup::default() };
    assert_eq!(told(setup, 1).await.0, "alert.raised unknown_failures p 1");
}

#[tokio::test]
async fn a_refused_region_is_told_as_a_misconfigured_route() {
    let region = Reply::error(
        403,
        "unsupported_country_region_territory",
        "Country, region, or territory not supported",
    );
    let setup = Setup {
        script: Script::new().otherwise(region),
        provider: "rules = \"openai\"\n",
        ..Setup::default()
    };
    assert_eq!(told(setup, 1).await.0, "alert.raised misconfigured_route p 1");
}

#[tokio::test]
async fn many_keys_refused_at_once_without_proof_are_told_as_one_refusal() {
    let keys = ["sk-1", "sk-2", "sk-3", "sk-4", "sk-5", "sk-6"];
    let script =
        keys[..5].iter().fold(Script::new(), |script, name| script.on(key(*name), Reply::empty(401)));
    let setup = Setup { script, keys: &keys, provider: "max_attempts = 100\n", ..Setup::default() };
    assert_eq!(told(setup, 2).await.0, "alert.raised mass_refusal p 1");
}

#[tokio::test]
async fn a_certificate_that_nobody_known_has_signed_is_told_until_it_is_trusted() {
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate =
        rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap().self_signed(&key).unwrap();
    let address = crate::connections::encrypted(&certificate, &key).await;
    let tables = format!(
        "[[provider]]\nid = \"q\"\nformat = \"openai-chat\"\nbase_url = \"https://localhost:{}/v1\"\nlast_key_ladder_s = []\n[[provider.key]]\nvalue = \"sk-q\"\n",
        address.port()
    );
    let sink = Sink::new().await;
    let tables = format!("{}{tables}", sink.tables());
    let world = World::new(Setup { tables: &tables, ..Setup::default() }).await;
    world.post("/proxy/q/v1/chat/completions", crate::world::CHAT).await;
    assert_eq!(sink.notices(1).await, ["alert.raised certificate_trouble q 1"]);
    let file = world.folder.path().join("ca.pem");
    std::fs::write(&file, certificate.pem()).unwrap();
    world.reload(|config| {
        let provider = config.providers.iter_mut().find(|provider| provider.id.as_str() == "q").unwrap();
        provider.ca_file = Some(file);
    });
    assert_eq!(world.post("/proxy/q/v1/chat/completions", crate::world::CHAT).await.status, 200);
    assert_eq!(sink.notices(2).await[1], "alert.recovered certificate_trouble q 1");
}

#[tokio::test]
async fn ends_in_vain_are_told_as_a_crash_loop() {
    let sink = Sink::new().await;
    let tables = sink.tables();
    let script = Script::new().otherwise(Reply::error(400, "invalid_request_error", "no"));
    let mut world = World::new(Setup { script, tables: &tables, ..Setup::default() }).await;
    for _ in 0..3 {
        world.chat().await;
        world = world.restarted();
    }
    assert_eq!(world.chat().await.status, 503, "safe mode");
    assert_eq!(sink.notices(1).await, ["alert.raised crash_loop gateway 1"]);
}

#[tokio::test]
async fn a_lost_key_file_is_one_alert_and_one_key_that_cannot_be_opened_is_its_providers() {
    let sink = Sink::new().await;
    let tables = sink.tables();
    let world = World::new(Setup { tables: &tables, ..Setup::default() }).await;
    let store = world.gateway.control().store().clone();
    let new = |label: &str| backstop_store::keys::NewKey {
        label: label.to_owned(),
        account: None,
        secret: backstop_store::Secret::new(label),
    };
    store.add_keys(&"p".into(), vec![new("added"), new("also added")]).wait().unwrap();
    drop(store);
    let file = world.folder.path().join("master.key");
    let kept = std::fs::read(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    let world = world.restarted();
    assert_eq!(sink.notices(1).await, ["alert.raised key_locked store/secrets 1"]);
    std::fs::write(&file, kept).unwrap();
    let world = world.restarted();
    assert_eq!(sink.notices(2).await[1], "alert.recovered key_locked store/secrets 1");
    drop(world);
}

/// A small file system of its own, for as long as it is held.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    /// None without the right to mount.
    fn mount() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=16m", "tmpfs"]).arg(folder.path());
        mount.output().is_ok_and(|output| output.status.success()).then_some(Self(folder))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _best_effort = Command::new("umount").arg("-l").arg(self.0.path()).output();
    }
}

#[tokio::test]
async fn a_full_disk_is_told_although_nothing_can_be_written() {
    let Some(disk) = SmallDisk::mount() else {
        eprintln!("SKIPPED: mounting a tmpfs needs root");
        return;
    };
    let folder = disk.0.path();
    let sink = Sink::new().await;
    let config =
        format!("{}[[client]]\nname = \"t\"\nvalue = \"{}\"\n", sink.tables(), crate::world::CLIENT_KEY);
    let gateway = crate::world::start(&config, folder);
    assert_eq!(sink.notices(1).await, ["alert.raised disk_low disk 1"]);
    let _full = std::fs::write(folder.join("filler"), vec![0; 32 << 20]);
    let store = gateway.control().store().clone();
    for number in 0..200 {
        drop(store.save_health(vec![(format!("key/{number}"), "x".repeat(4_000))]));
    }
    assert_eq!(sink.notices(2).await[1], "alert.raised store_failing store 1");
    std::fs::remove_file(folder.join("filler")).unwrap();
    assert_eq!(sink.notices(3).await[2], "alert.recovered store_failing store 1");
}
