//! `[[provider.key]]` and every other place where a secret comes from the environment, a file, or the configuration.

use backstop_store::Secret;
use backstop_triage::AccountId;

use super::section::Section;

/// One key of a provider.
#[derive(Clone, Debug)]
pub struct Key {
    /// What people call it; unique within its provider.
    pub label: String,
    /// The credential.
    pub secret: Secret,
    /// The account that it shares with other keys.
    pub account: Option<AccountId>,
}

/// Reads the keys that one `[[provider.key]]` names: several if its source lists several.
pub(super) fn read(section: &Section<'_, '_>, number: usize) -> Vec<Key> {
    let label = section.text("label").map(|label| label.value);
    let account = section.text("account").map(|account| AccountId::from(account.value));
    let secrets = secrets(section, "[[provider.key]]");
    section.finish();
    let several = secrets.len() > 1;
    let named = |(index, (origin, secret)): (usize, (Option<String>, Secret))| {
        let label = match (&label, origin) {
            (Some(label), _) if several => format!("{label} #{}", index + 1),
            (Some(label), _) => label.clone(),
            (None, Some(origin)) => origin,
            (None, None) if several => format!("key {number} #{}", index + 1),
            (None, None) => format!("key {number}"),
        };
        Key { label, secret, account: account.clone() }
    };
    secrets.into_iter().enumerate().map(named).collect()
}

/// The secrets that `env`, `file` or `value` of a table name, each with the name of its variable if it has one.
/// Exactly one of the three must be there.
pub(super) fn secrets(section: &Section<'_, '_>, title: &str) -> Vec<(Option<String>, Secret)> {
    let (env, file, value) = (section.text("env"), section.text("file"), section.text("value"));
    let named = usize::from(section.has("env"))
        + usize::from(section.has("file"))
        + usize::from(section.has("value"));
    if named != 1 {
        let what = format!("{title} needs exactly one of `env`, `file` and `value`, and has {named}");
        section.report(section.at(), what, "name one source of the secret, for example `env = \"MY_KEY\"`");
        return Vec::new();
    }
    let found = if let Some(env) = &env {
        section.source.environment.keys(&env.value).into_iter().map(|(name, key)| (Some(name), key)).collect()
    } else if let Some(file) = &file {
        let path = section.source.environment.path(&file.value, &section.source.folder);
        match std::fs::read_to_string(&path) {
            Ok(text) => lines(&text),
            Err(error) => {
                let what = format!("the key file {} cannot be read: {error}", path.display());
                section.report(
                    &file.at,
                    what,
                    "check the path (it starts at the folder of this file) and its permissions",
                );
                return Vec::new();
            }
        }
    } else {
        value.iter().flat_map(|value| value.value.split(',')).map(|key| (None, key.to_owned())).collect()
    };
    let secrets: Vec<(Option<String>, Secret)> = found
        .into_iter()
        .filter(|(_, key)| !key.trim().is_empty())
        .map(|(name, key)| (name, Secret::new(&key)))
        .collect();
    let source = env.as_ref().or(file.as_ref()).or(value.as_ref());
    if let Some(source) = source.filter(|_| secrets.is_empty()) {
        let (what, fix) = match (&env, &file) {
            (Some(env), _) => {
                let name = &env.value;
                (
                    format!("the environment variable {name} is not set"),
                    format!("export {name}, or use `file` or `value`"),
                )
            }
            (None, Some(file)) => {
                (format!("the key file {} holds no key", file.value), "put one key on each line".to_owned())
            }
            (None, None) => ("`value` is empty".to_owned(), "put the key in, or remove the table".to_owned()),
        };
        section.report(&source.at, what, fix);
    }
    for (_, secret) in &secrets {
        if !secret.expose().bytes().all(|byte| byte.is_ascii_graphic())
            && let Some(source) = source
        {
            let fix = "copy the key again, without blanks and quotes";
            section.report(&source.at, "the key contains characters that no header can carry", fix);
        }
    }
    secrets
}

fn lines(text: &str) -> Vec<(Option<String>, String)> {
    let filled = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    filled.map(|line| (None, line.to_owned())).collect()
}
