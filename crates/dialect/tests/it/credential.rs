use backstop_dialect::{AuthStyle, Dialect, client_keys, without_key};
use expect_test::expect;
use http::HeaderMap;

fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
}

fn found(pairs: &[(&'static str, &str)], query: Option<&str>) -> String {
    let headers = headers(pairs);
    client_keys(&headers, query).map(|found| format!("{:?}={} ", found.place, found.key)).collect()
}

#[test]
fn each_dialect_carries_its_key_in_its_own_way() {
    let styles = ["bearer", "x-api-key", "x-goog-api-key", "header:Api-Key", "query:key"];
    let mut table: String = styles
        .iter()
        .map(|style| {
            let placed = style.parse::<AuthStyle>().unwrap().header("sk-1").unwrap();
            let placed = placed.map(|(name, value)| {
                assert!(value.is_sensitive());
                format!("{name}: {}", value.to_str().unwrap())
            });
            format!("{style} -> {placed:?}\n")
        })
        .collect();
    for dialect in Dialect::ALL {
        table += &format!("{dialect}: {:?}\n", AuthStyle::of(dialect));
    }

    expect![[r#"
        bearer -> Some("authorization: Bearer sk-1")
        x-api-key -> Some("x-api-key: sk-1")
        x-goog-api-key -> Some("x-goog-api-key: sk-1")
        header:Api-Key -> Some("api-key: sk-1")
        query:key -> None
        openai-chat: Bearer
        openai-responses: Bearer
        anthropic-messages: XApiKey
        gemini: XGoogApiKey
    "#]]
    .assert_eq(&table);
}

#[test]
fn a_key_that_no_header_can_carry_is_refused_without_being_shown() {
    let error = AuthStyle::Bearer.header("sk-secret\n").unwrap_err();

    expect![
        "the key holds characters that a header cannot carry; look for a line break or a quote copied with it"
    ]
    .assert_eq(&error.to_string());
    assert!("cookie".parse::<AuthStyle>().is_err());
}

#[test]
fn the_clients_key_is_found_in_every_place() {
    assert_eq!(found(&[("authorization", "Bearer k1")], None), "Bearer=k1 ");
    assert_eq!(found(&[("authorization", "bearer  k1 ")], None), "Bearer=k1 ");
    assert_eq!(found(&[("authorization", "Basic k1")], None), "");
    assert_eq!(found(&[("x-api-key", "k1")], None), "XApiKey=k1 ");
    assert_eq!(found(&[("x-goog-api-key", "k1")], None), "XGoogApiKey=k1 ");
    assert_eq!(found(&[], Some("alt=sse&key=k%2B1")), "Query=k+1 ");
    assert_eq!(found(&[("x-api-key", "")], Some("key=")), "");
    assert_eq!(
        found(
            &[("authorization", "Bearer k1"), ("x-api-key", "k2"), ("x-backstop-client-key", "k0")],
            Some("key=k3")
        ),
        "Own=k0 Bearer=k1 XApiKey=k2 Query=k3 "
    );
}

#[test]
fn a_client_key_never_shows_in_debug_output() {
    let headers = headers(&[("x-api-key", "secret")]);

    assert_eq!(format!("{:?}", client_keys(&headers, None).next().unwrap()), "XApiKey ***");
}

#[test]
fn the_key_leaves_the_query_and_nothing_else_does() {
    assert_eq!(without_key("alt=sse&key=a&x=%20"), "alt=sse&x=%20");
    assert_eq!(without_key("key=a"), "");
    assert_eq!(without_key("monkey=a&keys=b"), "monkey=a&keys=b");
}
