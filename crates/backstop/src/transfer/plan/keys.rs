//! The keys of a document beside those that the gateway has, and adding what is missing.

use std::collections::BTreeSet;

use anyhow::Result;
use backstop_store::Secret;
use serde_json::{Value, json};

use super::{Deed, SHOWN, Step};
use crate::{
    cmd::api::{Api, items},
    transfer::{
        document::{Key, Provider},
        gather::keys,
    },
};

/// A key that the gateway does not have.
pub(super) struct NewKey {
    label: String,
    account: Option<String>,
    secret: Secret,
    disabled: bool,
}

/// Which keys of a provider the gateway has: by the key itself, or where that is not in the document by its hint.
pub(super) fn known_keys(api: &Api, provider: &Provider, is_there: bool) -> Result<Vec<bool>> {
    if !is_there || provider.key.is_empty() {
        return Ok(vec![false; provider.key.len()]);
    }
    let views = keys(api, &provider.id)?;
    let by_hint = |key: &Key| !key.hint.is_empty() && views.iter().any(|view| view["hint"] == *key.hint);
    let mut known = Vec::with_capacity(provider.key.len());
    for some in provider.key.chunks(AT_ONCE) {
        let secrets: Vec<&str> =
            some.iter().map(|key| key.secret.as_ref().map_or("", |secret| secret.expose())).collect();
        let found =
            api.post(&format!("/providers/{}/keys/known", provider.id), &json!({ "keys": secrets }))?;
        let is_known = |(key, found): (&Key, &Value)| match key.secret {
            Some(_) => !found.is_null(),
            None => by_hint(key),
        };
        known.extend(some.iter().zip(items(&found)).map(is_known));
    }
    Ok(known)
}

pub(super) fn add_keys(steps: &mut Vec<Step>, provider: &Provider, known: &[bool], is_sealed: bool) {
    let of = |wanted: bool| -> Vec<&Key> {
        let keys = provider.key.iter().zip(known);
        keys.filter(|(_, known)| **known == wanted).map(|(key, _)| key).collect()
    };
    let (there, missing) = (of(true), of(false));
    let subject = format!("keys of {}", provider.id);
    if !there.is_empty() {
        steps.push(Step::same(subject.clone(), &format!("{} there already", hints(&there))));
    }
    let (given, bare): (Vec<&Key>, Vec<&Key>) = missing.into_iter().partition(|key| key.secret.is_some());
    if !given.is_empty() {
        let new = given.iter().filter_map(|key| {
            let secret = key.secret.clone()?;
            let (label, account) = (key.label.clone(), key.account.clone());
            Some(NewKey { label, account, secret, disabled: key.disabled })
        });
        let deed = Deed::AddKeys(provider.id.clone(), new.collect());
        steps.push(Step::add(subject.clone(), hints(&given), vec![deed]));
    }
    if !bare.is_empty() {
        let why = if is_sealed {
            "their secrets are left sealed"
        } else {
            "their secrets are not in it; `backstop keys add` adds them"
        };
        steps.push(Step::refused(subject, format!("{}: {why}", hints(&bare))));
    }
}

/// The first keys by their hints, and how many more.
fn hints(keys: &[&Key]) -> String {
    let shown = keys.iter().take(SHOWN).map(|key| match key.label.as_str() {
        "" => key.hint.clone(),
        label => format!("{label} {}", key.hint),
    });
    let shown = shown.collect::<Vec<_>>().join(", ");
    if keys.len() > SHOWN { format!("{shown} and {} more", keys.len() - SHOWN) } else { shown }
}

/// Adds keys, those of an account together, and takes those out of service that were.
pub(super) fn send_keys(api: &Api, provider: &str, keys: &[NewKey]) -> Result<()> {
    let accounts: BTreeSet<&Option<String>> = keys.iter().map(|key| &key.account).collect();
    for account in accounts {
        let (plain, odd): (Vec<&NewKey>, Vec<&NewKey>) =
            keys.iter().filter(|key| key.account == *account).partition(|key| fits_a_line(key));
        let text: String = plain.iter().map(|key| line(key)).collect();
        let mut results = Vec::new();
        if !plain.is_empty() {
            let body = json!({ "text": text, "account": account });
            results.extend(items(&api.post(&format!("/providers/{provider}/keys/bulk"), &body)?).cloned());
        }
        for key in &odd {
            let body = json!({ "key": key.secret.expose(), "label": key.label, "account": account });
            results.push(api.post(&format!("/providers/{provider}/keys"), &body)?);
        }
        let disabled = plain.iter().chain(&odd).zip(&results).filter(|(key, _)| key.disabled);
        let ids: Vec<&Value> = disabled.map(|(_, result)| &result["id"]).collect();
        if !ids.is_empty() {
            let body = json!({ "ids": ids, "action": "disable", "confirm": true });
            api.post(&format!("/providers/{provider}/keys/bulk-action"), &body)?;
        }
    }
    Ok(())
}

/// Whether the gateway reads a line with label and key as just these. What stands before an equals sign would be taken
/// for a name, quotes and what else surrounds a pasted key would be taken away.
fn fits_a_line(NewKey { label, secret, .. }: &NewKey) -> bool {
    let secret = secret.expose();
    let is_plain = |letter: char| !letter.is_whitespace() && !matches!(letter, ',' | '"' | '\'' | '#' | '=');
    let is_kept = |label: &str| {
        !label.contains(|letter: char| letter.is_control() || letter == '=')
            && label.trim() == label
            && !label.ends_with([':', ','])
            && !label.starts_with('#')
            && !label.starts_with("export ")
    };
    secret.chars().all(is_plain) && is_kept(label)
}

fn line(NewKey { label, secret, .. }: &NewKey) -> String {
    let secret = secret.expose();
    if label.is_empty() { format!("{secret}\n") } else { format!("{label}\t{secret}\n") }
}

/// Keys that are looked for by one call.
const AT_ONCE: usize = 1000;

#[cfg(test)]
mod tests {
    use backstop_dashboard::actions::paste;

    use super::*;

    fn key(label: &str, secret: &str) -> NewKey {
        NewKey { label: label.to_owned(), account: None, secret: Secret::new(secret), disabled: false }
    }

    #[test]
    fn a_label_or_a_key_with_an_equals_sign_goes_by_itself() {
        for (label, secret) in [("PLAN=free", "sk-1"), ("", "ABC=DEF"), ("TEAM", "abc=="), ("#2", "sk-1")] {
            assert!(!fits_a_line(&key(label, secret)), "{label} {secret}");
        }
        assert!(fits_a_line(&key("my free, tier", "sk-1")));
    }

    #[test]
    fn what_goes_in_a_line_is_read_as_it_was() {
        let letters = ["", "A", "b", "=", " ", "#", ",", ":", "'", "\t", "export "];
        let texts: Vec<String> = letters
            .iter()
            .flat_map(|first| letters.iter().map(move |second| format!("{first}{second}")))
            .collect();
        for (label, secret) in texts.iter().flat_map(|label| texts.iter().map(move |secret| (label, secret)))
        {
            let one = key(label, &format!("k{secret}k"));
            if fits_a_line(&one) {
                let read = paste::keys(&line(&one), None);
                assert_eq!(read.len(), 1, "{label:?} {secret:?}");
                assert_eq!((&read[0].label, &read[0].secret), (label, &one.secret));
            }
        }
    }
}
