//! The nine steps against servers shaped like the real ones, on loopback.

#![cfg(test)]

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use backstop_context::{Direct, Subject, Windows};
use backstop_http::HttpClient;
use backstop_triage::{
    Timestamp,
    context::{Endpoint, Step},
    preset::Format,
};
use expect_test::expect;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};

#[tokio::test]
async fn live_servers_of_every_kind_are_understood() {
    let servers: [(Format, &str, &str, &str); 7] = [
        (
            Format::OpenaiChat,
            "qwen3:8b",
            "/v1",
            "POST /api/show {\"parameters\":\"num_ctx 16384\",\"model_info\":{\"qwen3.context_length\":40960}}",
        ),
        (
            Format::OpenaiChat,
            "qwen2.5-7b-instruct",
            "/v1",
            "GET /api/v0/models {\"object\":\"list\",\"data\":[{\"id\":\"qwen2.5-7b-instruct\",\"type\":\"llm\",\"state\":\"loaded\",\"max_context_length\":32768,\"loaded_context_length\":8192}]}",
        ),
        (
            Format::OpenaiChat,
            "some.gguf",
            "/v1",
            "GET /props {\"default_generation_settings\":{\"id\":0,\"n_ctx\":4096},\"total_slots\":1,\"model_path\":\"/m/some.gguf\"}",
        ),
        (
            Format::OpenaiChat,
            "meta-llama/Llama-3.1-8B-Instruct",
            "/v1",
            "GET /v1/models {\"object\":\"list\",\"data\":[{\"id\":\"meta-llama/Llama-3.1-8B-Instruct\",\"owned_by\":\"vllm\",\"max_model_len\":24576}]}",
        ),
        (
            Format::OpenaiChat,
            "z-ai/glm-4.6",
            "/api/v1",
            "GET /api/v1/models {\"data\":[{\"id\":\"z-ai/glm-4.6\",\"context_length\":202752,\"top_provider\":{\"context_length\":202752,\"max_completion_tokens\":65536}}]}",
        ),
        (
            Format::AnthropicMessages,
            "claude-opus-4-6",
            "",
            "GET /v1/models/claude-opus-4-6 {\"type\":\"model\",\"id\":\"claude-opus-4-6\",\"max_input_tokens\":1000000,\"max_tokens\":128000}",
        ),
        (
            Format::Gemini,
            "gemini-2.5-pro",
            "/v1beta",
            "GET /v1beta/models/gemini-2.5-pro {\"name\":\"models/gemini-2.5-pro\",\"inputTokenLimit\":1048576,\"outputTokenLimit\":65536}",
        ),
    ];
    let mut table = Vec::new();
    for (format, model, path, page) in servers {
        let server = Server::start(&[page]).await;
        let base_url = format!("{}{path}", server.url);
        let windows = Windows::open(None);
        let subject = subject(model, &base_url, format);
        let found = windows.ask(&subject, &direct(), now()).await;
        table.push(format!("{model} {} {:?} {}", found.context, found.max_output, found.source.as_str()));
        let again = windows.known(&subject, now());
        assert_eq!((again.context, again.source), (found.context, Step::Cache));
        let window = windows.window(&subject, now());
        assert_eq!((window.context, window.max_output), (again.context, again.max_output));
    }
    expect![[r#"
        qwen3:8b 16384 None local_server
        qwen2.5-7b-instruct 8192 Some(4000) local_server
        some.gguf 4096 None local_server
        meta-llama/Llama-3.1-8B-Instruct 24576 Some(16384) endpoint
        z-ai/glm-4.6 202752 Some(65536) endpoint
        claude-opus-4-6 1000000 Some(128000) provider_api
        gemini-2.5-pro 1048576 Some(65536) provider_api"#]]
    .assert_eq(&table.join("\n"));
}

#[tokio::test]
async fn many_who_want_to_know_ask_once() {
    let server = Server::start(&["GET /v1/models/m {\"id\":\"m\",\"context_length\":9000}"]).await;
    let base_url = format!("{}/v1", server.url);
    let windows = Arc::new(Windows::open(None));
    let mut asking = Vec::new();
    for _ in 0..50 {
        let windows = Arc::clone(&windows);
        let base_url = base_url.clone();
        asking.push(tokio::spawn(async move {
            windows.ask(&subject("m", &base_url, Format::OpenaiChat), &direct(), now()).await.context
        }));
    }
    for asked in asking {
        assert_eq!(asked.await.unwrap(), 9_000);
    }
    assert_eq!(server.calls.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_server_that_hangs_costs_its_time_limit_and_no_request_waits_for_it() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
    let windows = Windows::open(None);
    let subject = subject("glm-4.6-32k", &base_url, Format::OpenaiChat);
    let known = windows.window(&subject, now());
    assert_eq!((known.context, known.source), (32_768, Step::Name));
    let asked =
        tokio::time::timeout(Duration::from_secs(20), windows.ask(&subject, &direct(), now())).await.unwrap();
    assert_eq!(asked.source, Step::Name);
    assert!(asked.steps[2].detail.contains("no answer from 127.0.0.1"), "{}", asked.steps[2].detail);
}

#[tokio::test]
async fn a_wrong_remembered_window_is_corrected_by_what_happens_and_survives_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("windows.json");
    let server = Server::start(&["GET /v1/models/m {\"id\":\"m\",\"context_length\":200000}"]).await;
    let base_url = format!("{}/v1", server.url);
    let subject = subject("m", &base_url, Format::OpenaiChat);
    let windows = Windows::open(Some(&file));
    assert_eq!(windows.ask(&subject, &direct(), now()).await.context, 200_000);
    windows.overflowed(&subject, "max_tokens is too large: this model supports at most 16384", None, now());
    assert_eq!(windows.known(&subject, now()).context, 200_000);
    windows.overflowed(&subject, "This model's maximum context length is 32768 tokens.", Some(40_000), now());
    assert_eq!(windows.known(&subject, now()).context, 32_768);
    windows.save();
    let reopened = Windows::open(Some(&file));
    let known = reopened.known(&subject, now());
    assert_eq!((known.context, known.source), (32_768, Step::Cache));
    reopened.answered(&subject, 50_000);
    assert_eq!(reopened.known(&subject, now()).source, Step::Default);
    std::fs::write(&file, "{ half a fi").unwrap();
    assert_eq!(Windows::open(Some(&file)).known(&subject, now()).source, Step::Default);
}

#[tokio::test]
async fn an_override_asks_nobody() {
    let server = Server::start(&[]).await;
    let base_url = format!("{}/v1", server.url);
    let windows = Windows::open(None);
    let fixed = Subject { fixed: Some(5_000), ..subject("m", &base_url, Format::OpenaiChat) };
    assert_eq!(windows.ask(&fixed, &direct(), now()).await.context, 5_000);
    assert_eq!(server.calls.load(Ordering::SeqCst), 0);
}

fn subject<'a>(model: &'a str, base_url: &'a str, format: Format) -> Subject<'a> {
    Subject { model, endpoint: Endpoint { base_url, format }, fixed: None, default: 128_000 }
}

fn direct() -> Direct<'static> {
    Direct { http: HttpClient::new(Duration::from_secs(5)), headers: &[] }
}

fn now() -> Timestamp {
    "2026-11-30T12:00:00Z".parse().unwrap()
}

/// Answers the pages that it has and 404 otherwise.
struct Server {
    url: String,
    calls: Arc<AtomicUsize>,
}

impl Server {
    async fn start(pages: &[&str]) -> Self {
        let pages: BTreeMap<String, String> = pages
            .iter()
            .map(|page| {
                let (line, body) = page.split_once(" {").unwrap();
                (line.to_owned(), format!("{{{body}"))
            })
            .collect();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let calls = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&calls);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                counter.fetch_add(1, Ordering::SeqCst);
                let mut head = [0; 4096];
                let read = stream.read(&mut head).await.unwrap_or(0);
                let head = String::from_utf8_lossy(&head[..read]).into_owned();
                let line = head.lines().next().unwrap_or_default().trim_end_matches(" HTTP/1.1");
                let (status, body) = pages.get(line).map_or((404, "{}"), |body| (200, body.as_str()));
                let length = body.len();
                let text = format!(
                    "HTTP/1.1 {status} X\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
                );
                let _ = stream.write_all(text.as_bytes()).await;
            }
        });
        Self { url, calls }
    }
}
