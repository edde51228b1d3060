//! The programs of a run: the upstream, nginx, the gateway, and whatever else is named by its URL.

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use backstop_faultd::Client;
use rustix::process::{Pid, Signal, kill_process};

use crate::machine::Cores;

/// Something that answers chat completions below a base path.
pub(crate) struct Target {
    pub(crate) name: String,
    pub(crate) addr: SocketAddr,
    /// What stands before `/chat/completions`.
    pub(crate) base: String,
    pub(crate) key: String,
    /// Its process, where it is ours: no figures of CPU and memory without.
    pub(crate) running: Option<Running>,
}

/// A started program, ended when dropped.
pub(crate) struct Running {
    child: Child,
    /// What it says on stderr.
    words: PathBuf,
}

/// Where programs lie and files may be put.
pub(crate) struct Ground {
    pub(crate) programs: PathBuf,
    pub(crate) folder: PathBuf,
    pub(crate) cores: Cores,
    /// Counts the gateways' folders.
    pub(crate) folders: AtomicUsize,
}

/// The shape of a gateway's configuration, as far as the harness varies it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    pub(crate) keys: usize,
    pub(crate) clients: usize,
}

impl Target {
    /// Reads `name=http://127.0.0.1:1234/v1` with an optional `,key`.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let (name, rest) = text.split_once('=').context("a target is name=URL or name=URL,key")?;
        let (url, key) = rest.split_once(',').unwrap_or((rest, KEY));
        let rest = url.strip_prefix("http://").context("a target's URL begins with http://")?;
        let (addr, path) = rest.split_once('/').unwrap_or((rest, ""));
        let addr = addr.parse().context("a target is named by IP address and port")?;
        let base = format!("/{}", path.trim_end_matches('/'));
        Ok(Self { name: name.to_string(), addr, base, key: key.to_string(), running: None })
    }

    pub(crate) fn process(&self) -> Option<u32> {
        self.running.as_ref().map(|running| running.child.id())
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}{}/chat/completions", self.addr, self.base)
    }

    /// A request for chat completions, as bytes.
    pub(crate) fn request(&self, body: &str) -> Vec<u8> {
        let Self { addr, base, key, .. } = self;
        let length = body.len();
        format!(
            "POST {base}/chat/completions HTTP/1.1\r\nhost: {addr}\r\nauthorization: Bearer {key}\r\n\
             content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        )
        .into_bytes()
    }
}

impl Ground {
    /// Starts the upstream with a script.
    pub(crate) async fn upstream(&self, script: &str) -> Result<Target> {
        let addr = free_port()?;
        let file = self.folder.join(format!("faultd-{}.toml", addr.port()));
        fs::write(&file, script)?;
        let mut command = pinned(self.cores.upstream, &self.programs.join("faultd"));
        command.arg("--script").arg(&file).args(["--listen", &addr.to_string()]);
        let running = Running::start(command, file.with_extension("log"))?;
        let target = Target {
            name: "direct".into(),
            addr,
            base: "/v1".into(),
            key: KEY.into(),
            running: Some(running),
        };
        target.wait_for("/v1/models").await?;
        Ok(target)
    }

    /// Starts nginx as a plain reverse proxy with one worker.
    pub(crate) async fn nginx(&self, upstream: SocketAddr) -> Result<Target> {
        let addr = free_port()?;
        let folder = self.folder.join(format!("nginx-{}", addr.port()));
        fs::create_dir_all(&folder)?;
        let config = include_str!("nginx.conf")
            .replace("@LISTEN@", &addr.to_string())
            .replace("@UPSTREAM@", &upstream.to_string());
        fs::write(folder.join("nginx.conf"), config)?;
        let program = ["/usr/sbin/nginx", "/usr/local/sbin/nginx", "nginx"];
        let program = program.iter().find(|path| Path::new(path).exists()).unwrap_or(&"nginx");
        let mut command = pinned(self.cores.target, Path::new(program));
        command.arg("-p").arg(&folder).args(["-e", "error.log", "-c", "nginx.conf"]);
        let running = Running::start(command, folder.join("words.log"))?;
        let target = Target {
            name: "nginx".into(),
            addr,
            base: "/v1".into(),
            key: KEY.into(),
            running: Some(running),
        };
        target.wait_for("/v1/models").await?;
        Ok(target)
    }

    /// Starts the gateway with everything on; gives the time until it was ready, too.
    pub(crate) async fn gateway(&self, upstream: SocketAddr, size: Size) -> Result<(Target, Duration)> {
        let started = Instant::now();
        let target = self.gateway_with(&sized_config(upstream, size)).await?;
        Ok((target, started.elapsed()))
    }

    /// Starts the gateway with these providers.
    pub(crate) async fn gateway_with(&self, providers: &str) -> Result<Target> {
        let number = self.folders.fetch_add(1, Ordering::Relaxed);
        self.gateway_in(&self.folder.join(format!("gateway-{number}")), providers).await
    }

    /// Starts the gateway with these providers, and with what the folder has in it: rule packs, or an earlier run's data.
    pub(crate) async fn gateway_in(&self, folder: &Path, providers: &str) -> Result<Target> {
        let addr = free_port()?;
        fs::create_dir_all(folder)?;
        let file = folder.join("backstop.toml");
        let config = format!(
            "[server]\nlisten = \"{addr}\"\ndata_dir = \"{}/data\"\nmetrics_open = true\n\n[[client]]\nname = \"bench\"\nvalue = \"{CLIENT_KEY}\"\n\n{providers}",
            folder.display()
        );
        fs::write(&file, config)?;
        let mut command = pinned(self.cores.target, &self.programs.join("backstop"));
        command.arg("serve").arg("--config").arg(&file);
        let running = Running::start(command, folder.join("words.log"))?;
        let base = "/proxy/bench/v1".to_string();
        let target =
            Target { name: "gateway".into(), addr, base, key: CLIENT_KEY.into(), running: Some(running) };
        target.wait_for("/readyz").await?;
        Ok(target)
    }
}

impl Target {
    async fn wait_for(&self, path: &str) -> Result<()> {
        let request = format!("GET {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n", self.addr);
        let started = Instant::now();
        while started.elapsed() < START_LIMIT {
            if let Ok((head, _)) = Client::new(self.addr).ask(request.as_bytes()).await
                && head.status == 200
            {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let words = self.running.as_ref().and_then(|running| fs::read_to_string(&running.words).ok());
        bail!(
            "{} did not answer {path} within {START_LIMIT:?}: {}",
            self.name,
            words.unwrap_or_default().trim()
        )
    }
}

impl Running {
    fn start(mut command: Command, words: PathBuf) -> Result<Self> {
        let child = command.stdout(Stdio::null()).stderr(fs::File::create(&words)?).spawn();
        Ok(Self { child: child.context("cannot run taskset")?, words })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let id = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        if let Some(id) = id {
            let _ = kill_process(id, Signal::TERM);
        }
        let _ = self.child.wait();
    }
}

fn pinned(core: usize, program: &Path) -> Command {
    let mut command = Command::new("taskset");
    command.arg("-c").arg(core.to_string()).arg(program);
    command
}

/// A loopback address that was free a moment ago.
pub(crate) fn free_port() -> Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

pub(crate) fn sized_config(upstream: SocketAddr, size: Size) -> String {
    let mut text = String::new();
    for number in 1..size.clients {
        text += &format!("[[client]]\nname = \"client-{number}\"\nvalue = \"bk-client-{number:026}\"\n\n");
    }
    text += &format!(
        "[[provider]]\nid = \"bench\"\nformat = \"openai-chat\"\nbase_url = \"http://{upstream}/v1\"\nallow_private = true\n\n"
    );
    for number in 0..size.keys.max(1) {
        text += &format!("[[provider.key]]\nlabel = \"key {number}\"\nvalue = \"sk-bench-{number:024}\"\n\n");
    }
    text
}

/// Makes sure that there is something to measure.
pub(crate) fn check_programs(programs: &Path) -> Result<()> {
    for program in ["faultd", "backstop"] {
        let path = programs.join(program);
        ensure!(path.exists(), "{} is not built; run bench/run, which builds it", path.display());
    }
    Ok(())
}

const KEY: &str = "sk-bench";

pub(crate) const CLIENT_KEY: &str = "bk-bench-0123456789abcdef0123456789";

const START_LIMIT: Duration = Duration::from_secs(30);
