//! Rubbish on the port: a clear answer, bounded memory, and nobody else is affected.

use std::time::Duration;

use backstop_faultd::Client;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::world::{CHAT, CLIENT_KEY, Setup, World, ask, request};

/// Sends bytes and reads until the gateway closes or falls silent.
async fn raw(world: &World, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(world.gateway.addr()).await.unwrap();
    // The gateway may close while we still send.
    let _ = stream.write_all(bytes).await;
    let mut answer = Vec::new();
    let mut buffer = [0; 4096];
    while let Ok(Ok(count)) = tokio::time::timeout(Duration::from_secs(2), stream.read(&mut buffer)).await {
        if count == 0 {
            break;
        }
        answer.extend_from_slice(&buffer[..count]);
    }
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn garbage_is_a_400_and_others_are_served() {
    let world = World::new(Setup::default()).await;
    for garbage in [
        &b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"[..],
        b"hello there\r\n\r\n",
        b"\0\0\0\0\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
    ] {
        let answer = raw(&world, garbage).await;
        assert!(
            answer.is_empty() || answer.starts_with("HTTP/1.1 4") || answer.starts_with("HTTP/1.1 5"),
            "{answer}"
        );
        assert_eq!(world.chat().await.status, 200);
    }
}

#[tokio::test]
async fn huge_and_countless_headers_are_a_431() {
    let world = World::new(Setup::default()).await;
    let mut huge = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nx: ".to_vec();
    huge.resize(11 << 20, b'a');
    assert!(raw(&world, &huge).await.starts_with("HTTP/1.1 431"));
    let many: String = (0..10_000).map(|number| format!("x-{number}: y\r\n")).collect();
    let many = format!("GET /healthz HTTP/1.1\r\nhost: localhost\r\n{many}\r\n");
    assert!(raw(&world, many.as_bytes()).await.starts_with("HTTP/1.1 431"));
    assert_eq!(world.chat().await.status, 200);
}

#[tokio::test]
async fn a_body_over_the_limit_is_a_413_without_reading_it_all() {
    let world = World::new(Setup { tables: "[server]\nbody_limit = \"64KiB\"\n", ..Setup::default() }).await;
    let announced = format!(
        "POST /proxy/p/v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {CLIENT_KEY}\r\ncontent-type: application/json\r\ncontent-length: 10737418240\r\n\r\n{{"
    );
    assert!(raw(&world, announced.as_bytes()).await.starts_with("HTTP/1.1 413"));
    let chunk = format!("10000\r\n{}\r\n", "a".repeat(0x10000));
    let endless = format!(
        "POST /proxy/p/v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {CLIENT_KEY}\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n{chunk}{chunk}"
    );
    assert!(raw(&world, endless.as_bytes()).await.starts_with("HTTP/1.1 413"));
    assert!(world.provider.log().is_empty());
    assert_eq!(world.chat().await.status, 200);
}

#[tokio::test]
async fn bodies_share_one_budget() {
    let tables = "[server]\nbody_limit = \"64KiB\"\nmemory_limit = \"64KiB\"\n";
    let world = World::new(Setup { tables, ..Setup::default() }).await;
    let mut first = Client::new(world.gateway.addr());
    let head = format!(
        "POST /proxy/p/v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {CLIENT_KEY}\r\ncontent-type: application/json\r\ncontent-length: 60000\r\n\r\n{{"
    );
    first.send(head.as_bytes()).await.unwrap();
    let second = format!("{{\"model\":\"m\",\"messages\":[],\"pad\":\"{}\"}}", "a".repeat(50_000));
    let got = loop {
        let got = world.post("/proxy/p/v1/chat/completions", &second).await;
        if got.status != 200 {
            break got;
        }
    };
    assert_eq!((got.status, got.header("retry-after")), (503, "1"));
    drop(first);
    loop {
        // The share comes back when the first connection's end has been seen.
        if world.post("/proxy/p/v1/chat/completions", &second).await.status == 200 {
            break;
        }
    }
}

#[tokio::test]
async fn a_path_that_leaves_the_provider_is_refused() {
    let world = World::new(Setup::default()).await;
    for path in [
        "/proxy/p/../x",
        "/proxy/p/v1/%2e%2e/%2e%2e/admin",
        "/proxy/p/v1/..%2fadmin",
        "/proxy/p/v1/%252e%252e/x",
    ] {
        let got = world.post(path, CHAT).await;
        assert_eq!(got.status, 400, "{path}: {}", got.body);
    }
    assert!(world.provider.log().is_empty());
}

#[tokio::test]
async fn what_is_no_json_is_a_400_for_generations() {
    let world = World::new(Setup::default()).await;
    for body in ["", "[]", "{\"model\":", "null", "hello"] {
        let got = world.post("/v1/chat/completions", body).await;
        assert_eq!(got.status, 400, "{body:?}: {}", got.body);
    }
    assert!(world.provider.log().is_empty());
}

#[tokio::test]
async fn foreign_hosts_and_origins_are_refused() {
    let world = World::new(Setup::default()).await;
    let with = |host: &str, more: &str| format!("GET /healthz HTTP/1.1\r\n{host}{more}\r\n").into_bytes();
    for (host, more, status) in [
        ("host: localhost\r\n", "", 200),
        ("host: evil.test\r\n", "", 403),
        ("", "", 400),
        ("host: a\r\nhost: b\r\n", "", 400),
        ("host: localhost\r\n", "origin: https://evil.test\r\n", 403),
    ] {
        assert_eq!(ask(world.gateway.addr(), &with(host, more)).await.status, status, "{host}{more}");
    }
}

#[tokio::test]
async fn a_client_chosen_address_is_never_dialled() {
    let world = World::new(Setup::default()).await;
    let body =
        r#"{"model":"m","messages":[],"api_base":"http://127.0.0.1:1","base_url":"http://127.0.0.1:1"}"#;
    assert_eq!(world.post("/proxy/p/v1/chat/completions", body).await.status, 200);
    assert_eq!(world.provider.log().len(), 1);
}

#[tokio::test]
async fn an_absolute_target_must_name_us_and_nobody_logs_in_by_it() {
    let world = World::new(Setup::default()).await;
    let cases = [
        ("http://localhost/healthz", 200),
        ("http://127.0.0.1:9/healthz", 200),
        ("http://evil.test/healthz", 403),
        ("http://user:pass@localhost/healthz", 400),
        ("http://user@localhost/healthz", 400),
    ];
    for (target, status) in cases {
        let got = ask(world.gateway.addr(), &request("GET", target, "", "")).await;
        assert_eq!(got.status, status, "{target}: {}", got.body);
    }
}
