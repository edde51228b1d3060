//! Raw attacks on the port: requests that two servers in a row would read differently, and names that are not ours.
//!
//! Each case is the bytes after the request line and the credentials, aimed once at the data plane and once at the
//! admin API, with a second request hidden in it or behind it. What a case comes to stands in the snapshots; whatever
//! it is, the hidden request is never carried out.

use std::{fmt::Write as _, time::Duration};

use backstop_faultd::{Faultd, Script};
use expect_test::{Expect, expect};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

use crate::served::Served;

/// What hides a request: a name, and header lines and body with `{HIDDEN}` in the place of the hidden request.
const SMUGGLING: [(&str, &str); 29] = [
    ("CL.TE", "content-length: {LENGTH}\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n{HIDDEN}"),
    ("TE.CL", "transfer-encoding: chunked\r\ncontent-length: 4\r\n\r\n{CHUNK}0\r\n\r\n"),
    ("TE.CL of nothing", "transfer-encoding: chunked\r\ncontent-length: 0\r\n\r\n0\r\n\r\n{HIDDEN}"),
    ("TE that is none", "transfer-encoding: xchunked\r\ncontent-length: 5\r\n\r\n0\r\n\r\n{HIDDEN}"),
    ("TE twice", "transfer-encoding: chunked\r\ntransfer-encoding: identity\r\n\r\n0\r\n\r\n{HIDDEN}"),
    ("TE chunked first", "transfer-encoding: chunked, gzip\r\n\r\n0\r\n\r\n{HIDDEN}"),
    ("TE chunked twice", "transfer-encoding: chunked, chunked\r\ncontent-length: 5\r\n\r\n0\r\n\r\n{HIDDEN}"),
    (
        "TE with a space before the colon",
        "transfer-encoding : chunked\r\ncontent-length: 5\r\n\r\n0\r\n\r\n{HIDDEN}",
    ),
    (
        "TE after a vertical tab",
        "transfer-encoding:\x0bchunked\r\ncontent-length: 5\r\n\r\n0\r\n\r\n{HIDDEN}",
    ),
    (
        "TE in a folded line",
        "x: y\r\n transfer-encoding: chunked\r\ncontent-length: 5\r\n\r\n0\r\n\r\n{HIDDEN}",
    ),
    (
        "TE with a folded value",
        "transfer-encoding:\r\n chunked\r\ncontent-length: 5\r\n\r\n0\r\n\r\n{HIDDEN}",
    ),
    ("TE after a bare CR", "x: y\rtransfer-encoding: chunked\r\ncontent-length: 5\r\n\r\n0\r\n\r\n{HIDDEN}"),
    ("TE with a NUL", "transfer-encoding: chunked\0\r\ncontent-length: 5\r\n\r\n0\r\n\r\n{HIDDEN}"),
    ("two lengths", "content-length: 5\r\ncontent-length: {LENGTH}\r\n\r\n0\r\n\r\n{HIDDEN}"),
    ("a list of lengths", "content-length: 5, {LENGTH}\r\n\r\n0\r\n\r\n{HIDDEN}"),
    ("a length with a sign", "content-length: +5\r\n\r\n0\r\n\r\n{HIDDEN}"),
    ("a negative length", "content-length: -5\r\n\r\n0\r\n\r\n{HIDDEN}"),
    ("a hexadecimal length", "content-length: 0x5\r\n\r\n0\r\n\r\n{HIDDEN}"),
    ("a length beyond all numbers", "content-length: 99999999999999999999999\r\n\r\n0\r\n\r\n{HIDDEN}"),
    ("an empty length", "content-length: \r\n\r\n{HIDDEN}"),
    ("a chunk size with a sign", "transfer-encoding: chunked\r\n\r\n+0\r\n\r\n{HIDDEN}"),
    ("a chunk size with 0x", "transfer-encoding: chunked\r\n\r\n0x0\r\n\r\n{HIDDEN}"),
    ("a chunk size that overflows", "transfer-encoding: chunked\r\n\r\n10000000000000000\r\n{HIDDEN}"),
    ("a chunk size without digits", "transfer-encoding: chunked\r\n\r\n\r\n0\r\n\r\n{HIDDEN}"),
    ("a chunk longer than its size", "transfer-encoding: chunked\r\n\r\n2\r\n{}{}\r\n0\r\n\r\n{HIDDEN}"),
    (
        "a chunk extension over two lines",
        "transfer-encoding: chunked\r\n\r\n2;a=\n\"x\r\n{}\r\n0\r\n\r\n{HIDDEN}",
    ),
    ("an endless chunk extension", "transfer-encoding: chunked\r\n\r\n2;{LONG}\r\n{}\r\n0\r\n\r\n{HIDDEN}"),
    (
        "trailers that are headers",
        "transfer-encoding: chunked\r\n\r\n{CHUNK}0\r\ncontent-length: 5\r\nhost: evil.test\r\n\r\n",
    ),
    ("a length behind the body", "content-length: 0\r\n\r\ncontent-length: 0\r\n\r\n{HIDDEN}"),
];

#[tokio::test(flavor = "multi_thread")]
async fn no_request_is_smuggled_past_the_one_that_carries_it() {
    let upstream = Faultd::start(Script::new()).await.unwrap();
    let served = Served::start(&house(&upstream)).await;
    let mut table = String::new();
    let proxy = format!("authorization: Bearer {}", served.client_key());
    let admin = format!("authorization: Bearer {}", served.admin_token());
    let targets = [
        ("proxy", "/proxy/house/v1/chat/completions", &proxy, "POST /proxy/house/v1/hidden"),
        ("admin", "/api/notifications/read", &admin, "DELETE /api/providers/spare"),
    ];
    let spare = r#"{"id":"spare","format":"openai-chat","base_url":"https://spare.test/v1"}"#;
    assert_eq!(served.admin("POST", "/api/providers", Some(spare)).await.0, 201);
    let mut asked = Vec::new();
    for (name, case) in SMUGGLING {
        for (target, path, credentials, hidden) in targets {
            let request = attack(&served, case, (path, credentials, hidden));
            let address = served.address().to_owned();
            asked.push((
                name,
                target,
                tokio::spawn(async move { statuses_before_a_last_one(&address, &request).await }),
            ));
        }
    }
    for pair in asked.chunks_mut(2) {
        write!(table, "{}:", pair[0].0).unwrap();
        for (name, target, answers) in pair {
            let answers = answers.await.unwrap();
            let refused_behind = answers.iter().skip(1).all(|status| *status >= 400);
            assert!(refused_behind, "{name}, {target}: a second request was answered, {answers:?}");
            let answers = answers.first().map_or_else(|| "none".to_owned(), ToString::to_string);
            write!(table, " {target} {answers}").unwrap();
        }
        table.push('\n');
    }
    saw_nothing_hidden(&upstream);
    assert_eq!(served.admin("GET", "/api/providers/spare", None).await.0, 200, "it was removed");
    expect![[r#"
        CL.TE: proxy 200 admin 204
        TE.CL: proxy 400 admin 204
        TE.CL of nothing: proxy 200 admin 204
        TE that is none: proxy 400 admin 400
        TE twice: proxy 400 admin 400
        TE chunked first: proxy 400 admin 400
        TE chunked twice: proxy 200 admin 204
        TE with a space before the colon: proxy 400 admin 400
        TE after a vertical tab: proxy 400 admin 400
        TE in a folded line: proxy 400 admin 400
        TE with a folded value: proxy 400 admin 400
        TE after a bare CR: proxy 400 admin 400
        TE with a NUL: proxy 400 admin 400
        two lengths: proxy 400 admin 400
        a list of lengths: proxy 400 admin 400
        a length with a sign: proxy 400 admin 400
        a negative length: proxy 400 admin 400
        a hexadecimal length: proxy 400 admin 400
        a length beyond all numbers: proxy 400 admin 400
        an empty length: proxy 400 admin 400
        a chunk size with a sign: proxy 400 admin 204
        a chunk size with 0x: proxy 400 admin 204
        a chunk size that overflows: proxy 400 admin 204
        a chunk size without digits: proxy 400 admin 204
        a chunk longer than its size: proxy 400 admin 204
        a chunk extension over two lines: proxy 400 admin 204
        an endless chunk extension: proxy 400 admin 204
        trailers that are headers: proxy 400 admin 204
        a length behind the body: proxy 200 admin 204
    "#]]
    .assert_eq(&table);
}

/// The bytes of a case: where it goes, whose credentials it carries, and the method and path of the hidden request.
fn attack(served: &Served, case: &str, (path, credentials, hidden): (&str, &str, &str)) -> String {
    let host = served.address();
    let hidden = format!(
        "{hidden} HTTP/1.1\r\nhost: {host}\r\n{credentials}\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{{}}"
    );
    let case = case
        .replace("{LENGTH}", &(5 + hidden.len()).to_string())
        .replace("{CHUNK}", &format!("{:x}\r\n{hidden}\r\n", hidden.len()))
        .replace("{LONG}", &"x".repeat(64 * 1024))
        .replace("{HIDDEN}", &hidden);
    format!(
        "POST {path} HTTP/1.1\r\nhost: {host}\r\n{credentials}\r\ncontent-type: application/json\r\n{case}"
    )
}

fn saw_nothing_hidden(upstream: &Faultd) {
    for call in upstream.log() {
        assert!(!call.path.contains("hidden"), "{}", call.path);
        let odd = call.headers.iter().any(|(name, value)| name == "host" && value.contains("evil"));
        assert!(!odd, "{:?}", call.headers);
    }
}

/// What names somebody else, or nobody: a name, and everything up to the empty line.
const NAMES: [(&str, &str); 21] = [
    ("no host", "GET {PATH} HTTP/1.1\r\n"),
    ("no host, HTTP/1.0", "GET {PATH} HTTP/1.0\r\n"),
    ("an empty host", "GET {PATH} HTTP/1.1\r\nhost: \r\n"),
    ("two hosts", "GET {PATH} HTTP/1.1\r\nhost: localhost\r\nhost: localhost\r\n"),
    ("ours and a foreign one", "GET {PATH} HTTP/1.1\r\nhost: localhost\r\nhost: evil.test\r\n"),
    ("a rebound name", "GET {PATH} HTTP/1.1\r\nhost: evil.test:3030\r\n"),
    ("a name that ends like ours", "GET {PATH} HTTP/1.1\r\nhost: evil.localhost\r\n"),
    ("a name that begins like ours", "GET {PATH} HTTP/1.1\r\nhost: localhost.evil.test\r\n"),
    ("an address in a name", "GET {PATH} HTTP/1.1\r\nhost: 127.0.0.1.nip.io\r\n"),
    ("a user in the host", "GET {PATH} HTTP/1.1\r\nhost: localhost@evil.test\r\n"),
    ("a path in the host", "GET {PATH} HTTP/1.1\r\nhost: localhost/api/auth/session\r\n"),
    ("a query in the host", "GET {PATH} HTTP/1.1\r\nhost: localhost?x=\r\n"),
    ("a fragment in the host", "GET {PATH} HTTP/1.1\r\nhost: localhost#\r\n"),
    ("a list of hosts", "GET {PATH} HTTP/1.1\r\nhost: localhost, evil.test\r\n"),
    ("a foreign URL", "GET http://evil.test{PATH} HTTP/1.1\r\nhost: localhost\r\n"),
    ("a foreign URL and host", "GET http://evil.test{PATH} HTTP/1.1\r\nhost: evil.test\r\n"),
    ("a foreign forwarded host", "GET {PATH} HTTP/1.1\r\nhost: evil.test\r\nx-forwarded-host: localhost\r\n"),
    ("a foreign origin", "GET {PATH} HTTP/1.1\r\nhost: localhost\r\norigin: https://evil.test\r\n"),
    ("a sandboxed page", "GET {PATH} HTTP/1.1\r\nhost: localhost\r\norigin: null\r\n"),
    (
        "a preflight",
        "OPTIONS {PATH} HTTP/1.1\r\nhost: localhost\r\norigin: https://evil.test\r\naccess-control-request-method: POST\r\n",
    ),
    ("a tunnel", "CONNECT evil.test:443 HTTP/1.1\r\nhost: evil.test:443\r\n"),
];

#[tokio::test(flavor = "multi_thread")]
async fn nobody_comes_in_by_another_name() {
    let upstream = Faultd::start(Script::new()).await.unwrap();
    let served = Served::start(&house(&upstream)).await;
    let client = format!("authorization: Bearer {}", served.client_key());
    let admin = format!("authorization: Bearer {}", served.admin_token());
    let mut table = String::new();
    for (name, head) in NAMES {
        write!(table, "{name}:").unwrap();
        for (path, credentials) in
            [("/proxy/house/v1/models", &client), ("/api/status", &admin), ("/", &admin)]
        {
            let request =
                format!("{}{credentials}\r\nconnection: close\r\n\r\n", head.replace("{PATH}", path));
            let answers = statuses(served.address(), request.as_bytes()).await;
            assert!(answers.iter().all(|status| *status >= 400), "{name}, {path}: {answers:?}");
            write!(table, " {}", answers.first().map_or_else(|| "none".to_owned(), ToString::to_string))
                .unwrap();
        }
        table.push('\n');
    }
    assert!(upstream.log().is_empty());
    check(
        &table,
        &expect![[r#"
        no host: 400 400 400
        no host, HTTP/1.0: none none none
        an empty host: 400 400 400
        two hosts: 400 400 400
        ours and a foreign one: 400 400 400
        a rebound name: 403 403 403
        a name that ends like ours: 403 403 403
        a name that begins like ours: 403 403 403
        an address in a name: 403 403 403
        a user in the host: 400 400 400
        a path in the host: 400 400 400
        a query in the host: 400 400 400
        a fragment in the host: 400 400 400
        a list of hosts: 400 400 400
        a foreign URL: 403 403 403
        a foreign URL and host: 403 403 403
        a foreign forwarded host: 403 403 403
        a foreign origin: 403 403 403
        a sandboxed page: 403 403 403
        a preflight: 403 403 403
        a tunnel: 403 403 403
    "#]],
    );
}

/// What a page of another origin can send without asking first.
const SIMPLE: [&str; 4] = [
    "content-type: text/plain\r\norigin: https://evil.test\r\nsec-fetch-site: cross-site\r\n",
    "content-type: text/plain\r\nsec-fetch-site: cross-site\r\n",
    "content-type: application/x-www-form-urlencoded\r\norigin: null\r\n",
    "content-type: multipart/form-data; boundary=x\r\norigin: http://localhost:1\r\n",
];

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_another_origin_changes_nothing_although_the_browser_is_signed_in() {
    let served = Served::start("").await;
    let admin = format!("authorization: Bearer {}", served.admin_token());
    let (_, link) = served.admin("POST", "/api/auth/links", None).await;
    let link: serde_json::Value = serde_json::from_str(&link).unwrap();
    let token = link["path"].as_str().unwrap().split('#').nth(1).unwrap();
    let body = format!("{{\"token\":\"{token}\"}}");
    let (status, headers, _) = served.ask(("POST", "/api/auth/link"), &[], Some(&body)).await;
    assert_eq!(status, 204);
    let cookie = headers.iter().find(|(name, _)| name == "set-cookie").unwrap().1.clone();
    assert!(cookie.contains("HttpOnly; SameSite=Strict"), "{cookie}");
    let cookie = format!("cookie: {}", cookie.split(';').next().unwrap());
    assert_eq!(
        served.ask(("GET", "/api/status"), std::slice::from_ref(&cookie), None).await.0,
        200,
        "signed in"
    );
    let body = r#"{"name":"evil"}"#;
    for simple in SIMPLE {
        for credentials in [&cookie, &admin] {
            let request = format!(
                "POST /api/clients HTTP/1.1\r\nhost: {}\r\n{credentials}\r\nconnection: close\r\n{simple}content-length: {}\r\n\r\n{body}",
                served.address(),
                body.len()
            );
            assert_eq!(statuses(served.address(), request.as_bytes()).await, [403], "{simple}");
        }
    }
    let (_, clients) = served.admin("GET", "/api/clients", None).await;
    assert!(!clients.contains("evil"), "{clients}");
}

/// Paths that one reader takes for another.
const PATHS: [&str; 14] = [
    "/api/providers/",
    "//api/providers",
    "/api//providers",
    "/API/providers",
    "/api/./providers",
    "/api/../api/providers",
    "/proxy/../api/providers",
    "/v1/../api/providers",
    "/api%2fproviders",
    "/%61pi/providers",
    "/api/providers;x=1",
    "/api/providers%00",
    "/api/providers/%2e%2e/status",
    "/sign-in/../api/providers",
];

#[tokio::test(flavor = "multi_thread")]
async fn no_spelling_of_a_path_leads_around_the_door() {
    let upstream = Faultd::start(Script::new()).await.unwrap();
    let served = Served::start(&house(&upstream)).await;
    for path in PATHS {
        for credentials in ["", "authorization: Bearer {}\r\n"] {
            let credentials = credentials.replace("{}", served.client_key());
            let request =
                format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{credentials}\r\n");
            let answers = statuses(served.address(), request.as_bytes()).await;
            assert!(answers.iter().all(|status| *status >= 300), "{path}: {answers:?}");
        }
    }
    assert!(upstream.log().is_empty());
}

fn house(upstream: &Faultd) -> String {
    format!(
        "[[provider]]\nid = \"house\"\nformat = \"openai-chat\"\nbase_url = \"{}\"\n[[provider.key]]\nvalue = \"sk-house\"\n",
        upstream.base_url()
    )
}

fn check(table: &str, expected: &Expect) {
    expected.assert_eq(table);
}

/// The statuses of all answers on one connection, until the gateway closes it.
async fn statuses(address: &str, request: &[u8]) -> Vec<u16> {
    let mut stream = TcpStream::connect(address).await.unwrap();
    // The gateway may close while we still send.
    let _ = stream.write_all(request).await;
    let mut answer = Vec::new();
    read_to_the_end(&mut stream, &mut answer).await;
    statuses_in(&answer)
}

/// The same of a request that leaves its connection open: when its answer has begun, a last request closes it, so that
/// whatever is between the two is answered before. The last one has no credentials and is refused.
async fn statuses_before_a_last_one(address: &str, request: &str) -> Vec<u16> {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let _ = stream.write_all(request.as_bytes()).await;
    let mut answer = vec![0; 16 * 1024];
    let begun = timeout(LIMIT, stream.read(&mut answer)).await.expect("an answer in time");
    answer.truncate(begun.unwrap_or(0));
    let last = format!("GET /api/status HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    let _ = stream.write_all(last.as_bytes()).await;
    read_to_the_end(&mut stream, &mut answer).await;
    statuses_in(&answer)
}

/// A connection that the gateway has reset is at its end too.
async fn read_to_the_end(stream: &mut TcpStream, answer: &mut Vec<u8>) {
    drop(timeout(LIMIT, stream.read_to_end(answer)).await.expect("the connection ends in time"));
}

fn statuses_in(answer: &[u8]) -> Vec<u16> {
    let text = String::from_utf8_lossy(answer);
    text.match_indices("HTTP/1.1 ").filter_map(|(at, _)| text.get(at + 9..at + 12)?.parse().ok()).collect()
}

const LIMIT: Duration = Duration::from_secs(60);
