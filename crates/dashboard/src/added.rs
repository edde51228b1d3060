//! What was added at run time, laid over the configuration of the file: the file defines what it names, the store
//! everything else.

use std::{collections::BTreeMap, path::Path, time::Duration};

use backstop_gateway::config::{Combo, Config, Environment, Fallback, Provider};
use backstop_store::{
    Retention, Store, StoreError,
    configuration::{Kind, ObjectRow},
};
use backstop_triage::{Catalog, ModelId, ProviderId, Settings};
use serde_json::{Map, Value};

use crate::{
    actions::{combos, definition::Definition},
    app::value_of,
    credentials::is_credential,
};

/// Adds the providers, combos and settings of the store to a configuration. A definition that cannot be used any
/// more is left out and told in the log.
pub(crate) fn extend(mut config: Config, store: &Store, catalog: &Catalog) -> Result<Config, StoreError> {
    let changed = settings(store)?;
    config.settings = overlaid(&config.settings, &changed).into();
    for provider in &mut config.providers {
        // The environment is as read-only as the file.
        provider.from_file = true;
        provider.settings = overlaid(&provider.settings, &changed).into();
    }
    for row in store.objects(Kind::Provider)? {
        if config.providers.iter().any(|known| known.id.as_str() == row.id) {
            tracing::warn!(
                provider = row.id,
                "the file defines this provider too; the file's definition holds"
            );
            continue;
        }
        match added(&row, &config.settings, catalog) {
            Ok(provider) => config.providers.push(provider),
            Err(problems) => {
                tracing::warn!(
                    provider = row.id,
                    problems = problems.join("; "),
                    "this provider cannot be used"
                );
            }
        }
    }
    let known: Vec<ProviderId> = config.providers.iter().map(|provider| provider.id.clone()).collect();
    let chains = store.fallbacks()?;
    for provider in config.providers.iter_mut().filter(|provider| !provider.from_file) {
        let models = store.models(&provider.id)?;
        if !models.is_empty() {
            provider.models = models.into_iter().map(|model| model.id).collect();
        }
        let own =
            chains.iter().filter(|leg| leg.provider == provider.id && known.contains(&leg.target_provider));
        let legs = own.map(|leg| Fallback::new(leg.target_provider.clone(), leg.target_model.clone()));
        provider.fallbacks.extend(legs);
    }
    add_combos(&mut config, store)?;
    Ok(config)
}

/// How long history is kept, as people have set it.
pub(crate) fn retention(store: &Store) -> Result<Retention, StoreError> {
    let changed = settings(store)?;
    let days = changed.get("log_retention_days").and_then(Value::as_u64).unwrap_or(7);
    let keeps_all = changed.get("auto_cleanup_logs").and_then(Value::as_bool) == Some(false);
    let requests = if keeps_all { None } else { Some(Duration::from_secs(days * 86_400)) };
    Ok(Retention { requests, ..Retention::default() })
}

/// Reads the definition of a provider as the configuration file would be read; what is wrong with it.
pub(crate) fn read_provider(
    definition: &str,
    settings: &Settings,
    catalog: &Catalog,
) -> Result<Provider, Vec<String>> {
    let global = toml::to_string(&BTreeMap::from([("settings", settings)])).unwrap_or_default();
    let text = format!("{global}\n{definition}");
    let path = Path::new("added");
    let config = Config::parse(&text, path, &Environment::default(), catalog).map_err(|error| {
        error.problems.iter().map(|problem| format!("{}: {}", problem.what, problem.fix)).collect::<Vec<_>>()
    })?;
    let mut providers = config.providers.into_iter();
    let provider = providers.next().ok_or_else(|| vec!["it defines no provider".to_owned()])?;
    Ok(Provider { from_file: false, ..provider })
}

fn added(row: &ObjectRow, settings: &Settings, catalog: &Catalog) -> Result<Provider, Vec<String>> {
    let definition: Definition = serde_json::from_str(&row.spec).map_err(|error| vec![error.to_string()])?;
    let table = definition.to_toml().map_err(|_| vec!["it is no table of the file".to_owned()])?;
    read_provider(&table, settings, catalog)
}

fn add_combos(config: &mut Config, store: &Store) -> Result<(), StoreError> {
    for row in store.objects(Kind::Combo)? {
        let taken = config.combos.iter().any(|known| known.id == row.id);
        let Ok(combo) = serde_json::from_str::<combos::Combo>(&row.spec) else { continue };
        if taken || config.providers.iter().any(|known| known.id.as_str() == row.id) {
            tracing::warn!(combo = row.id, "the file uses this name too; the file's definition holds");
            continue;
        }
        let members = combo.members.into_iter().map(|member| {
            let alias = member.alias.unwrap_or_else(|| member.model.clone());
            (ProviderId::from(member.provider), ModelId::from(member.model), alias)
        });
        config.combos.push(Combo::new(combo.id, members.collect()));
    }
    Ok(())
}

/// The settings that people have changed, by name.
fn settings(store: &Store) -> Result<Map<String, Value>, StoreError> {
    let rows = store.settings()?.into_iter().filter(|(name, _)| !is_credential(name));
    Ok(rows.map(|(name, value)| (name, value_of(&value))).collect())
}

/// Settings with the changed ones in the place of defaults; what the file has set stays.
fn overlaid(settings: &Settings, changed: &Map<String, Value>) -> Settings {
    let (Ok(Value::Object(mut fields)), Ok(Value::Object(defaults))) =
        (serde_json::to_value(settings), serde_json::to_value(Settings::default()))
    else {
        return settings.clone();
    };
    for (name, value) in changed {
        if fields.contains_key(name) && fields.get(name) == defaults.get(name) {
            fields.insert(name.clone(), value.clone());
        }
    }
    serde_json::from_value(Value::Object(fields)).unwrap_or_else(|_| settings.clone())
}
