//! `backstop rules`: what the rule packs say, and whether a draft is right.

use std::{
    fs,
    io::{self, BufRead, BufReader, IsTerminal, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context as _, Result, bail};
use backstop_triage::{
    Catalog, Settings, Timestamp,
    rules::{Pack, Rule},
    wire::Failure,
};
use serde_json::json;

use super::own_rules::OwnRules;

/// Shows and proves rule packs: your own, which come first, and the embedded ones.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    own: OwnRules,
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Lists the packs, or the rules of one pack.
    List {
        /// A pack.
        pack: Option<String>,
        /// Prints JSON.
        #[arg(long)]
        json: bool,
    },
    /// Shows one rule: conditions, verdict, source, example.
    Show {
        /// The id of a rule, such as generic/context-text.
        rule: String,
        /// Prints JSON.
        #[arg(long)]
        json: bool,
    },
    /// Tries failures against a draft: a pack that is consulted first, before your other ones.
    Test {
        /// The draft.
        draft: PathBuf,
        /// Failures, one JSON object a line; `-` or nothing reads standard input.
        failures: Option<PathBuf>,
        /// Prints JSON.
        #[arg(long)]
        json: bool,
    },
    /// Proves packs: every example is matched by its own rule and by nothing earlier.
    Lint {
        /// Drafts; without any, your own packs and the embedded ones are proven.
        files: Vec<PathBuf>,
        /// Prints JSON.
        #[arg(long)]
        json: bool,
    },
}

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    let mut out = io::stdout().lock();
    let own = &args.own;
    match args.command {
        Command::List { pack: None, json } => list_packs(&own.catalog()?, json, &mut out)?,
        Command::List { pack: Some(pack), json } => list_rules(&own.catalog()?, &pack, json, &mut out)?,
        Command::Show { rule, json } => show(&own.catalog()?, &rule, json, &mut out)?,
        Command::Test { draft, failures, json } => {
            let (catalog, _) = with_drafts(&[draft], own)?;
            return test(&catalog, failures.as_deref(), json, &mut out);
        }
        Command::Lint { files, json } => return lint(&files, own, json, &mut out),
    }
    Ok(ExitCode::SUCCESS)
}

fn list_packs(catalog: &Catalog, json: bool, out: &mut impl Write) -> Result<()> {
    if json {
        let packs = catalog.packs().iter().enumerate().map(|(number, pack)| {
            json!({
                "pack": pack.id.as_str(), "yours": number < catalog.user_packs(), "rules": pack.rules.len(), "names": pack.names, "hosts": pack.hosts,
                "like": pack.like.iter().map(|like| like.as_str()).collect::<Vec<_>>(),
                "shared": pack.shared, "errors_in_200": pack.errors_in_200,
            })
        });
        return Ok(writeln!(out, "{}", packs.collect::<serde_json::Value>())?);
    }
    writeln!(out, "{:<24}{:>6}  HOSTS", "PACK", "RULES")?;
    for (number, pack) in catalog.packs().iter().enumerate() {
        let hosts = if pack.shared.is_some() { "(every provider)".to_owned() } else { pack.hosts.join(", ") };
        let yours = if number < catalog.user_packs() { "(yours) " } else { "" };
        writeln!(out, "{:<24}{:>6}  {yours}{hosts}", pack.id.as_str(), pack.rules.len())?;
    }
    let rules: usize = catalog.packs().iter().map(|pack| pack.rules.len()).sum();
    writeln!(out, "\n{} packs, {rules} rules. `backstop rules list PACK` shows one.", catalog.packs().len())?;
    Ok(())
}

fn list_rules(catalog: &Catalog, id: &str, json: bool, out: &mut impl Write) -> Result<()> {
    let packs = || catalog.packs().iter().filter(|pack| pack.id.as_str() == id);
    let rules = || packs().flat_map(|pack| pack.rules.iter().map(move |rule| (pack, rule)));
    if packs().next().is_none() {
        bail!("there is no pack {id:?}; `backstop rules list` shows the packs");
    }
    if json {
        let rules = rules().map(|(pack, rule)| rule_json(pack, rule));
        return Ok(writeln!(out, "{}", rules.collect::<serde_json::Value>())?);
    }
    let width = rules().map(|(_, rule)| rule.id.as_str().len()).max().unwrap_or(0) + 2;
    for (_, rule) in rules() {
        let then = &rule.then;
        let disables = if then.disable_key { "  disables" } else { "" };
        writeln!(
            out,
            "{:<width$}{:<20}{:<10}{}{disables}",
            rule.id.as_str(),
            then.class.as_str(),
            then.scope.as_str(),
            then.reason
        )?;
    }
    Ok(())
}

fn show(catalog: &Catalog, id: &str, json: bool, out: &mut impl Write) -> Result<()> {
    let mut rules = catalog.packs().iter().flat_map(|pack| pack.rules.iter().map(move |rule| (pack, rule)));
    let Some((pack, rule)) = rules.find(|(_, rule)| rule.id.as_str() == id) else {
        bail!("there is no rule {id:?}; `backstop rules list PACK` shows the rules of a pack");
    };
    if json {
        return Ok(writeln!(out, "{}", rule_json(pack, rule))?);
    }
    let then = &rule.then;
    writeln!(out, "{}   ({}:{})", rule.id.as_str(), pack.file, rule.line)?;
    writeln!(out, "  verdict  {} · {} · {}", then.class, then.scope, then.reason)?;
    writeln!(out, "  disables {}", if then.disable_key { "the key" } else { "nothing" })?;
    for condition in conditions(rule) {
        writeln!(out, "  if       {condition}")?;
    }
    writeln!(out, "  source   {}", rule.source.as_deref().unwrap_or("-"))?;
    if let Some(example) = &rule.example {
        writeln!(out, "  example  {}", example.text.trim())?;
    }
    Ok(())
}

/// The conditions of a rule, one a line.
fn conditions(rule: &Rule) -> Vec<String> {
    let when = &rule.when;
    let mut lines = Vec::new();
    let mut say = |name: &str, texts: &[String]| {
        if !texts.is_empty() {
            lines.push(format!("{name}: {}", texts.join(" | ")));
        }
    };
    let ranges = when
        .statuses
        .iter()
        .map(|(low, high)| if low == high { low.to_string() } else { format!("{low}-{high}") });
    say("kind", &when.kinds.iter().map(|kind| format!("{kind:?}").to_lowercase()).collect::<Vec<_>>());
    say("status", &ranges.collect::<Vec<_>>());
    say("code", &when.codes);
    say("type", &when.types);
    say("all of", &when.all);
    say("any of", &when.any);
    say("none of", &when.none);
    say("regex", &when.regex.iter().map(ToString::to_string).collect::<Vec<_>>());
    say("header", &when.headers.iter().map(|(name, test)| format!("{name} {test:?}")).collect::<Vec<_>>());
    say(
        "field",
        &when.fields.iter().map(|(path, test)| format!("/{} {test:?}", path.join("/"))).collect::<Vec<_>>(),
    );
    say("transport", &when.faults.iter().map(|fault| fault.as_str().to_owned()).collect::<Vec<_>>());
    say("exit code", &when.exit_codes.iter().map(ToString::to_string).collect::<Vec<_>>());
    say("signal", &when.signals.iter().map(ToString::to_string).collect::<Vec<_>>());
    say("body", &when.bodies.iter().map(|body| format!("{body:?}").to_lowercase()).collect::<Vec<_>>());
    say("wait", &when.wait.iter().map(|wait| format!("{wait:?}")).collect::<Vec<_>>());
    say("quoted", &when.quoted.iter().map(ToString::to_string).collect::<Vec<_>>());
    lines
}

fn rule_json(pack: &Pack, rule: &Rule) -> serde_json::Value {
    json!({
        "rule": rule.id.as_str(), "pack": pack.id.as_str(), "file": pack.file, "line": rule.line,
        "class": rule.then.class, "scope": rule.then.scope, "reason": rule.then.reason,
        "disable_key": rule.then.disable_key, "conditions": conditions(rule), "source": rule.source,
        "example": rule.example.as_ref().map(|example| &example.text),
    })
}

fn test(catalog: &Catalog, failures: Option<&Path>, json: bool, out: &mut impl Write) -> Result<ExitCode> {
    let input: Box<dyn BufRead> = match failures {
        Some(path) if path.as_os_str() != "-" => {
            let file = fs::File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
            Box::new(BufReader::new(file))
        }
        Some(_) | None if io::stdin().is_terminal() => {
            bail!("no failures on standard input; name a file with one JSON object a line");
        }
        Some(_) | None => Box::new(BufReader::new(io::stdin())),
    };
    let mut bad = false;
    for line in input.lines() {
        let line = line?;
        if line.trim().is_empty() {
            continue;
        }
        let now = Timestamp::now();
        let case = Failure::parse(&line).and_then(|failure| failure.resolve(catalog, now));
        match case.and_then(|case| Ok((case.report(catalog, &Settings::default())?, case))) {
            Err(problem) => {
                bad = true;
                writeln!(out, "{problem}")?;
            }
            Ok((report, _)) if json => writeln!(out, "{}", serde_json::to_string(&report)?)?,
            Ok((_, case)) => writeln!(out, "{}", catalog.explain(&case.provider, &case.evidence, case.now))?,
        }
    }
    Ok(if bad { ExitCode::from(EX_DATAERR) } else { ExitCode::SUCCESS })
}

fn lint(files: &[PathBuf], own: &OwnRules, json: bool, out: &mut impl Write) -> Result<ExitCode> {
    let (catalog, drafts) = with_drafts(files, own)?;
    let embedded = Catalog::embedded();
    let proven = if files.is_empty() {
        // A rule of one's own may well take an embedded rule's example: each is proven in its own right.
        vec![(&catalog, catalog.user_packs()), (&embedded, embedded.packs().len())]
    } else {
        vec![(&catalog, drafts)]
    };
    let now = Timestamp::now();
    let packs = proven.iter().flat_map(|(catalog, count)| catalog.packs().iter().take(*count));
    let rules: usize = packs.map(|pack| pack.rules.len()).sum();
    let findings: Vec<_> = proven.iter().flat_map(|(catalog, count)| catalog.lint(0..*count, now)).collect();
    if json {
        let lines = findings.iter().map(|finding| {
            json!({ "file": finding.file, "line": finding.line, "problem": finding.problem, "fix": finding.fix })
        });
        writeln!(out, "{}", lines.collect::<serde_json::Value>())?;
    } else {
        for finding in &findings {
            writeln!(out, "{finding}")?;
        }
        let verdict =
            if findings.is_empty() { "all proven".to_owned() } else { format!("{} wrong", findings.len()) };
        writeln!(out, "{rules} rules, {verdict}")?;
    }
    Ok(if findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Drafts before the packs of one's own, and how many drafts there are. A draft takes the place of the pack of its name.
fn with_drafts(files: &[PathBuf], own: &OwnRules) -> Result<(Catalog, usize)> {
    let mut packs = Vec::new();
    for path in files {
        let toml = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let Some(name) = path.file_name() else {
            bail!("{} is no file", path.display());
        };
        packs.push((name.to_string_lossy().into_owned(), toml));
    }
    let others = own.read()?.into_iter().filter(|(name, _)| !packs.iter().any(|(draft, _)| draft == name));
    let others: Vec<_> = others.collect();
    packs.extend(others);
    Ok((Catalog::with_user_packs(&packs)?, files.len()))
}

const EX_DATAERR: u8 = 65;
