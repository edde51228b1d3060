//! The command line: reads arguments, calls the crate that does the work, prints.

#![expect(clippy::print_stderr, reason = "a command line says on stderr what is wrong")]

mod cmd;
mod redaction;
mod transfer;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};

#[cfg(feature = "jemalloc")]
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
    Serve(cmd::serve::Args),
    Check(cmd::check::Args),
    Alerts(cmd::alerts::Args),
    Classify(cmd::classify::Args),
    Demo(cmd::demo::Args),
    Rules(cmd::rules::Args),
    Rekey(cmd::rekey::Args),
    Context(cmd::context::Args),
    Run(cmd::run::Args),
    Service(cmd::service::Args),
    Status(cmd::status::Args),
    Providers(cmd::providers::Args),
    Keys(cmd::keys::Args),
    Models(cmd::models::Args),
    Fallbacks(cmd::fallbacks::Args),
    Combos(cmd::combos::Args),
    Clients(cmd::clients::Args),
    Settings(cmd::settings::Args),
    Logs(cmd::logs::Args),
    Connect(cmd::connect::Args),
    Export(cmd::export::Args),
    Import(cmd::import::Args),
    Doctor(cmd::doctor::Args),
    Reload(cmd::reload::Args),
    Completions(cmd::manual::Completions),
    Man(cmd::manual::Manual),
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Serve(args) => cmd::serve::run(&args),
        Command::Check(args) => cmd::check::run(&args),
        Command::Alerts(args) => cmd::alerts::run(&args),
        Command::Demo(args) => cmd::demo::run(&args),
        Command::Classify(args) => cmd::classify::run(&args),
        Command::Rules(args) => cmd::rules::run(args),
        Command::Rekey(args) => cmd::rekey::run(&args),
        Command::Context(args) => cmd::context::run(&args),
        Command::Run(args) => cmd::run::run(&args),
        Command::Service(args) => cmd::service::run(&args),
        Command::Status(args) => cmd::status::run(&args),
        Command::Providers(args) => cmd::providers::run(&args),
        Command::Keys(args) => cmd::keys::run(&args),
        Command::Models(args) => cmd::models::run(&args),
        Command::Settings(args) => cmd::settings::run(&args),
        Command::Logs(args) => cmd::logs::run(&args),
        Command::Fallbacks(args) => cmd::fallbacks::run(&args),
        Command::Combos(args) => cmd::combos::run(&args),
        Command::Clients(args) => cmd::clients::run(&args),
        Command::Export(args) => cmd::export::run(&args),
        Command::Import(args) => cmd::import::run(&args),
        Command::Doctor(args) => cmd::doctor::run(&args),
        Command::Connect(args) => cmd::connect::run(&args),
        Command::Reload(args) => cmd::reload::run(&args),
        Command::Completions(args) => cmd::manual::completions(&args, Cli::command()),
        Command::Man(args) => cmd::manual::manual(&args, Cli::command()),
    };
    done.unwrap_or_else(|error| {
        eprintln!("backstop: {error:#}");
        ExitCode::FAILURE
    })
}
