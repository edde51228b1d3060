//! The outcome table of connection tests, row by row, on what providers really say.

use std::fmt::Write as _;

use backstop_dashboard::actions::outcome::{Seen, judge};
use backstop_triage::{Catalog, Evidence, Fault, Kind, ProviderId, Timestamp};

fn failed(catalog: &Catalog, provider: &str, status: u16, body: &str) -> Seen {
    let evidence = Evidence { kind: Kind::Http { status }, text: body.into(), ..Evidence::default() };
    let verdict = catalog.classify(&ProviderId::from(provider), &evidence, Timestamp::UNIX_EPOCH);
    Seen::Failed { verdict: Box::new(verdict), status: Some(status), message: String::new() }
}

fn silent(catalog: &Catalog, fault: Fault) -> Seen {
    let evidence = Evidence { kind: Kind::Transport(fault), ..Evidence::default() };
    let verdict = catalog.classify(&ProviderId::from("generic"), &evidence, Timestamp::UNIX_EPOCH);
    Seen::Failed { verdict: Box::new(verdict), status: None, message: String::new() }
}

/// What the list and the generation were answered with, row by row.
fn rows(catalog: &Catalog) -> Vec<(&'static str, Seen, Seen)> {
    let good = Seen::Good { proves_key: true };
    let public = Seen::Good { proves_key: false };
    let fail = |provider: &str, status: u16, body: &str| failed(catalog, provider, status, body);
    let invalid = r#"{"error":{"message":"Incorrect API key provided","type":"invalid_request_error","code":"invalid_api_key"}}"#;
    let poor = r#"{"error":{"message":"You exceeded your current quota, please check your plan and billing details.","type":"insufficient_quota","code":"insufficient_quota"}}"#;
    let window = r#"{"error":{"code":"1308","message":"Usage limit reached for 5 hour. Your limit will reset at 2026-01-01 10:00:00"}}"#;
    let kimi = r#"{"error":{"message":"You've reached your usage limit for this billing cycle. Your quota will be refreshed in the next cycle.","type":"access_terminated_error"}}"#;
    vec![
        ("content", good.clone(), Seen::Good { proves_key: true }),
        ("invalid key, documented", good.clone(), fail("openai", 401, invalid)),
        ("bare 401, list given", good.clone(), fail("generic", 401, "")),
        ("bare 401, list public", public.clone(), fail("generic", 401, "")),
        ("bare 401 twice", fail("generic", 401, ""), fail("generic", 401, "")),
        ("bare 403 twice", fail("generic", 403, ""), fail("generic", 403, "")),
        ("402 without words", good.clone(), fail("generic", 402, "")),
        ("no money, documented", good.clone(), fail("openai", 429, poor)),
        (
            "no money, code 1113",
            good.clone(),
            fail("zai", 429, r#"{"error":{"code":"1113","message":"Insufficient balance"}}"#),
        ),
        ("full window, code 1308", good.clone(), fail("zai", 429, window)),
        ("full cycle as 403", good.clone(), fail("kimi-coding", 403, kimi)),
        ("throttled", good.clone(), fail("generic", 429, "")),
        (
            "no such model",
            good.clone(),
            fail(
                "openai",
                404,
                r#"{"error":{"message":"The model `x` does not exist","code":"model_not_found"}}"#,
            ),
        ),
        (
            "refused request",
            good.clone(),
            fail("generic", 400, r#"{"error":{"message":"max_tokens is too small"}}"#),
        ),
        (
            "moderation",
            good.clone(),
            fail(
                "openai",
                400,
                r#"{"error":{"code":"content_filter","message":"The response was filtered due to the prompt triggering content management policy"}}"#,
            ),
        ),
        ("outage, list given", good.clone(), fail("generic", 500, "")),
        ("outage, list down too", fail("generic", 500, ""), fail("generic", 500, "")),
        ("overload", public.clone(), fail("generic", 503, "")),
        ("silence", silent(catalog, Fault::ReadTimeout), silent(catalog, Fault::ReadTimeout)),
        ("nothing listens", silent(catalog, Fault::ConnectRefused), silent(catalog, Fault::ConnectRefused)),
        ("no model, list given", good.clone(), Seen::NotAsked),
        ("no model, list refused", fail("openai", 401, invalid), Seen::NotAsked),
        ("nothing to ask", Seen::NotAsked, Seen::NotAsked),
    ]
}

#[test]
fn the_table_holds_row_by_row() {
    let catalog = Catalog::embedded();
    let mut table = String::new();
    for (name, list, generation) in rows(&catalog) {
        let outcome = judge(&list, &generation);
        let valid = outcome.valid.map_or("unknown", |valid| if valid { "valid" } else { "invalid" });
        let disable = if outcome.disable { ", disable" } else { "" };
        let said = outcome.warning.or(outcome.error).map(|text| format!(" - {text}")).unwrap_or_default();
        writeln!(table, "{name}: {valid}{disable}{said}").expect("written");
    }
    expect_test::expect![[r#"
        content: valid
        invalid key, documented: invalid, disable - auth_error 401 (invalid_key)
        bare 401, list given: valid - the key is accepted, but may not generate: auth_error 401 (unauthorized)
        bare 401, list public: invalid - auth_error 401 (unauthorized)
        bare 401 twice: invalid, disable - auth_error 401 (unauthorized)
        bare 403 twice: invalid, disable - unknown 403 (empty_body)
        402 without words: invalid, disable - recharge required: billing_exhausted 402 (payment_required)
        no money, documented: invalid, disable - recharge required: billing_exhausted 429 (balance_empty)
        no money, code 1113: invalid, disable - recharge required: billing_exhausted 429 (balance_empty)
        full window, code 1308: valid - quota_exhausted 429 (window_full)
        full cycle as 403: valid - quota_exhausted 403 (window_full)
        throttled: valid - rate_limit 429 (rate_limited)
        no such model: valid - model_error 404 (model_not_found)
        refused request: valid
        moderation: valid
        outage, list given: valid - server_error 500 (internal_error)
        outage, list down too: unknown - server_error 500 (internal_error)
        overload: unknown - overloaded 503 (overloaded)
        silence: unknown - timeout (read_timeout)
        nothing listens: unknown - network_error (connection_refused)
        no model, list given: valid
        no model, list refused: invalid, disable - auth_error 401 (invalid_key)
        nothing to ask: unknown - there is no model to ask; name one
    "#]]
    .assert_eq(&table);
}
