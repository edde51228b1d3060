//! A provider, a gateway in front of it, and a client that hides nothing.

use std::{collections::BTreeMap, net::SocketAddr, path::Path, time::Duration};

use backstop_faultd::{Client, Faultd, Script, Trouble};
use backstop_gateway::{
    Gateway, Running,
    config::{Config, Environment},
};
use backstop_store::{Store, requests::RequestRow};
use backstop_triage::{Catalog, ProviderId, pool::KeyStatus};
use tempfile::TempDir;

pub(crate) const CLIENT_KEY: &str = "test-client-key-0123456789";

/// A provider called `p` and the gateway in front of it.
pub(crate) struct World {
    pub(crate) provider: Faultd,
    pub(crate) gateway: Running,
    pub(crate) folder: TempDir,
    config: String,
}

/// What a client got.
#[derive(Debug)]
pub(crate) struct Got {
    pub(crate) status: u16,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: String,
    /// Whether the answer came to its regular end.
    pub(crate) whole: bool,
}

/// How the provider is configured.
pub(crate) struct Setup<'a> {
    pub(crate) script: Script,
    pub(crate) format: &'a str,
    pub(crate) keys: &'a [&'a str],
    /// Fields of `[[provider]]`.
    pub(crate) provider: &'a str,
    /// Further tables.
    pub(crate) tables: &'a str,
}

impl Default for Setup<'_> {
    fn default() -> Self {
        let script = Script::new();
        Self { script, format: "openai-chat", keys: &["sk-one", "sk-two"], provider: "", tables: "" }
    }
}

impl World {
    pub(crate) async fn new(setup: Setup<'_>) -> Self {
        let provider = Faultd::start(setup.script).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let mut config = format!(
            "{}\n[[client]]\nname = \"test\"\nvalue = \"{CLIENT_KEY}\"\n[[provider]]\nid = \"p\"\nformat = \"{}\"\nbase_url = \"{}\"\n{}\n",
            setup.tables,
            setup.format,
            provider.base_url(),
            setup.provider,
        );
        for key in setup.keys {
            config.push_str(&format!("[[provider.key]]\nvalue = \"{key}\"\nlabel = \"{key}\"\n"));
        }
        let gateway = start(&config, folder.path());
        Self { provider, gateway, folder, config }
    }

    /// With this script and these keys.
    pub(crate) async fn of(script: Script, keys: &[&str]) -> Self {
        Self::new(Setup { script, keys, ..Setup::default() }).await
    }

    /// Stops the gateway without letting it end in order, and starts another on what it left behind.
    pub(crate) fn restarted(self) -> Self {
        let Self { provider, gateway, folder, config } = self;
        drop(gateway);
        let gateway = loop {
            // The old one lets go of the folder when its last worker has ended.
            match try_start(&config, folder.path()) {
                Ok(gateway) => break gateway,
                Err(_) => std::thread::yield_now(),
            }
        };
        Self { provider, gateway, folder, config }
    }

    /// Puts a changed configuration into force.
    pub(crate) fn reload(&self, change: impl FnOnce(&mut Config)) {
        let mut config = read(&self.config, self.folder.path(), &Catalog::embedded()).unwrap();
        change(&mut config);
        self.gateway.control().reload(&config, Catalog::embedded()).unwrap();
    }

    pub(crate) async fn post(&self, path: &str, body: &str) -> Got {
        self.post_with(path, body, "").await
    }

    pub(crate) async fn post_with(&self, path: &str, body: &str, headers: &str) -> Got {
        ask(self.gateway.addr(), &request("POST", path, body, headers)).await
    }

    pub(crate) async fn get(&self, path: &str) -> Got {
        ask(self.gateway.addr(), &request("GET", path, "", "")).await
    }

    /// A chat request for `m` to provider `p`.
    pub(crate) async fn chat(&self) -> Got {
        self.post("/proxy/p/v1/chat/completions", CHAT).await
    }

    /// The same, streamed.
    pub(crate) async fn stream(&self) -> Got {
        self.post("/proxy/p/v1/chat/completions", STREAM).await
    }

    /// The log's row of a request, once it is written.
    pub(crate) async fn logged(&self, id: &str) -> RequestRow {
        logged(&self.gateway, id).await
    }

    /// How often the provider was asked with each key, in order of the first call.
    pub(crate) fn asked(&self) -> Vec<(String, usize)> {
        let mut asked: Vec<(String, usize)> = Vec::new();
        for call in self.provider.log() {
            let key = call.key.unwrap_or_default();
            match asked.iter_mut().find(|(known, _)| *known == key) {
                Some((_, count)) => *count += 1,
                None => asked.push((key, 1)),
            }
        }
        asked
    }

    /// The state of each key, as `label state`, with the models that it does not serve.
    pub(crate) fn keys(&self) -> Vec<String> {
        let keys = self.gateway.control().keys(&ProviderId::from("p"));
        let models = |key: &KeyStatus| {
            key.models.iter().map(|rest| format!(" without {}", rest.model)).collect::<String>()
        };
        keys.iter().map(|key| format!("{} {}{}", key.label, key.state, models(key))).collect()
    }
}

impl Got {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    /// The data of the stream's events.
    pub(crate) fn data(&self) -> Vec<&str> {
        self.body.lines().filter_map(|line| line.strip_prefix("data: ")).collect()
    }

    /// How often a text occurs in the body.
    pub(crate) fn count(&self, text: &str) -> usize {
        self.body.matches(text).count()
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }
}

pub(crate) fn request(method: &str, path: &str, body: &str, headers: &str) -> Vec<u8> {
    let length = body.len();
    let authorization = if headers.contains("authorization") {
        String::new()
    } else {
        format!("authorization: Bearer {CLIENT_KEY}\r\n")
    };
    format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n{authorization}{headers}content-length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

/// The body of an answer as far as it came, and whether it came to its regular end.
pub(crate) async fn rest(client: &mut Client) -> (String, bool) {
    let mut body = Vec::new();
    let whole = loop {
        match client.piece().await {
            Ok(Some(piece)) => body.extend_from_slice(&piece),
            Ok(None) => break true,
            Err(Trouble::Closed | Trouble::Broken(_)) => break false,
            Err(trouble) => panic!("{trouble}"),
        }
    };
    (String::from_utf8_lossy(&body).into_owned(), whole)
}

/// Asks once, and notes whether the answer was whole.
pub(crate) async fn ask(addr: SocketAddr, request: &[u8]) -> Got {
    let mut client = Client::new(addr);
    tokio::time::timeout(PATIENCE, async {
        client.send(request).await.unwrap();
        let head = client.head().await.unwrap();
        let (body, whole) = rest(&mut client).await;
        let headers = head.headers.into_iter().collect();
        Got { status: head.status, headers, body, whole }
    })
    .await
    .expect("an answer within the test's patience")
}

/// The log's row of a request, once it is written.
pub(crate) async fn logged(gateway: &Running, id: &str) -> RequestRow {
    let written = async {
        loop {
            if let Some(row) = gateway.control().store().request(id).unwrap() {
                return row;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, written).await.expect("the row of a request that has ended")
}

pub(crate) fn start(config: &str, folder: &Path) -> Running {
    try_start(config, folder).unwrap_or_else(|error| panic!("{error}"))
}

fn try_start(config: &str, folder: &Path) -> Result<Running, String> {
    let catalog = Catalog::embedded();
    let config = read(config, folder, &catalog)?;
    let store = Store::open(&config.server.data_dir).map_err(|error| error.to_string())?;
    Gateway { config, store, catalog, mount: None }.start().map_err(|error| error.to_string())
}

fn read(config: &str, folder: &Path, catalog: &Catalog) -> Result<Config, String> {
    let server = format!(
        "[server]\nlisten = \"127.0.0.1:0\"\ndata_dir = \"{}\"\nworkers = 1\nmetrics_open = true\n",
        folder.display()
    );
    // A test may bring a [server] table of its own; what it says is put into this one.
    let config = match config.strip_prefix("[server]\n") {
        Some(rest) => format!("{server}{rest}"),
        None => format!("{server}{config}"),
    };
    Config::parse(&config, Path::new("test.toml"), &Environment::default(), catalog)
        .map_err(|error| error.to_string())
}

pub(crate) const CHAT: &str = r#"{"model":"m","messages":[{"role":"user","content":"hi"}]}"#;
pub(crate) const STREAM: &str = r#"{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}"#;
const PATIENCE: Duration = Duration::from_secs(30);
