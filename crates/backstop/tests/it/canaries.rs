//! Secrets are planted everywhere, everything that can go wrong goes wrong, and whatever the gateway wrote, sent and
//! showed is searched for them.

use std::{fs, path::Path};

use backstop_faultd::{Faultd, Point, Reply, Script, key};
use serde_json::json;

use crate::served::Served;

/// A planted secret, with characters that spell differently in URLs, and not shaped like anybody's keys.
const FILE_KEY: &str = "canary+file/key~5e1b";
const ADDED_KEY: &str = "canary+added/key~77aa";
const DEAD_KEY: &str = "sk-canary0dead0key0123456789abcdef";
const UNSAVED_KEY: &str = "canary+unsaved/key~03d4";
const FOREIGN_CLIENT: &str = "canary+foreign/client~91c2";
const PASSWORD: &str = "canary+pass/word~c0de";
const WRONG_PASSWORD: &str = "canary+wrong/word~beef";
const HOOK_SECRET: &str = "canary+hook/secret~1f2e";
const PROMPT: &str = "canary+prompt/text~6b6b";

#[tokio::test(flavor = "multi_thread")]
async fn no_planted_secret_is_in_anything_that_the_gateway_writes_sends_or_shows() {
    let upstream = Faultd::start(script()).await.unwrap();
    let hook = Faultd::start(Script::new()).await.unwrap();
    let config = config(&upstream, &hook);
    let mut served =
        Served::start_with(&config, &[("BACKSTOP_LOG", "trace"), ("CANARY_HOOK", HOOK_SECRET)]).await;
    let mut sweep = Sweep::default();
    let made = administers(&served, &mut sweep).await;
    let secrets =
        [FILE_KEY, ADDED_KEY, DEAD_KEY, UNSAVED_KEY, FOREIGN_CLIENT, PASSWORD, WRONG_PASSWORD, HOOK_SECRET]
            .map(str::to_owned);
    let secrets: Vec<String> = secrets.into_iter().chain([served.admin_token(), made.clone()]).collect();
    for client in [served.client_key(), made.as_str()] {
        asks(&served, client, &mut sweep).await;
    }
    let cookie = signs_in(&served, &mut sweep).await;
    looks_around(&served, &cookie, &mut sweep).await;
    until(|| hook.log().iter().any(|call| call.path.contains("hook"))).await;
    for call in hook.log() {
        sweep.keep("alert", format!("{:?}\n{}", call.headers, String::from_utf8_lossy(&call.body)));
    }
    sweep.keep("log", served.stderr());
    // What was written before the end of the process, and what it reads and writes at its next start.
    served.kill_and_restart().await;
    sweep.keep("log after the restart", served.stderr());
    looks_around(&served, &cookie, &mut sweep).await;
    sweep.files(&served.folder().join("data"));
    assert!(sweep.0.len() > 100, "{}", sweep.0.len());
    for secret in &secrets {
        sweep.look_for(secret);
    }
    sweep.0.retain(|(place, _)| place.contains("log") || place.contains(".db"));
    sweep.look_for(PROMPT);
}

/// Providers that repeat the key in every way that they fail.
fn script() -> Script {
    let says = |key: &str| format!("your key {key} (Bearer {key}) is not welcome");
    let mut script = Script::new();
    for secret in [FILE_KEY, ADDED_KEY] {
        script = script
            .on(key(secret).path("/models"), Reply::json(500, says(secret)))
            .on(
                key(secret).nth(1),
                Reply::error(429, "rate_limit_exceeded", says(secret)).header("x-echo", secret),
            )
            .on(key(secret).nth(2), Reply::error(418, "kettle", says(secret)).header("x-echo", secret))
            .on(
                key(secret).nth(3),
                Reply::answer().error_event(Point::Content(0), "server_error", says(secret)),
            )
            .on(
                key(secret).nth(4),
                Reply::answer().error_event(Point::Content(1), "server_error", says(secret)),
            )
            .on(key(secret).nth(5), Reply::html(503, format!("<html>{}</html>", says(secret))))
            .on(key(secret).nth(6), Reply::redirect(302, format!("https://evil.test/?key={secret}")))
            .on(key(secret).nth(7), Reply::raw(format!("HTTP/1.1 banana {secret}\r\n\r\n")));
    }
    script
        .on(
            key(DEAD_KEY),
            Reply::error(401, "invalid_api_key", format!("Incorrect API key provided: {DEAD_KEY}")),
        )
        .on(
            key(UNSAVED_KEY),
            Reply::error(401, "invalid_api_key", says(UNSAVED_KEY)).header("x-echo", UNSAVED_KEY),
        )
}

fn config(upstream: &Faultd, hook: &Faultd) -> String {
    format!(
        r#"
[[alert]]
channel = "webhook"
url = "{}/hook"
secret_env = "CANARY_HOOK"

[[provider]]
id = "house"
format = "openai-chat"
base_url = "{}"
rules = "openai"
[[provider.key]]
label = "one"
value = "{FILE_KEY}"
[[provider.key]]
label = "dead"
value = "{DEAD_KEY}"

[[provider]]
id = "gone"
format = "anthropic-messages"
base_url = "http://127.0.0.1:9"
[[provider.key]]
label = "two"
value = "{FILE_KEY}"
"#,
        hook.base_url(),
        upstream.base_url(),
    )
}

/// Does with secrets what an administrator does with them; the client key that was made.
async fn administers(served: &Served, sweep: &mut Sweep) -> String {
    let house = json!({ "id": "added", "format": "openai-chat", "base_url": base_of(served).await, "rules": "openai", "allow_private": true });
    let draft = json!({ "definition": house, "key": UNSAVED_KEY, "model": "m" });
    for (method, path, body) in [
        ("POST", "/api/providers", Some(house.clone())),
        (
            "POST",
            "/api/providers/added/keys/bulk",
            Some(json!({ "text": format!("one {ADDED_KEY}\ntwo {DEAD_KEY}\ntwice {ADDED_KEY}\n") })),
        ),
        ("POST", "/api/providers/added/keys/bulk", Some(json!({ "text": ADDED_KEY, "nonsense": 1 }))),
        ("POST", "/api/test", Some(draft)),
        ("POST", "/api/providers/added/test", Some(json!({ "key": UNSAVED_KEY, "model": "m" }))),
        ("POST", "/api/providers/house/keys/1/test", None),
        ("POST", "/api/providers/house/keys/test-all", None),
        ("POST", "/api/providers/added/keys/test-all", None),
        ("POST", "/api/providers/house/models/fetch", None),
        ("POST", "/api/providers/gone/models/fetch", None),
        ("PUT", "/api/auth/password", Some(json!({ "password": PASSWORD }))),
        ("PUT", "/api/auth/password", Some(json!({ "password": PASSWORD, "nonsense": PASSWORD }))),
    ] {
        let body = body.map(|body| body.to_string());
        let (_, answer) = served.admin(method, path, body.as_deref()).await;
        sweep.keep(path, answer);
    }
    let keeps = json!({ "name": "keeps", "limits": { "keep_bodies": true } }).to_string();
    let (_, made) = served.admin("POST", "/api/clients", Some(&keeps)).await;
    let made: serde_json::Value = serde_json::from_str(&made).unwrap();
    made["key"].as_str().unwrap().to_owned()
}

/// The address of the scripted provider, from the gateway's own words.
async fn base_of(served: &Served) -> String {
    let (_, house) = served.admin("GET", "/api/providers/house", None).await;
    let house: serde_json::Value = serde_json::from_str(&house).unwrap();
    house["base_url"].as_str().unwrap().to_owned()
}

/// Asks as a client until every failure has come.
async fn asks(served: &Served, client: &str, sweep: &mut Sweep) {
    for (number, provider) in (0..40).zip(["house", "added", "gone", "nobody"].iter().cycle()) {
        let stream = number % 8 < 4;
        let body = json!({ "model": "m", "stream": stream, "max_tokens": 5, "messages": [{ "role": "user", "content": PROMPT }] });
        let path = if *provider == "gone" { "/v1/messages" } else { "/v1/chat/completions" };
        let path = format!("/proxy/{provider}{path}");
        let key = format!("authorization: Bearer {client}");
        let (_, headers, answer) = served.ask(("POST", &path), &[key], Some(&body.to_string())).await;
        sweep.keep(&path, format!("{headers:?}\n{answer}"));
    }
    for (path, header) in [
        ("/v1/models".to_owned(), format!("authorization: Bearer {FOREIGN_CLIENT}")),
        ("/v1/models".to_owned(), format!("x-api-key: {FOREIGN_CLIENT}")),
        (format!("/v1beta/models/m:generateContent?key={FOREIGN_CLIENT}"), "x-a: b".to_owned()),
        (format!("/v1/models?key={FOREIGN_CLIENT}"), format!("authorization: Basic {FOREIGN_CLIENT}")),
        ("/api/status".to_owned(), format!("authorization: Bearer {FOREIGN_CLIENT}")),
    ] {
        let (status, headers, answer) = served.ask(("GET", &path), &[header], None).await;
        assert!(status >= 400, "{path}: {status}");
        sweep.keep("foreign client", format!("{headers:?}\n{answer}"));
    }
}

/// Signs in with a wrong password and with the right one; the cookie.
async fn signs_in(served: &Served, sweep: &mut Sweep) -> String {
    let mut cookie = String::new();
    for password in [WRONG_PASSWORD, PASSWORD] {
        let body = json!({ "password": password }).to_string();
        let (_, headers, answer) = served.ask(("POST", "/api/auth/login"), &[], Some(&body)).await;
        sweep.keep("/api/auth/login", answer);
        if let Some((_, value)) = headers.iter().find(|(name, _)| name == "set-cookie") {
            cookie = format!("cookie: {}", value.split(';').next().unwrap());
        }
    }
    assert!(!cookie.is_empty(), "nobody was signed in");
    cookie
}

/// Reads everything that the API, the pages and the metrics have to say.
async fn looks_around(served: &Served, cookie: &str, sweep: &mut Sweep) {
    let (_, document) = served.admin("GET", "/api/openapi.json", None).await;
    let document: serde_json::Value = serde_json::from_str(&document).unwrap();
    let operations = document["paths"].as_object().unwrap().iter();
    let readable = operations.filter(|(path, item)| item.get("get").is_some() && *path != "/api/events");
    let mut paths: Vec<String> = readable.map(|(path, _)| path.clone()).collect();
    let (pages, open) = backstop_dashboard::page_paths();
    paths.extend(pages.into_iter().chain(open).map(str::to_owned));
    paths.push("/metrics".to_owned());
    paths.extend(logged(served).await);
    for path in paths {
        for provider in ["house", "added"] {
            let path = path
                .replace("{provider}", provider)
                .replace("{key}", if provider == "house" { "2" } else { "4" });
            let path = path
                .split('/')
                .map(|part| if part.starts_with('{') { "1" } else { part })
                .collect::<Vec<_>>();
            let path = path.join("/");
            let credentials = if path == "/metrics" {
                format!("authorization: Bearer {}", served.admin_token())
            } else {
                cookie.to_owned()
            };
            let (_, headers, answer) = served.ask(("GET", &path), &[credentials], None).await;
            sweep.keep(&path, format!("{headers:?}\n{answer}"));
        }
    }
}

/// The paths of what the request log and the inbox hold, but for the bodies that a client wanted kept.
async fn logged(served: &Served) -> Vec<String> {
    let (_, log) = served.admin("GET", "/api/logs?limit=100", None).await;
    let log: serde_json::Value = serde_json::from_str(&log).unwrap();
    let ids = log["items"].as_array().unwrap().iter().filter_map(|row| row["id"].as_str());
    let requests = ids.flat_map(|id| [format!("/api/logs/{id}"), format!("/requests/{id}")]);
    let (_, inbox) = served.admin("GET", "/api/unknown", None).await;
    let inbox: serde_json::Value = serde_json::from_str(&inbox).unwrap();
    let shapes = inbox.as_array().unwrap().iter().filter_map(|row| row["shape"].as_str());
    let unknown = shapes.flat_map(|shape| [format!("/api/unknown/{shape}"), format!("/unknown/{shape}")]);
    requests.chain(unknown).collect()
}

/// What was collected: from where, and what.
#[derive(Default)]
struct Sweep(Vec<(String, String)>);

impl Sweep {
    fn keep(&mut self, place: &str, text: String) {
        self.0.push((place.to_owned(), text));
    }

    /// Takes in every file but the two that are there to hold a secret.
    fn files(&mut self, folder: &Path) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() {
                self.files(&path);
            } else if name != "admin.token" && name != "master.key" {
                // Secrets are ASCII, which stays as it is among bytes that are no text.
                let bytes = fs::read(&path).unwrap();
                self.keep(&format!("file {name}"), String::from_utf8_lossy(&bytes).into_owned());
            }
        }
    }

    fn look_for(&self, secret: &str) {
        for spelled in spellings(secret) {
            for (place, text) in &self.0 {
                if let Some(at) = text.find(&spelled) {
                    let around =
                        text.floor_char_boundary(at.saturating_sub(200))..text.ceil_char_boundary(at + 200);
                    panic!("{secret} is in {place}:\n{}", &text[around]);
                }
            }
        }
    }
}

/// A secret as it stands in a text, in JSON, in a URL, in hexadecimal, and in base64 at any offset.
fn spellings(secret: &str) -> Vec<String> {
    let percent = |keep: &str| {
        let spell = |byte: u8| {
            let plain = byte.is_ascii_alphanumeric() || keep.contains(char::from(byte));
            if plain { char::from(byte).to_string() } else { format!("%{byte:02X}") }
        };
        secret.bytes().map(spell).collect::<String>()
    };
    let hex: String = secret.bytes().map(|byte| format!("{byte:02x}")).collect();
    let mut spellings =
        vec![secret.to_owned(), secret.replace('/', "\\/"), percent("-_.~"), percent("-_."), hex];
    for offset in 0..3 {
        // The characters at both ends share their bits with what stands around, so they are left out.
        let padded = [" ".repeat(offset), secret.to_owned()].concat();
        let whole = padded.len() / 3 * 3;
        let text = base64(&padded.as_bytes()[..whole]);
        let inner = text[if offset == 0 { 0 } else { 4 }..].to_owned();
        spellings.push(inner.replace('+', "-").replace('/', "_"));
        spellings.push(inner);
    }
    spellings
}

/// Base64 of so many bytes that nothing has to be filled up.
fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let letter = |three: u32, shift: u32| char::from(LETTERS[(three >> shift & 63) as usize]);
    let four = |three: &[u8]| {
        let three = three.iter().fold(0_u32, |three, byte| three << 8 | u32::from(*byte));
        [18, 12, 6, 0].map(|shift| letter(three, shift))
    };
    bytes.chunks_exact(3).flat_map(four).collect()
}

#[test]
fn a_secret_is_found_however_it_is_spelled() {
    let spelled = spellings("abc/def");
    for (text, form) in
        [("{\"x\": \"abc\\/def\"}", "JSON"), ("?key=abc%2Fdef", "a URL"), ("YWJjL2RlZg==", "base64")]
    {
        assert!(spelled.iter().any(|spelled| text.contains(spelled.as_str())), "{form}: {spelled:?}");
    }
    assert!(spelled.iter().any(|spelled| "eGFiYy9kZWY=".contains(spelled.as_str())), "base64 behind an x");
}

/// Waits until something is so.
async fn until(so: impl Fn() -> bool) {
    let waiting = async {
        while !so() {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    assert!(
        tokio::time::timeout(std::time::Duration::from_secs(30), waiting).await.is_ok(),
        "it never happened"
    );
}
