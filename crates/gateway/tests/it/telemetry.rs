//! Traces, metrics and costs as a collector and the log get them.

use std::time::Duration;

use backstop_faultd::{Call, Faultd, Reply, Script, key};
use expect_test::expect;
use serde_json::Value;

use crate::world::{CHAT, Setup, World};

const PARENT: &str = "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\r\n";

// The end of a gateway blocks its caller; the collector must go on meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn a_collector_gets_a_span_for_the_request_and_one_for_each_call_and_the_sums_at_the_end() {
    let collector = Faultd::start(Script::new().otherwise(Reply::json(200, "{}"))).await.unwrap();
    let tables = format!("[server]\notlp = \"http://{}/\"\n", collector.addr());
    let script = Script::new().on(key("sk-one"), Reply::status(429).header("retry-after", "600"));
    let provider = "models = [\"m\"]\n";
    let world = World::new(Setup { script, provider, tables: &tables, ..Setup::default() }).await;
    let got = world.post_with("/proxy/p/v1/chat/completions", CHAT, PARENT).await;
    assert_eq!(got.status, 200, "{}", got.body);
    let unsampled = PARENT.replace("-01\r", "-00\r");
    assert_eq!(world.post_with("/proxy/p/v1/chat/completions", CHAT, &unsampled).await.status, 200);
    world.gateway.shutdown().await;

    let spans: Vec<Value> = bodies(&collector.log(), "/v1/traces")
        .iter()
        .flat_map(|body| body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap().clone())
        .collect();
    assert!(spans.iter().all(|span| span["traceId"] == "4bf92f3577b34da6a3ce929d0e0e4736"), "{spans:?}");
    assert_eq!(spans[0]["parentSpanId"], "00f067aa0ba902b7");
    assert!(spans[1..].iter().all(|span| span["parentSpanId"] == spans[0]["spanId"]));
    let told: Vec<String> = spans.iter().map(span_line).collect();
    expect![[r#"
        POST /proxy/{provider}/v1/chat/completions kind=2 status={} http.request.method="POST" http.route="/proxy/{provider}/v1/chat/completions" http.response.status_code="200" backstop.provider="p" backstop.outcome="succeeded" backstop.fallback=false backstop.attempts="2" backstop.client="test"
        chat m kind=3 status={"code":2,"message":"rate_limited"} gen_ai.operation.name="chat" gen_ai.request.model="m" gen_ai.request.stream=false backstop.provider="p" backstop.key="sk-one" gen_ai.provider.name="generic" server.address="127.0.0.1" http.response.status_code="429" error.type="rate_limit" backstop.reason="rate_limited" backstop.rule="generic/rate-limit-text"
        chat m kind=3 status={} gen_ai.operation.name="chat" gen_ai.request.model="m" gen_ai.request.stream=false backstop.provider="p" backstop.key="sk-two" gen_ai.provider.name="generic" server.address="127.0.0.1" http.request.resend_count="1" http.response.status_code="200" gen_ai.usage.input_tokens="11" gen_ai.usage.output_tokens="7""#]].assert_eq(&told.join("\n"));

    let metrics = bodies(&collector.log(), "/v1/metrics");
    let metrics = metrics[0]["resourceMetrics"][0]["scopeMetrics"][0]["metrics"].as_array().unwrap();
    let told: Vec<String> = metrics
        .iter()
        .flat_map(|metric| {
            let points = metric["histogram"]["dataPoints"].as_array().unwrap().iter();
            points.map(move |point| {
                let name = metric["name"].as_str().unwrap();
                format!("{name} count={} {}", point["count"].as_str().unwrap(), attributes(point))
            })
        })
        .collect();
    expect![[r#"
        gen_ai.client.operation.duration count=2 gen_ai.operation.name="chat" gen_ai.provider.name="generic" gen_ai.request.model="m"
        gen_ai.client.token.usage count=2 gen_ai.operation.name="chat" gen_ai.provider.name="generic" gen_ai.request.model="m" gen_ai.token.type="input"
        gen_ai.client.token.usage count=2 gen_ai.operation.name="chat" gen_ai.provider.name="generic" gen_ai.request.model="m" gen_ai.token.type="output""#]].assert_eq(&told.join("\n"));
}

#[tokio::test]
async fn a_collector_that_hangs_costs_no_request_anything() {
    let collector = Faultd::start(Script::new().otherwise(Reply::never())).await.unwrap();
    let tables = format!("[server]\notlp = \"http://{}\"\n", collector.addr());
    let world = World::new(Setup { tables: &tables, ..Setup::default() }).await;
    for _ in 0..20 {
        assert_eq!(world.chat().await.status, 200);
    }
    tokio::time::timeout(Duration::from_secs(10), world.gateway.shutdown()).await.expect("an end in time");
}

#[tokio::test]
async fn the_log_has_the_cost_that_the_provider_tells_and_none_where_no_price_is_known() {
    let told = r#"{"id":"c","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":100,"completion_tokens":20,"cost":0.0125}}"#;
    let script = Script::new().on(key("sk-one").nth(1), Reply::json(200, told));
    let world = World::of(script, &["sk-one"]).await;
    let first = world.logged(world.chat().await.header("x-backstop-request-id")).await;
    let second = world.logged(world.chat().await.header("x-backstop-request-id")).await;
    assert_eq!((first.cost_micros, first.cost_reported, first.tokens.input), (Some(12_500), true, Some(100)));
    assert_eq!(
        (second.cost_micros, second.cost_reported),
        (None, false),
        "a server of one's own has no price"
    );
}

fn bodies(log: &[Call], path: &str) -> Vec<Value> {
    let calls = log.iter().filter(|call| call.path == path);
    calls.map(|call| serde_json::from_slice(&call.body).unwrap()).collect()
}

fn span_line(span: &Value) -> String {
    format!(
        "{} kind={} status={} {}",
        span["name"].as_str().unwrap(),
        span["kind"],
        span["status"],
        attributes(span)
    )
}

/// Attributes without those that differ from run to run.
fn attributes(of: &Value) -> String {
    let changing = ["backstop.request_id", "server.port"];
    let list = of["attributes"].as_array().unwrap().iter();
    let steady = list.filter(|attribute| !changing.contains(&attribute["key"].as_str().unwrap()));
    let pair = |attribute: &Value| {
        let value = attribute["value"].as_object().unwrap().values().next().unwrap();
        format!("{}={value}", attribute["key"].as_str().unwrap())
    };
    steady.map(pair).collect::<Vec<_>>().join(" ")
}
