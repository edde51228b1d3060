//! The tables that people know, row by row, on the running gateway: what a connection test makes of a key, and the states
//! that a key is shown in.

use std::{fmt::Write as _, time::Duration};

use backstop_faultd::{Faultd, Reply, Script, key};
use expect_test::expect;
use serde_json::{Value, json};

use crate::served::Served;

/// A row: its name, the provider's rules, what the list of models answers, and what the generation answers.
type Row = (&'static str, &'static str, fn() -> Reply, fn() -> Reply);

const ROWS: [Row; 20] = [
    ("content", "openai", list, Reply::answer),
    ("401, documented", "openai", list, || {
        Reply::error(401, "invalid_api_key", "Incorrect API key provided")
    }),
    ("401, bare, list given", "openai", list, || Reply::empty(401)),
    ("401, bare, list refused", "openai", || Reply::empty(401), || Reply::empty(401)),
    ("403, bare, list given", "openai", list, || Reply::empty(403)),
    ("403, bare, list refused", "openai", || Reply::empty(403), || Reply::empty(403)),
    ("402", "openai", list, || Reply::empty(402)),
    ("insufficient balance", "deepseek", list, || {
        Reply::json(
            402,
            r#"{"error":{"message":"Insufficient Balance","type":"unknown_error","code":"invalid_request_error"}}"#,
        )
    }),
    ("insufficient_quota", "openai", list, || {
        Reply::json(
            429,
            r#"{"error":{"message":"You exceeded your current quota, please check your plan and billing details.","type":"insufficient_quota","code":"insufficient_quota"}}"#,
        )
    }),
    ("1113", "zai", list, || {
        Reply::json(
            429,
            r#"{"error":{"code":"1113","message":"Insufficient balance or no resource package. Please recharge."}}"#,
        )
    }),
    ("access_terminated, a full cycle", "kimi-coding", list, || {
        Reply::json(
            403,
            r#"{"error":{"type":"access_terminated_error","message":"You've reached your usage limit for this billing cycle. Your quota will be refreshed in the next cycle. Upgrade to get more: https://www.kimi.com/code/console?from=quota-upgrade"}}"#,
        )
    }),
    ("1308", "zai", list, || {
        Reply::json(
            429,
            r#"{"error":{"code":"1308","message":"Usage limit reached for 5 hour. Your limit will reset at 2099-01-31 11:53:25"}}"#,
        )
    }),
    ("1310", "zai", list, || {
        Reply::json(
            429,
            r#"{"error":{"code":"1310","message":"Weekly/Monthly Limit Exhausted. Your limit will reset at 2099-01-31 11:53:25"}}"#,
        )
    }),
    ("429, a throttle", "openai", list, || {
        Reply::error(429, "rate_limit_exceeded", "Rate limit reached for requests")
    }),
    ("a model for others", "openai", list, || {
        Reply::error(404, "model_not_found", "The model `m` does not exist or you do not have access to it.")
    }),
    ("400", "openai", list, || Reply::error(400, "invalid_value", "max_tokens is too small")),
    ("404 without words", "openai", list, || Reply::empty(404)),
    ("500", "openai", || Reply::empty(500), || Reply::empty(500)),
    ("503", "openai", || Reply::empty(503), || Reply::empty(503)),
    ("a connection that breaks", "openai", Reply::reset, Reply::reset),
];

fn list() -> Reply {
    Reply::json(200, r#"{"object":"list","data":[{"id":"m","object":"model"}]}"#)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_test_makes_of_a_key_what_the_table_says() {
    let secret = |number: usize| format!("sk-row-{number:02}-0123456789abcdef");
    let mut script = Script::new();
    let mut config = String::new();
    for (number, (_, _, models, generation)) in ROWS.iter().enumerate() {
        script =
            script.on(key(secret(number)).path("/models"), models()).on(key(secret(number)), generation());
    }
    let upstream = Faultd::start(script).await.unwrap();
    for (number, (_, rules, ..)) in ROWS.iter().enumerate() {
        write!(
            config,
            "[[provider]]\nid = \"row-{number}\"\nformat = \"openai-chat\"\nbase_url = \"{}\"\nrules = \"{rules}\"\nmodels = [\"m\"]\n[[provider.key]]\nlabel = \"key\"\nvalue = \"{}\"\n",
            upstream.base_url(),
            secret(number)
        )
        .unwrap();
    }
    let served = Served::start(&config).await;
    let mut table = String::new();
    for (number, (name, ..)) in ROWS.iter().enumerate() {
        let keys = format!("/api/providers/row-{number}/keys");
        let id = json_of(&served, &keys).await["items"][0]["id"].clone();
        let (status, report) = served.admin("POST", &format!("{keys}/{id}/test"), None).await;
        assert_eq!(status, 200, "{name}: {report}");
        let report: Value = serde_json::from_str(&report).unwrap();
        let key = json_of(&served, &format!("{keys}/{id}")).await;
        assert_eq!(
            (&key["test"]["valid"], &key["test"]["latency_ms"]),
            (&report["valid"], &report["latency_ms"])
        );
        assert_eq!(
            (&key["succeeded"], &key["failed"]),
            (&json!(0), &json!(0)),
            "{name}: a test is no traffic"
        );
        let valid =
            report["valid"].as_bool().map_or("unknown", |valid| if valid { "valid" } else { "invalid" });
        let said = [&report["warning"], &report["error"]].into_iter().find_map(Value::as_str).unwrap_or("");
        writeln!(table, "{name}: {valid}, {} - {said}", key["state"].as_str().unwrap()).unwrap();
    }
    expect![[r#"
        content: valid, active - 
        401, documented: invalid, disabled - auth_error 401 (invalid_key): Incorrect API key provided
        401, bare, list given: valid, active - the key is accepted, but may not generate: auth_error 401 (unauthorized)
        401, bare, list refused: invalid, disabled - auth_error 401 (unauthorized)
        403, bare, list given: valid, active - the key is accepted, but may not generate: unknown 403 (empty_body)
        403, bare, list refused: invalid, disabled - unknown 403 (empty_body)
        402: invalid, disabled - recharge required: billing_exhausted 402 (payment_required)
        insufficient balance: invalid, disabled - recharge required: billing_exhausted 402 (balance_empty): Insufficient Balance
        insufficient_quota: invalid, disabled - recharge required: billing_exhausted 429 (balance_empty): You exceeded your current quota, please check your plan and billing details.
        1113: invalid, disabled - recharge required: billing_exhausted 429 (balance_empty): Insufficient balance or no resource package. Please recharge.
        access_terminated, a full cycle: valid, active - quota_exhausted 403 (window_full): You've reached your usage limit for this billing cycle. Your quota will be refreshed in the next cycle. Upgrade to get more: https://www.kimi.com/code/console?from=quota-upgrade
        1308: valid, active - quota_exhausted 429 (window_full): Usage limit reached for 5 hour. Your limit will reset at 2099-01-31 11:53:25
        1310: valid, active - quota_exhausted 429 (window_full): Weekly/Monthly Limit Exhausted. Your limit will reset at 2099-01-31 11:53:25
        429, a throttle: valid, active - rate_limit 429 (rate_limited): Rate limit reached for requests
        a model for others: valid, active - model_error 404 (model_not_found): The model `m` does not exist or you do not have access to it.
        400: valid, active - 
        404 without words: valid, active - unknown 404 (empty_body)
        500: unknown, active - server_error 500 (internal_error)
        503: unknown, active - overloaded 503 (overloaded)
        a connection that breaks: unknown, active - network_error (connection_reset): connection error: Connection reset by peer (os error 104)
    "#]].assert_eq(&table);
    let disabled = table.lines().filter(|line| line.contains(", disabled")).count();
    told(&served, disabled).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_shown_as_what_it_is() {
    let dead = || Reply::error(401, "invalid_api_key", "Incorrect API key provided");
    let script = Script::new()
        .on(key("sk-dead-0123456789abcdef"), dead())
        .on(key("sk-limited-0123456789abcdef"), Reply::error(429, "rate_limit_exceeded", "slow down"))
        .on(key("sk-shaky-0123456789abcdef"), Reply::error(500, "internal_error", "oops"));
    let upstream = Faultd::start(script).await.unwrap();
    let provider = |id: &str, keys: &[&str]| {
        let keys: String = keys
            .iter()
            .map(|key| {
                format!("[[provider.key]]\nlabel = \"{key}\"\nvalue = \"sk-{key}-0123456789abcdef\"\n")
            })
            .collect();
        format!(
            "[[provider]]\nid = \"{id}\"\nformat = \"openai-chat\"\nbase_url = \"{}\"\nrules = \"openai\"\n{keys}",
            upstream.base_url()
        )
    };
    let config = provider("calm", &["good", "spare"])
        + &provider("rough", &["dead", "limited", "fine"])
        + &provider("shaky", &["shaky"]);
    let served = Served::start(&config).await;
    let client = format!("authorization: Bearer {}", served.client_key());
    let body = r#"{"model":"m","messages":[{"role":"user","content":"hi"}]}"#;
    for (provider, times) in [("calm", 1), ("rough", 2), ("shaky", 4)] {
        for _ in 0..times {
            let path = format!("/proxy/{provider}/v1/chat/completions");
            served.ask(("POST", &path), std::slice::from_ref(&client), Some(body)).await;
        }
    }
    let mut table = String::new();
    for provider in ["calm", "rough", "shaky"] {
        for key in
            json_of(&served, &format!("/api/providers/{provider}/keys")).await["items"].as_array().unwrap()
        {
            let text = |field: &str| key[field].as_str().unwrap_or_default().to_owned();
            let is_soon = key["until"].as_str().is_some();
            writeln!(
                table,
                "{provider} {}: {}, {} errors in a row, {} models rest, until {}, {} {}",
                text("label"),
                text("state"),
                key["consecutive_errors"],
                key["models"].as_array().map_or(0, Vec::len),
                if is_soon { "a moment" } else { "-" },
                key["why"]["class"].as_str().unwrap_or("-"),
                key["why"]["reason"].as_str().unwrap_or("-"),
            )
            .unwrap();
        }
    }
    expect![[r#"
        calm good: active, 0 errors in a row, 0 models rest, until -, - -
        calm spare: active, 0 errors in a row, 0 models rest, until -, - -
        rough dead: disabled, 1 errors in a row, 0 models rest, until -, auth_error invalid_key
        rough limited: active, 1 errors in a row, 1 models rest, until -, - -
        rough fine: active, 0 errors in a row, 0 models rest, until -, - -
        shaky shaky: unstable, 12 errors in a row, 0 models rest, until -, - -
    "#]]
    .assert_eq(&table);
}

async fn json_of(served: &Served, path: &str) -> Value {
    let (status, body) = served.admin("GET", path, None).await;
    assert_eq!(status, 200, "{path}: {body}");
    serde_json::from_str(&body).unwrap()
}

/// Waits until the bell has told of so many subjects: of a provider, where its only key is gone.
async fn told(served: &Served, count: usize) {
    for _ in 0..300 {
        let notices = json_of(served, "/api/notifications").await;
        if notices.as_array().unwrap().len() >= count {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{count} notices were never told: {}", json_of(served, "/api/notifications").await);
}
