//! `backstop classify`: what is this failure, and what should be done?
//!
//! Lines of JSON in, lines of JSON out, one at a time, so that a log of any length passes in steady memory;
//! or one failure from flags.

use std::{
    fs::{self, File},
    io::{self, BufRead, BufReader, BufWriter, IsTerminal, Read, Write},
    path::PathBuf,
    process::ExitCode,
};

use anyhow::{Context as _, Result, bail};
use backstop_triage::{
    Catalog, Class, Fault, Settings, Timestamp,
    explain::Explanation,
    respawn::{self, EX_DATAERR},
    wire::{Case, Context, Failure, NotAFailure, Report},
};
use serde::Serialize;
use serde_json::{Map, Value};

use super::own_rules::OwnRules;

/// Reads failures and says what each is: one JSON object a line, or one failure from flags.
///
/// Your own rule packs come first, as in the gateway (see --rules).
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Failures, one JSON object a line; `-` or nothing reads standard input.
    file: Option<PathBuf>,
    /// How it failed: http, stream, transport or process.
    #[arg(long, value_parser = ["http", "stream", "transport", "process"])]
    kind: Option<String>,
    /// The provider: a rule pack, one of its names, or a host.
    #[arg(long)]
    provider: Option<String>,
    /// The HTTP status.
    #[arg(long)]
    status: Option<u16>,
    /// A response header, `name: value`; may be repeated. `@FILE` reads headers as curl dumps them.
    #[arg(long = "header", value_name = "HEADER")]
    headers: Vec<String>,
    /// The body.
    #[arg(long, conflicts_with = "body_file")]
    body: Option<String>,
    /// A file with the body.
    #[arg(long, value_name = "FILE")]
    body_file: Option<PathBuf>,
    /// How the connection failed: dns, tls, connect_refused, connection_reset, read_timeout …
    #[arg(long)]
    transport: Option<String>,
    /// The exit code of a process.
    #[arg(long, value_name = "CODE", allow_negative_numbers = true)]
    process_exit: Option<i32>,
    /// The signal that ended a process.
    #[arg(long)]
    signal: Option<i32>,
    /// A file with the stderr of a process.
    #[arg(long, value_name = "FILE")]
    stderr_file: Option<PathBuf>,
    /// A file with the stdout of a process.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["body", "body_file"])]
    stdout_file: Option<PathBuf>,
    /// The model that was asked.
    #[arg(long)]
    model: Option<String>,
    /// An estimate of the prompt's tokens.
    #[arg(long)]
    approx_tokens: Option<u64>,
    /// The model's window in tokens.
    #[arg(long)]
    context_length: Option<u64>,
    /// The moment of the failure (RFC 3339); default: this one.
    #[arg(long)]
    now: Option<Timestamp>,
    #[command(flatten)]
    own_rules: OwnRules,
    /// Lets the exit status tell the class: 75 come back later, 77 credentials or money, 78 set-up or model,
    /// 65 the request itself, 69 unknown.
    #[arg(long)]
    exit_code: bool,
    /// Says which facts were seen, which rules were tried and which one won.
    #[arg(long)]
    explain: bool,
    /// Prints the explanation as JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let session = Session {
        catalog: args.own_rules.catalog()?,
        settings: Settings::default(),
        now: args.now,
        explain: args.explain,
        as_json: args.json || !args.explain,
    };
    let mut out = BufWriter::new(io::stdout().lock());
    let done = if args.is_one_failure() {
        session.one(&args.failure()?, &mut out)?
    } else {
        session.lines(args.input()?, &mut out)?
    };
    out.flush()?;
    Ok(done.exit_code(args.exit_code))
}

impl Args {
    fn is_one_failure(&self) -> bool {
        self.kind.is_some()
            || self.status.is_some()
            || self.transport.is_some()
            || self.process_exit.is_some()
            || self.signal.is_some()
            || self.stderr_file.is_some()
            || self.body.is_some()
            || self.body_file.is_some()
            || self.stdout_file.is_some()
    }

    fn input(&self) -> Result<Box<dyn BufRead>> {
        match &self.file {
            Some(path) if path.as_os_str() != "-" => {
                let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
                Ok(Box::new(BufReader::new(file)))
            }
            Some(_) | None => {
                let input = io::stdin();
                if input.is_terminal() {
                    bail!(
                        "no failures on standard input; name a file or tell one with --status, --body … (see --help)"
                    );
                }
                Ok(Box::new(BufReader::new(input)))
            }
        }
    }

    fn failure(&self) -> Result<Failure> {
        let transport = match self.transport.as_deref() {
            None => None,
            Some(name) => match Fault::ALL.into_iter().find(|fault| fault.as_str() == name) {
                Some(fault) => Some(fault),
                None => {
                    let known: Vec<_> = Fault::ALL.iter().map(|fault| fault.as_str()).collect();
                    bail!("unknown transport fault {name:?}; use one of {}", known.join(", "));
                }
            },
        };
        let body = match (&self.body, self.body_file.as_ref().or(self.stdout_file.as_ref())) {
            (Some(body), _) => Some(body.clone()),
            (None, Some(path)) => Some(read_capped(path)?),
            (None, None) => None,
        };
        Ok(Failure {
            id: None,
            kind: self.kind.clone(),
            provider: self.provider.clone(),
            status: self.status,
            headers: Some(headers(&self.headers)?),
            body: body.map(Value::String),
            transport,
            exit_code: self.process_exit,
            signal: self.signal,
            stderr: self.stderr_file.as_ref().map(read_capped).transpose()?,
            context: Some(Context {
                model: self.model.clone(),
                approx_tokens: self.approx_tokens,
                context_length: self.context_length,
                now: self.now,
                ..Context::default()
            }),
        })
    }
}

/// What stays the same for every failure of a run.
struct Session {
    catalog: Catalog,
    settings: Settings,
    now: Option<Timestamp>,
    explain: bool,
    as_json: bool,
}

/// One line of output.
#[derive(Serialize)]
struct Line<'r> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<Value>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    report: Option<&'r Report>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    explanation: Option<Explanation>,
}

/// What a run came to.
#[derive(Default)]
struct Done {
    class: Option<Class>,
    bad_lines: u64,
}

impl Session {
    fn one(&self, failure: &Failure, out: &mut impl Write) -> Result<Done> {
        let mut done = Done::default();
        self.answer(failure.id.clone(), Ok(failure.clone()), out, &mut done)?;
        Ok(done)
    }

    fn lines(&self, mut input: Box<dyn BufRead>, out: &mut impl Write) -> Result<Done> {
        let mut done = Done::default();
        let mut line = Vec::new();
        loop {
            line.clear();
            if input.by_ref().take(LINE_CAP).read_until(b'\n', &mut line)? == 0 {
                return Ok(done);
            }
            let text = String::from_utf8_lossy(&line);
            let text = text.trim();
            if text.is_empty() {
                continue;
            }
            let failure = Failure::parse(text);
            let id = failure.as_ref().map_or_else(|_| id_of(text), |failure| failure.id.clone());
            self.answer(id, failure, out, &mut done)?;
        }
    }

    fn answer(
        &self,
        id: Option<Value>,
        failure: Result<Failure, NotAFailure>,
        out: &mut impl Write,
        done: &mut Done,
    ) -> Result<()> {
        let now = self.now.unwrap_or_else(Timestamp::now);
        let resolved = failure.and_then(|failure| failure.resolve(&self.catalog, now));
        let judged = resolved.and_then(|case| Ok((case.report(&self.catalog, &self.settings)?, case)));
        match judged {
            Ok((report, case)) => {
                done.class = Some(report.class);
                self.print(id, &report, &case, out)
            }
            Err(problem) => {
                done.bad_lines += 1;
                let error = Some(problem.to_string());
                serde_json::to_writer(&mut *out, &Line { id, report: None, error, explanation: None })?;
                Ok(writeln!(out)?)
            }
        }
    }

    fn print(&self, id: Option<Value>, report: &Report, case: &Case, out: &mut impl Write) -> Result<()> {
        let explanation =
            self.explain.then(|| self.catalog.explain(&case.provider, &case.evidence, case.now));
        if let Some(explanation) = &explanation
            && !self.as_json
        {
            return Ok(writeln!(out, "{explanation}")?);
        }
        serde_json::to_writer(&mut *out, &Line { id, report: Some(report), error: None, explanation })?;
        Ok(writeln!(out)?)
    }
}

impl Done {
    fn exit_code(&self, by_class: bool) -> ExitCode {
        if self.bad_lines > 0 {
            return ExitCode::from(EX_DATAERR);
        }
        match self.class {
            Some(class) if by_class => ExitCode::from(respawn::exit_code(class)),
            Some(_) | None => ExitCode::SUCCESS,
        }
    }
}

/// The id of a line that is otherwise unusable.
fn id_of(line: &str) -> Option<Value> {
    serde_json::from_str::<Value>(line).ok()?.get("id").cloned()
}

fn headers(given: &[String]) -> Result<Map<String, Value>> {
    let mut headers = Map::new();
    for header in given {
        let text = match header.strip_prefix('@') {
            Some(path) => read_capped(&PathBuf::from(path))?,
            None if header.contains(':') => header.clone(),
            None => bail!("header {header:?} has no colon; write \"name: value\""),
        };
        for line in text.lines() {
            if let Some((name, value)) = line.split_once(':') {
                headers.insert(name.trim().to_ascii_lowercase(), Value::String(value.trim().to_owned()));
            }
        }
    }
    Ok(headers)
}

fn read_capped(path: &PathBuf) -> Result<String> {
    let problem = || format!("cannot read {}", path.display());
    if fs::metadata(path).with_context(problem)?.is_dir() {
        bail!("{} is a folder", path.display());
    }
    let mut bytes = Vec::new();
    File::open(path).with_context(problem)?.take(LINE_CAP).read_to_end(&mut bytes).with_context(problem)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Longer lines are cut, which makes them unreadable and so reported.
const LINE_CAP: u64 = 16 * 1024 * 1024;
