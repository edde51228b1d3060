//! What operators can draw: every metric by name, with its labels.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use backstop_faultd::{Faultd, Reply, Script, key, model};
use expect_test::expect;

use crate::world::{Setup, World};

#[tokio::test]
async fn every_metric_is_there_with_its_labels_and_its_help() {
    let world = lively_world().await;
    let text = world.get("/metrics").await.body;
    let mut labels = BTreeMap::<&str, BTreeSet<&str>>::new();
    let mut kinds = BTreeMap::<&str, &str>::new();
    let mut helped = BTreeSet::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            kinds.extend(rest.split_once(' '));
        } else if let Some(rest) = line.strip_prefix("# HELP ") {
            helped.extend(rest.split_once(' ').map(|(name, _)| name));
        } else if let Some((name, rest)) = line.split_once(['{', ' ']) {
            let names = rest
                .split('}')
                .next()
                .unwrap_or_default()
                .split("\",")
                .filter_map(|pair| pair.split_once("=\""));
            let base = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
            let base = base.filter(|base| kinds.contains_key(base)).unwrap_or(name);
            labels.entry(base).or_default().extend(names.map(|(name, _)| name));
        }
    }
    assert_eq!(kinds.keys().copied().collect::<BTreeSet<_>>(), helped);
    let line = |(name, kind): (&&str, &&str)| {
        let labels = labels.get(name).map(|labels| labels.iter().copied().collect::<Vec<_>>().join(","));
        format!("{name} {kind} {{{}}}", labels.unwrap_or_else(|| "NO SAMPLE".to_owned()))
    };
    let table: Vec<String> = kinds.iter().map(line).collect();
    expect![[r#"
        backstop_accept_pauses_total counter {}
        backstop_alerts_total counter {result,sink}
        backstop_ambiguous_retries_total counter {}
        backstop_attempts_total counter {class,model,provider}
        backstop_build_info gauge {version}
        backstop_connections gauge {}
        backstop_fallbacks_total counter {from,to}
        backstop_inflight gauge {}
        backstop_key_errors_total counter {class,key,provider}
        backstop_key_quota_remaining_ratio gauge {key,provider,window}
        backstop_key_state gauge {key,provider,state}
        backstop_key_until_timestamp_seconds gauge {key,provider}
        backstop_masked_failures_total counter {}
        backstop_overhead_seconds histogram {le}
        backstop_probes_total counter {}
        backstop_refused_total counter {}
        backstop_reload_failures_total counter {}
        backstop_request_duration_seconds histogram {le,provider}
        backstop_requests_total counter {model,outcome,provider,route}
        backstop_retries_total counter {reason}
        backstop_retry_budget_exhausted_total counter {}
        backstop_store_dropped_total counter {kind}
        backstop_store_errors_total counter {op}
        backstop_store_failing gauge {}
        backstop_store_waiting gauge {}
        backstop_store_waits_total counter {}
        backstop_supervised_restarts_total counter {class,name}
        backstop_telemetry_dropped_total counter {}
        backstop_tokens_total counter {direction,model,provider}
        backstop_ttft_seconds histogram {le,provider}
        backstop_unknown_errors_total counter {provider}
        backstop_upstream_connections_total counter {how,provider}"#]]
    .assert_eq(&table.join("\n"));
}

#[tokio::test]
async fn a_models_name_that_a_client_makes_up_makes_no_series() {
    let world = World::new(Setup { provider: "models = [\"m\"]\n", ..Setup::default() }).await;
    for number in 0..20 {
        let body = format!(r#"{{"model":"made-up-{number}","messages":[{{"role":"user","content":"hi"}}]}}"#);
        world.post("/proxy/p/v1/chat/completions", &body).await;
    }
    world.chat().await;
    let text = world.get("/metrics").await.body;
    assert!(!text.contains("made-up"), "{text}");
    let count = |model: &str| {
        let series = format!(
            "backstop_requests_total{{route=\"proxy\",provider=\"p\",model=\"{model}\",outcome=\"succeeded\"}} "
        );
        text.lines().find_map(|line| line.strip_prefix(&series)?.parse::<u64>().ok())
    };
    assert_eq!((count("other"), count("m")), (Some(20), Some(1)), "{text}");
}

/// A gateway to which everything has happened once.
async fn lively_world() -> World {
    let other = Faultd::start(Script::new()).await.unwrap();
    let tables = format!(
        "[[alert]]\nchannel = \"command\"\ncommand = [\"true\"]\n[[provider]]\nid = \"q\"\nformat = \"openai-chat\"\nbase_url = \"{}\"\n[[provider.key]]\nvalue = \"sk-q\"\n",
        other.base_url()
    );
    let full = |used: &str| {
        Reply::answer()
            .header("anthropic-ratelimit-unified-5h-utilization", used)
            .header("anthropic-ratelimit-unified-5h-reset", "4102444800")
    };
    let script = Script::new()
        .on(key("sk-one"), Reply::status(429).header("retry-after", "600"))
        .on(model("gone"), Reply::error(503, "overloaded", "The model is overloaded."))
        .otherwise(full("0.75"));
    let provider = "rules = \"claude-subscription\"\nmodels = [\"m\"]\noverload_wait_s = 0\noverload_retries = 0\n[[provider.fallback]]\nprovider = \"q\"\n";
    let world = World::new(Setup { script, provider, tables: &tables, ..Setup::default() }).await;
    let seats = world.folder.path().join("seats");
    std::fs::create_dir_all(&seats).unwrap();
    std::fs::write(seats.join("writer.json"), r#"{"n":2,"runs":2,"failed":{"overloaded":2}}"#).unwrap();
    let channels = async {
        while world.gateway.control().alert_channels().is_empty() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), channels).await.expect("channels within the patience");
    assert_eq!(world.chat().await.status, 200);
    assert_eq!(world.stream().await.status, 200);
    let gone = r#"{"model":"gone","messages":[{"role":"user","content":"hi"}]}"#;
    assert_eq!(world.post("/proxy/p/v1/chat/completions", gone).await.header("x-backstop-provider"), "q");
    world
}
