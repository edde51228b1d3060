//! Tokens and money as the API sums them.

use backstop_store::requests::{AttemptRow, RequestRow, Tokens};
use backstop_triage::{KeyId, Timestamp};
use expect_test::expect;

use crate::world::{World, answered};

#[tokio::test]
async fn costs_are_summed_by_day_provider_client_and_key_and_an_unknown_price_is_no_figure() {
    let world = World::with_alpha(2).await;
    let now = Timestamp::now();
    let yesterday = now - std::time::Duration::from_secs(86_400);
    world.store.record_request(request("a", now, 1, Some(1_500)));
    world.store.record_request(request("b", now, 2, None));
    world.store.record_request(request("c", yesterday, 1, Some(500)));
    let costs = world.done("GET", "/api/stats/costs?days=7", None).await;
    let line = |cost: &serde_json::Value| {
        format!(
            "{} requests={} in={} out={} cost={} unpriced={}",
            cost["name"].as_str().unwrap_or("-"),
            cost["requests"],
            cost["input_tokens"],
            cost["output_tokens"],
            cost["cost_micros"],
            cost["unpriced"]
        )
    };
    let mut told = vec![format!("total {}", line(&costs["total"]))];
    for group in ["by_day", "providers", "clients", "keys"] {
        let lines = costs[group].as_array().expect("a list").iter();
        told.extend(lines.map(|cost| format!("{group} {}", line(cost))));
    }
    expect![[r#"
        total - requests=3 in=300 out=60 cost=2000 unpriced=1
        by_day - requests=1 in=100 out=20 cost=500 unpriced=0
        by_day - requests=2 in=200 out=40 cost=1500 unpriced=1
        providers alpha requests=3 in=300 out=60 cost=2000 unpriced=1
        clients without a client key requests=3 in=300 out=60 cost=2000 unpriced=1
        keys key-1 requests=2 in=200 out=40 cost=2000 unpriced=0
        keys key-2 requests=1 in=100 out=20 cost=null unpriced=1"#]]
    .assert_eq(&told.join("\n"));
    assert_eq!(world.ask("GET", "/api/stats/costs?days=0", None).await.0, 422);
}

fn request(id: &str, at: Timestamp, key: u64, cost_micros: Option<u64>) -> RequestRow {
    let attempt = AttemptRow {
        after_ms: 0,
        provider: "alpha".into(),
        model: "large".into(),
        key: KeyId(key),
        key_label: format!("key-{key}"),
        status: Some(200),
        failure: None,
        waited_ms: 0,
        took_ms: 5,
        upstream_id: None,
    };
    RequestRow {
        at,
        tokens: Tokens { input: Some(100), output: Some(20), ..Tokens::default() },
        cost_micros,
        attempts: vec![attempt],
        ..answered(id)
    }
}
