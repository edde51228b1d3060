use backstop_dialect::{Address, AddressError};
use expect_test::expect;

fn joined(base: &str, path: &str) -> String {
    let address = Address::parse(base).expect("the base is well formed");
    let (path, query) = path.split_once('?').map_or((path, None), |(path, query)| (path, Some(query)));
    match address.join(path, query) {
        Ok(joined) => format!("{}://{}{joined}", address.scheme, address.authority),
        Err(error) => error.to_string(),
    }
}

#[test]
fn the_version_stands_once() {
    let pairs = [
        ("https://api.openai.com/v1", "/v1/chat/completions"),
        ("https://api.openai.com/v1/", "/chat/completions"),
        ("https://api.anthropic.com", "/v1/messages?beta=true"),
        ("https://api.anthropic.com/v1", "/v1/messages"),
        ("https://api.z.ai/api/paas/v4", "/v1/chat/completions"),
        ("https://api.z.ai/api/anthropic", "/v1/messages"),
        (
            "https://generativelanguage.googleapis.com/v1beta",
            "/v1beta/models/g:streamGenerateContent?alt=sse",
        ),
        ("https://generativelanguage.googleapis.com", "/v1beta/models/g:generateContent"),
        ("https://generativelanguage.googleapis.com/v1beta", "/upload/v1beta/files"),
        ("HTTP://127.0.0.1:8000/v1", "/v1/models"),
        ("http://[::1]:8000", "/v1/models"),
        ("https://h/v1", "/v1"),
        ("https://h/v1", "/"),
        ("https://h", ""),
        ("https://h/v1", "/v1/models?"),
    ];
    let table: String =
        pairs.iter().map(|(base, path)| format!("{base} + {path}\n  = {}\n", joined(base, path))).collect();

    expect![[r#"
        https://api.openai.com/v1 + /v1/chat/completions
          = https://api.openai.com/v1/chat/completions
        https://api.openai.com/v1/ + /chat/completions
          = https://api.openai.com/v1/chat/completions
        https://api.anthropic.com + /v1/messages?beta=true
          = https://api.anthropic.com/v1/messages?beta=true
        https://api.anthropic.com/v1 + /v1/messages
          = https://api.anthropic.com/v1/messages
        https://api.z.ai/api/paas/v4 + /v1/chat/completions
          = https://api.z.ai/api/paas/v4/chat/completions
        https://api.z.ai/api/anthropic + /v1/messages
          = https://api.z.ai/api/anthropic/v1/messages
        https://generativelanguage.googleapis.com/v1beta + /v1beta/models/g:streamGenerateContent?alt=sse
          = https://generativelanguage.googleapis.com/v1beta/models/g:streamGenerateContent?alt=sse
        https://generativelanguage.googleapis.com + /v1beta/models/g:generateContent
          = https://generativelanguage.googleapis.com/v1beta/models/g:generateContent
        https://generativelanguage.googleapis.com/v1beta + /upload/v1beta/files
          = https://generativelanguage.googleapis.com/upload/v1beta/files
        HTTP://127.0.0.1:8000/v1 + /v1/models
          = http://127.0.0.1:8000/v1/models
        http://[::1]:8000 + /v1/models
          = http://[::1]:8000/v1/models
        https://h/v1 + /v1
          = https://h/v1
        https://h/v1 + /
          = https://h/v1/
        https://h + 
          = https://h/
        https://h/v1 + /v1/models?
          = https://h/v1/models
    "#]]
    .assert_eq(&table);
}

#[test]
fn a_base_without_a_version_can_be_told_to_want_none() {
    let mut address = Address::parse("https://models.example/inference").expect("well formed");
    address.versioned = true;

    assert_eq!(address.join("/v1/chat/completions", None).as_deref(), Ok("/inference/chat/completions"));
}

#[test]
fn a_path_cannot_leave_the_base() {
    let address = Address::parse("https://h/a/v1").expect("well formed");
    let outside = [
        "/v1/../admin",
        "/v1/%2e%2e/admin",
        "/v1/..;/admin",
        "/v1/..%3bx=1/admin",
        "/v1/.%2E/admin",
        "/v1/%252e%252e/admin",
        "/v1/x%2f..%2f..%2fadmin",
        "/v1/./x",
        "/v1\\..\\admin",
        "/v1/%5c..%5cadmin",
        "/v1/a b",
        "/v1/a\r\nHost: x",
        "/v1/a%00",
        "/v1/ü",
        "/v1/a#b",
    ];
    for path in outside {
        assert_eq!(address.join(path, None), Err(AddressError::Outside), "{path:?}");
    }
    assert_eq!(address.join("/v1/x", Some("a=1\r\nb")), Err(AddressError::Outside));
    assert_eq!(address.join("/v1/..x/x..", Some("a=../..")).as_deref(), Ok("/a/v1/..x/x..?a=../.."));
}

#[test]
fn a_base_url_that_cannot_be_one_says_why() {
    let wrong =
        ["api.openai.com/v1", "ftp://h", "https://", "https://u:p@h", "https://h/v1?x=1", "https://h/../x"];
    let table: String = wrong
        .iter()
        .map(|base| match Address::parse(base) {
            Ok(address) => format!("{base}: {address:?}\n"),
            Err(error) => format!("{base}: {error}\n"),
        })
        .collect();

    expect![[r#"
        api.openai.com/v1: a base URL begins with http:// or https://
        ftp://h: a base URL begins with http:// or https://
        https://: the base URL has no valid host
        https://u:p@h: a base URL carries no user name; give the key as a key
        https://h/v1?x=1: a base URL carries no query; use the provider's `query` table
        https://h/../x: the path leaves the provider's base URL
    "#]]
    .assert_eq(&table);
}
