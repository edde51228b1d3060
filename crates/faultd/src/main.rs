//! `faultd --script x.toml --listen 127.0.0.1:8080`: a scripted provider on a port of its own.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context;
use backstop_faultd::{Faultd, Script};
use clap::Parser;

/// A scripted provider that speaks four API shapes and fails at every phase.
#[derive(Parser)]
#[command(name = "faultd", version)]
struct Arguments {
    /// What to do, as TOML; without it every request is answered well.
    #[arg(long)]
    script: Option<PathBuf>,
    /// Where to listen.
    #[arg(long, default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
}

#[tokio::main(flavor = "current_thread")]
#[expect(clippy::print_stderr, reason = "a program's own words")]
async fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let script = match &arguments.script {
        Some(file) => {
            let text =
                std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
            Script::from_toml(&text).with_context(|| format!("in {}", file.display()))?
        }
        None => Script::new(),
    };
    let provider = Faultd::listen(script.keep_calls(0), arguments.listen)
        .await
        .with_context(|| format!("cannot listen on {}", arguments.listen))?;
    eprintln!("faultd listens on {}", provider.base_url());
    tokio::signal::ctrl_c().await?;
    eprintln!("{:?}", provider.counters());
    Ok(())
}
