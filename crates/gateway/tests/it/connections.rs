//! The way to the provider: stale connections, TLS, addresses.

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use backstop_faultd::{Greeting, Reply, Script, key};
use rcgen::{CertificateParams, KeyPair};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    sync::watch,
    task::JoinSet,
};

use crate::world::{CHAT, CLIENT_KEY, Setup, World, ask, logged, request, start};

const ANSWER: &str = r#"{"id":"c","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}]}"#;

/// A provider that answers one request on each connection and then closes it without a word, as idle limits do: every
/// other one at once, the rest just as the next request is on its way.
fn answers_once_on_each_connection() -> (SocketAddr, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (closed, seen) = mpsc::channel();
    thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let mut stream = stream.unwrap();
            let mut request = Vec::new();
            let mut buffer = [0; 4096];
            while !request.ends_with(CHAT.as_bytes()) {
                let count = stream.read(&mut buffer).unwrap();
                if count == 0 {
                    break;
                }
                request.extend_from_slice(&buffer[..count]);
            }
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
                ANSWER.len()
            );
            stream.write_all(head.as_bytes()).unwrap();
            stream.write_all(ANSWER.as_bytes()).unwrap();
            if closed.send(String::from_utf8_lossy(&request).into_owned()).is_err() {
                return;
            }
            if number % 2 == 1 {
                let _ = stream.read(&mut buffer);
            }
        }
    });
    (address, seen)
}

#[tokio::test]
async fn a_connection_that_died_while_idle_costs_no_attempt() {
    let (address, seen) = answers_once_on_each_connection();
    let folder = tempfile::tempdir().unwrap();
    let config = format!(
        "[[client]]\nname = \"t\"\nvalue = \"{CLIENT_KEY}\"\n[[provider]]\nid = \"p\"\nformat = \"openai-chat\"\nbase_url = \"http://{address}/v1\"\n[[provider.key]]\nvalue = \"sk-one\"\n"
    );
    let gateway = start(&config, folder.path());
    let mut asked = Vec::new();
    for _ in 0..50 {
        let got = ask(gateway.addr(), &request("POST", "/proxy/p/v1/chat/completions", CHAT, "")).await;
        assert_eq!((got.status, got.body.as_str()), (200, ANSWER));
        assert_eq!(got.header("x-backstop-key"), "key%201");
        assert_eq!(got.header("x-backstop-attempts"), "1");
        asked.push(got.header("x-backstop-request-id").to_owned());
    }
    for id in asked {
        assert_eq!(logged(&gateway, &id).await.attempts.len(), 1);
    }
    let metrics = ask(gateway.addr(), &request("GET", "/metrics", "", "")).await.body;
    let counts = |name: &str| -> Vec<String> {
        let lines = metrics.lines().filter(|line| line.starts_with(name) && !line.ends_with(" 0"));
        lines.map(str::to_owned).collect()
    };
    let answered = "backstop_attempts_total{provider=\"p\",model=\"other\",class=\"answered\"} 50";
    assert_eq!(counts("backstop_attempts_total"), [answered]);
    for name in ["backstop_key_errors_total", "backstop_retries_total", "backstop_masked_failures_total"] {
        assert_eq!(counts(name), [""; 0], "{name}");
    }
    let control = gateway.control();
    let key = control.keys(&"p".into())[0].id;
    assert!(control.store().key_errors(key).unwrap().is_empty(), "nothing stands against the key");
    drop(gateway);
    assert_eq!(seen.try_iter().count(), 50, "each request reached the provider once");
}

#[tokio::test]
async fn connections_are_used_again() {
    let world = World::of(Script::new(), &["sk-one"]).await;
    for _ in 0..20 {
        assert_eq!(world.chat().await.status, 200);
        assert_eq!(world.stream().await.status, 200);
    }
    assert_eq!(world.provider.counters().connections, 1);
}

#[tokio::test]
async fn a_provider_that_resets_or_refuses_is_a_network_error() {
    let script = Script::new().greet(1.., Greeting::Reset).otherwise(Reply::answer());
    let world = World::new(Setup { script, provider: "last_key_ladder_s = []\n", ..Setup::default() }).await;
    let got = world.chat().await;
    assert_eq!(
        (got.status, got.json()["backstop"]["class"].as_str()),
        (503, Some("network_error")),
        "{}",
        got.body
    );
    assert_eq!(world.keys(), ["sk-one active", "sk-two active"]);
}

#[tokio::test]
async fn a_name_that_leads_to_link_local_addresses_is_never_dialled() {
    let setup = Setup { provider: "", ..Setup::default() };
    let folder = tempfile::tempdir().unwrap();
    let config = format!(
        "[[client]]\nname = \"t\"\nvalue = \"{CLIENT_KEY}\"\n[[provider]]\nid = \"p\"\nformat = \"{}\"\nbase_url = \"https://169.254.169.254/v1\"\n[[provider.key]]\nvalue = \"sk-one\"\n",
        setup.format
    );
    let gateway = start(&config, folder.path());
    let got = ask(gateway.addr(), &request("POST", "/proxy/p/v1/chat/completions", CHAT, "")).await;
    assert_eq!((got.status, got.header("x-backstop-error")), (502, "misconfigured_route"), "{}", got.body);
}

/// A TLS server with this certificate that answers every request well.
pub(crate) async fn encrypted(certificate: &rcgen::Certificate, key: &KeyPair) -> SocketAddr {
    let chain = vec![certificate.der().clone()];
    let key = rustls::pki_types::PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok(mut stream) = acceptor.accept(stream).await else { return };
                let mut buffer = vec![0; 16 * 1024];
                while stream.read(&mut buffer).await.is_ok_and(|count| count > 0) {
                    let head = format!(
                        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{ANSWER}",
                        ANSWER.len()
                    );
                    if stream.write_all(head.as_bytes()).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

#[tokio::test]
async fn certificates_are_checked_and_a_file_of_ones_own_is_trusted() {
    let folder = tempfile::tempdir().unwrap();
    let key = KeyPair::generate().unwrap();
    let good = CertificateParams::new(vec!["localhost".to_owned()]).unwrap().self_signed(&key).unwrap();
    let wrong_name =
        CertificateParams::new(vec!["elsewhere.test".to_owned()]).unwrap().self_signed(&key).unwrap();
    for (certificate, trusted, status) in [(&good, true, 200), (&good, false, 503), (&wrong_name, true, 503)]
    {
        let address = encrypted(certificate, &key).await;
        let file = folder.path().join("ca.pem");
        std::fs::write(&file, certificate.pem()).unwrap();
        let trust = if trusted { format!("ca_file = \"{}\"\n", file.display()) } else { String::new() };
        let config = format!(
            "[[client]]\nname = \"t\"\nvalue = \"{CLIENT_KEY}\"\n[[provider]]\nid = \"p\"\nformat = \"openai-chat\"\nlast_key_ladder_s = []\nbase_url = \"https://localhost:{}/v1\"\n{trust}[[provider.key]]\nvalue = \"sk-one\"\n",
            address.port()
        );
        let data = tempfile::tempdir().unwrap();
        let gateway = start(&config, data.path());
        let got = ask(gateway.addr(), &request("POST", "/proxy/p/v1/chat/completions", CHAT, "")).await;
        assert_eq!(got.status, status, "trusted: {trusted}: {}", got.body);
    }
}

#[tokio::test]
async fn a_proxy_is_asked_for_a_tunnel() {
    let world = World::of(Script::new(), &["sk-one"]).await;
    let target = world.provider.addr();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = listener.local_addr().unwrap();
    let (told, mut asked) = tokio::sync::mpsc::channel(1);
    tokio::spawn(async move {
        let (mut inward, _) = listener.accept().await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(inward.read_u8().await.unwrap());
        }
        told.send(String::from_utf8(head).unwrap()).await.unwrap();
        inward.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await.unwrap();
        let mut outward = tokio::net::TcpStream::connect(target).await.unwrap();
        let _ = tokio::io::copy_bidirectional(&mut inward, &mut outward).await;
    });
    let config = format!(
        "[[client]]\nname = \"t\"\nvalue = \"{CLIENT_KEY}\"\n[[provider]]\nid = \"p\"\nformat = \"openai-chat\"\nbase_url = \"http://far.test/v1\"\nallow_private = true\nproxy = \"http://user:pass@{proxy}\"\n[[provider.key]]\nvalue = \"sk-one\"\n"
    );
    let folder = tempfile::tempdir().unwrap();
    let gateway = start(&config, folder.path());
    let got = ask(gateway.addr(), &request("POST", "/proxy/p/v1/chat/completions", CHAT, "")).await;
    assert_eq!(got.status, 200, "{}", got.body);
    let head = asked.recv().await.unwrap();
    assert!(head.starts_with("CONNECT far.test:80 HTTP/1.1\r\n"), "{head}");
    assert!(head.contains("proxy-authorization: Basic dXNlcjpwYXNz\r\n"), "{head}");
}

/// A provider at this address, its only key, and no second try.
fn only(base_url: &str) -> String {
    format!(
        "[[client]]\nname = \"t\"\nvalue = \"{CLIENT_KEY}\"\n[[provider]]\nid = \"p\"\nformat = \"openai-chat\"\nlast_key_ladder_s = []\nallow_private = true\nbase_url = \"{base_url}\"\n[[provider.key]]\nvalue = \"sk-one\"\n"
    )
}

#[tokio::test]
async fn a_name_without_address_a_black_hole_and_a_mute_handshake_hold_nobody_up() {
    // No label of a name is that long, so that nobody has to be asked.
    let nameless = format!("http://{}.test/v1", "a".repeat(64));
    // Whoever listens and never accepts answers no further handshake once its queue is full.
    let hole = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    hole.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    hole.listen(0).unwrap();
    let into_hole = hole.local_addr().unwrap().as_socket().unwrap();
    let mut filling = Vec::new();
    for _ in 0..8 {
        let filler = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        filler.set_nonblocking(true).unwrap();
        let _ = filler.connect(&into_hole.into());
        filling.push(filler);
    }
    let mute = TcpListener::bind("127.0.0.1:0").unwrap();
    let to_mute = mute.local_addr().unwrap();
    let cases = [
        (nameless, 503, "network_error"),
        (format!("http://{into_hole}/v1"), 504, "timeout"),
        (format!("https://{to_mute}/v1"), 503, "network_error"),
    ];
    let asking = cases.map(|(base_url, status, class)| {
        tokio::spawn(async move {
            let folder = tempfile::tempdir().unwrap();
            let gateway = start(&only(&base_url), folder.path());
            let request = request("POST", "/proxy/p/v1/chat/completions", CHAT, "");
            let got = tokio::time::timeout(Duration::from_secs(60), ask(gateway.addr(), &request)).await;
            let got = got.unwrap_or_else(|_| panic!("{base_url} held the client up"));
            assert_eq!(got.status, status, "{base_url}: {}", got.body);
            assert_eq!(got.json()["backstop"]["class"], class, "{base_url}: {}", got.body);
        })
    });
    for asked in asking {
        asked.await.unwrap();
    }
    drop((hole, filling, mute));
}

/// A provider that answers only once the gate is open, and counts what it was asked.
async fn gated() -> (SocketAddr, watch::Sender<bool>, Arc<AtomicUsize>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (gate, opened) = watch::channel(false);
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let (mut opened, count) = (opened.clone(), count.clone());
            tokio::spawn(async move {
                let mut request = Vec::new();
                while !request.ends_with(CHAT.as_bytes()) {
                    if stream.read_buf(&mut request).await.is_ok_and(|read| read > 0) {
                        continue;
                    }
                    return;
                }
                count.fetch_add(1, Ordering::SeqCst);
                opened.wait_for(|is_open| *is_open).await.unwrap();
                let answer = format!(
                    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{ANSWER}",
                    ANSWER.len()
                );
                stream.write_all(answer.as_bytes()).await.unwrap();
            });
        }
    });
    (address, gate, asked)
}

#[tokio::test]
async fn as_many_calls_as_a_key_may_have_and_as_many_wait_and_nobody_is_blamed() {
    let (provider, gate, asked) = gated().await;
    let config = only(&format!("http://{provider}/v1"))
        .replace("[[provider.key]]", "max_concurrent = 1\n[[provider.key]]");
    let folder = tempfile::tempdir().unwrap();
    let gateway = start(&config, folder.path());
    let address = gateway.addr();
    let chat =
        move || async move { ask(address, &request("POST", "/proxy/p/v1/chat/completions", CHAT, "")).await };
    let mut asking: JoinSet<_> = (0..4).map(|_| chat()).collect();
    for _ in 0..2 {
        // The other two have a place and the wait for it, until the gate is opened.
        let got = asking.join_next().await.unwrap().unwrap();
        assert_eq!((got.status, got.header("x-backstop-error")), (503, "gateway_fault"), "{}", got.body);
        assert_eq!(got.header("x-should-retry"), "true");
    }
    gate.send(true).unwrap();
    let served: Vec<u16> = asking.join_all().await.into_iter().map(|got| got.status).collect();
    assert_eq!((served, asked.load(Ordering::SeqCst)), (vec![200, 200], 2));
    let keys = gateway.control().keys(&"p".into());
    assert_eq!(keys.iter().map(|key| key.state.to_string()).collect::<Vec<_>>(), ["active"]);
    assert_eq!(chat().await.status, 200, "places come free again");
}

#[tokio::test]
async fn a_session_stays_with_its_key_while_the_key_is_healthy() {
    let script = Script::new()
        .on(key("sk-one").between(3..), Reply::status(429).header("retry-after", "600"))
        .otherwise(Reply::answer());
    let provider = "rotation = \"round-robin\"\nsticky = \"session\"\n";
    let world = World::new(Setup { script, provider, ..Setup::default() }).await;
    let mut keys = Vec::new();
    for round in 0..4 {
        for session in ["a", "b"] {
            let body = CHAT.replace("{\"model\"", &format!("{{\"prompt_cache_key\":\"{session}\",\"model\""));
            let got = world.post("/proxy/p/v1/chat/completions", &body).await;
            assert_eq!(got.status, 200, "{round}");
            keys.push(format!("{session} {}", got.header("x-backstop-key")));
        }
    }
    let expected =
        ["a sk-one", "b sk-two", "a sk-one", "b sk-two", "a sk-two", "b sk-two", "a sk-two", "b sk-two"];
    assert_eq!(keys, expected);
}
