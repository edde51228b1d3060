//! The real program as a process of its own, with a folder of its own.

use std::{
    fs::{self, File},
    net::TcpListener,
    path::Path,
    process::Stdio,
    time::Duration,
};

use backstop_faultd::Client;
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    process::{Child, Command},
    time::{sleep, timeout},
};

/// A running `backstop serve`; dropping it kills it.
pub(crate) struct Served {
    folder: TempDir,
    address: String,
    child: Child,
    variables: Vec<(&'static str, String)>,
}

impl Served {
    /// Starts the gateway with this configuration, and a client key, and waits until it is ready.
    pub(crate) async fn start(config: &str) -> Self {
        Self::start_with(config, &[]).await
    }

    /// The same with these variables in its environment.
    pub(crate) async fn start_with(config: &str, variables: &[(&'static str, &str)]) -> Self {
        let folder = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let client = format!("\n[[client]]\nname = \"tests\"\nvalue = \"{CLIENT_KEY}\"\n");
        fs::write(folder.path().join("backstop.toml"), format!("{config}{client}")).unwrap();
        let address = free_address();
        let variables: Vec<_> = variables.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        let child = spawn(folder.path(), &address, &variables);
        let mut served = Self { folder, address, child, variables };
        served.wait_until_ready().await;
        served
    }

    /// Ends the process by SIGKILL, and starts it again on the same folder.
    pub(crate) async fn kill_and_restart(&mut self) {
        self.child.kill().await.unwrap();
        self.child = spawn(self.folder.path(), &self.address, &self.variables);
        self.wait_until_ready().await;
    }

    /// The gateway's URL, without a slash at its end.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The client key that it knows.
    #[expect(clippy::unused_self, reason = "the key belongs to the gateway that was started")]
    pub(crate) fn client_key(&self) -> &'static str {
        CLIENT_KEY
    }

    /// Its folder; the configuration, the data and what it said on stderr lie there.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Its address, such as `127.0.0.1:4711`.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// The token of its administrator.
    pub(crate) fn admin_token(&self) -> String {
        let token = fs::read_to_string(self.folder.path().join("data/admin.token")).unwrap();
        token.trim().to_owned()
    }

    /// Asks with these header lines; a body goes as JSON. Status, header lines in lower case, and body.
    pub(crate) async fn ask(
        &self,
        (method, path): (&str, &str),
        headers: &[String],
        body: Option<&str>,
    ) -> (u16, Vec<(String, String)>, String) {
        let host = if headers.iter().any(|line| line.to_lowercase().starts_with("host:")) {
            String::new()
        } else {
            format!("host: {}\r\n", self.address)
        };
        let lines: String = headers.iter().map(|line| format!("{line}\r\n")).collect();
        let body = body.map_or_else(
            || "\r\n".to_owned(),
            |body| format!("content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}", body.len()),
        );
        let request = format!("{method} {path} HTTP/1.1\r\n{host}{lines}{body}");
        let mut client = Client::new(self.address.parse().unwrap());
        client.send(request.as_bytes()).await.unwrap();
        let head = client.head().await.unwrap();
        let mut body = Vec::new();
        // An answer that breaks off is one too.
        while let Ok(Some(piece)) = client.piece().await {
            body.extend_from_slice(&piece);
        }
        (head.status, head.headers, String::from_utf8_lossy(&body).into_owned())
    }

    /// Asks as its administrator; status and body.
    pub(crate) async fn admin(&self, method: &str, path: &str, body: Option<&str>) -> (u16, String) {
        let token = format!("authorization: Bearer {}", self.admin_token());
        let (status, _, body) = self.ask((method, path), &[token], body).await;
        (status, body)
    }

    /// Runs a command against it; what the command prints, and its exit code.
    pub(crate) async fn run(&self, arguments: &[&str], stdin: &str) -> (String, i32) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_backstop"));
        let data = self.folder().join("data");
        command.args(arguments).env_clear().env("HOME", self.folder()).env("BACKSTOP_URL", self.url());
        outcome(command.arg("--data-dir").arg(data), stdin).await
    }

    /// What it said on stderr since its last start.
    pub(crate) fn stderr(&self) -> String {
        fs::read_to_string(self.folder.path().join("stderr")).unwrap_or_default()
    }

    async fn wait_until_ready(&mut self) {
        let ready = async {
            while !is_ready(&self.address).await {
                if let Some(status) = self.child.try_wait().unwrap() {
                    panic!("the gateway ended with {status}:\n{}", self.stderr());
                }
                sleep(Duration::from_millis(20)).await;
            }
        };
        assert!(timeout(START_LIMIT, ready).await.is_ok(), "the gateway is not ready:\n{}", self.stderr());
    }
}

/// Runs a command to its end with this on its standard input; all that it prints, and its exit code.
pub(crate) async fn outcome(command: &mut Command, stdin: &str) -> (String, i32) {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(stdin.as_bytes()).await.unwrap();
    let output = child.wait_with_output().await.unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    (text.into_owned(), output.status.code().unwrap_or(-1))
}

fn spawn(folder: &Path, address: &str, variables: &[(&'static str, String)]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_backstop"))
        .arg("serve")
        .args(["--listen", address])
        .arg("--config")
        .arg(folder.join("backstop.toml"))
        .arg("--data-dir")
        .arg(folder.join("data"))
        .env("HOME", folder)
        .envs(variables.iter().map(|(name, value)| (*name, value.as_str())))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(File::create(folder.join("stderr")).unwrap())
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}

async fn is_ready(address: &str) -> bool {
    let Ok(mut stream) = TcpStream::connect(address).await else { return false };
    let request = format!("GET /readyz HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    let mut answer = Vec::new();
    stream.write_all(request.as_bytes()).await.is_ok()
        && stream.read_to_end(&mut answer).await.is_ok()
        && answer.starts_with(b"HTTP/1.1 200")
}

/// A loopback address that was free a moment ago.
fn free_address() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

const CLIENT_KEY: &str = "bsk_0123456789abcdef0123456789abcdef";

const START_LIMIT: Duration = Duration::from_secs(60);
