//! The settings of the cascade as fields of `[settings]` and of each `[[provider]]`: names and types are those of
//! [`Settings`], so that a new setting needs no line here.

use std::sync::LazyLock;

use backstop_triage::Settings;

use super::section::{Located, Section};

/// Settings under construction: some fields, laid over the defaults when resolved.
#[derive(Clone, Default)]
pub(super) struct Tunables(toml::Table);

impl Tunables {
    /// These settings with the fields of a provider's section laid over them.
    pub(super) fn overlaid(&self, section: &Section<'_, '_>) -> Self {
        self.with(section, &OF_PROVIDERS)
    }

    fn with(&self, section: &Section<'_, '_>, names: &[&'static str]) -> Self {
        let mut table = self.0.clone();
        for (name, located) in section.values(names) {
            if acceptable(section, name, &located) {
                table.insert(name.to_owned(), located.value);
            }
        }
        Self(table)
    }

    /// The settings, with defaults where nothing was said.
    pub(super) fn settings(&self) -> Settings {
        self.0.clone().try_into().unwrap_or_default()
    }
}

/// Reads `[settings]`.
pub(super) fn global(root: &Section<'_, '_>) -> Tunables {
    let Some(section) = root.section("settings") else { return Tunables::default() };
    let tunables = Tunables::default().with(&section, &NAMES);
    section.finish();
    tunables
}

fn acceptable(section: &Section<'_, '_>, name: &'static str, located: &Located<toml::Value>) -> bool {
    let alone = toml::Table::from_iter([(name.to_owned(), located.value.clone())]);
    let problem = match alone.try_into::<Settings>() {
        Ok(_) => out_of_range(name, &located.value),
        Err(error) => Some(error.message().lines().collect::<Vec<_>>().join(", ")),
    };
    if let Some(problem) = &problem {
        let usual = DEFAULTS.get(name).map_or_else(
            || "see `backstop check --example`".to_owned(),
            |value| format!("write for example `{name} = {value}`, the default"),
        );
        section.report(&located.at, format!("`{name}` cannot be {}: {problem}", located.value), usual);
    }
    problem.is_none()
}

fn out_of_range(name: &str, value: &toml::Value) -> Option<String> {
    let (_, low, high) = RANGES.iter().find(|(limited, _, _)| *limited == name)?;
    let number = value.as_integer()?;
    (!(*low..=*high).contains(&number)).then(|| format!("it must lie between {low} and {high}"))
}

/// Settings with bounds, and the bounds.
const RANGES: [(&str, i64, i64); 11] = [
    ("quota_backoff_s", 60, 86_400),
    ("model_circuit_permanent_cooldown_s", 30, 86_400),
    ("model_circuit_transient_cooldown_s", 10, 3_600),
    ("model_circuit_threshold", 1, 1_000),
    ("circuit_breaker_threshold", 1, 1_000),
    ("max_attempts", 1, 1_000),
    ("request_deadline_s", 1, 86_400),
    ("requests_per_key", 1, 1_000_000),
    ("default_context", 1_024, 10_000_000),
    ("alert_repeat_s", 60, 604_800),
    ("alert_clear_s", 1, 86_400),
];

static DEFAULTS: LazyLock<toml::Table> =
    LazyLock::new(|| toml::Table::try_from(Settings::default()).expect("settings are a flat table"));

static NAMES: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
    // An option without a default does not stand in the serialised defaults.
    let optional = ["context_fallback"];
    DEFAULTS.keys().map(String::as_str).chain(optional).collect()
});

/// Those that each provider may have for itself.
static OF_PROVIDERS: LazyLock<Vec<&'static str>> =
    LazyLock::new(|| NAMES.iter().copied().filter(|name| !OF_THE_GATEWAY.contains(name)).collect());

/// Those that hold for the whole gateway.
const OF_THE_GATEWAY: [&str; 2] = ["alert_repeat_s", "alert_clear_s"];
