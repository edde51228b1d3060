//! The command line: reads arguments, calls the crate that does the work, prints.

mod cmd;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// A self-hosted gateway for LLM APIs that reads every upstream failure right and acts on it.
#[derive(Parser)]
#[command(name = "backstop", version, about, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Classify(cmd::classify::Args),
    Rules(cmd::rules::Args),
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Classify(args) => cmd::classify::run(args),
        Command::Rules(args) => cmd::rules::run(args),
    };
    done.unwrap_or_else(|error| {
        eprintln!("backstop: {error:#}");
        ExitCode::FAILURE
    })
}
