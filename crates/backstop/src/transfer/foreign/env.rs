//! A file of `NAME=value` lines: the usual names of keys become providers, as the gateway itself reads them from its
//! environment.

use std::collections::BTreeSet;

use backstop_gateway::config::Environment;
use backstop_store::Secret;
use backstop_triage::{Catalog, preset::Preset};

use super::{Carried, Carrying, Upstream};

/// Reads the lines of a file.
pub(crate) fn read(text: &str, catalog: &Catalog) -> Carried {
    let pairs: Vec<(String, String)> = text.lines().filter_map(pair).collect();
    let environment: Environment = pairs.iter().cloned().collect();
    let mut carrying = Carrying::new(catalog);
    let mut used = BTreeSet::new();
    for preset in catalog.presets() {
        provider(&mut carrying, preset, &environment, &mut used);
    }
    let others: Vec<&str> =
        pairs.iter().map(|(name, _)| name.as_str()).filter(|name| !used.contains(*name)).collect();
    if !others.is_empty() {
        carrying.leave_out(format!("names that say no key of a known provider: {}", others.join(", ")));
    }
    carrying.finish()
}

fn provider(
    carrying: &mut Carrying<'_>,
    preset: &Preset,
    environment: &Environment,
    used: &mut BTreeSet<String>,
) {
    // A name that two presets know belongs to the first.
    let names: Vec<&String> = preset.env.iter().filter(|name| !used.contains(*name)).collect();
    let keys: Vec<(String, String)> = names.iter().flat_map(|name| environment.keys(name)).collect();
    if keys.is_empty() {
        return;
    }
    let own = names.iter().find_map(|name| address(environment, name));
    let upstream = match &own {
        Some((variable, url)) => {
            used.insert(variable.clone());
            Upstream::At { url, format: preset.format, preset: Some(&preset.id) }
        }
        None => Upstream::Preset(&preset.id),
    };
    let made = carrying.provider(&preset.id, &upstream);
    for (label, key) in keys {
        used.insert(label.split(" #").next().unwrap_or_default().to_owned());
        made.add_key(&label, Secret::new(&key));
    }
}

/// The address that stands beside a key: `X_BASE_URL` or `X_API_BASE` beside `X_API_KEY`.
fn address(environment: &Environment, key: &str) -> Option<(String, String)> {
    let stem = key.strip_suffix("_API_KEY")?;
    let names = ["BASE_URL", "API_BASE", "API_BASE_URL"].map(|end| format!("{stem}_{end}"));
    names.into_iter().find_map(|name| Some((name.clone(), environment.var(&name)?.to_owned())))
}

fn pair(line: &str) -> Option<(String, String)> {
    let line = line.trim();
    let line = line.strip_prefix("export ").unwrap_or(line);
    let (name, value) = line.split_once('=')?;
    let name = name.trim();
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let value = value.trim();
    let quoted = |quote: char| value.strip_prefix(quote).and_then(|rest| Some(rest.split_once(quote)?.0));
    let plain = || value.split(" #").next().unwrap_or_default().trim_end();
    let value = quoted('"').or_else(|| quoted('\'')).unwrap_or_else(plain);
    is_name.then(|| (name.to_owned(), value.to_owned()))
}
