//! `[[alert]]`: where alerts go.

use backstop_store::Secret;

use super::section::Section;

/// A channel for alerts.
#[derive(Clone, Debug)]
pub struct Alert {
    /// The kind of channel: `webhook` …
    pub channel: String,
    /// Where it is sent.
    pub url: String,
    /// The secret that signs or authorises it.
    pub secret: Option<Secret>,
    /// The least severity that is sent.
    pub min_severity: Severity,
    /// Hours of the day without alerts below critical, as `22:00-07:00`.
    pub quiet: Option<String>,
}

/// How bad an alert is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Good to know.
    Info,
    /// A person should look at it.
    Warning,
    /// Requests fail.
    Critical,
}

/// Reads every `[[alert]]`.
pub(super) fn read(root: &Section<'_, '_>) -> Vec<Alert> {
    root.sections("alert").iter().filter_map(one).collect()
}

fn one(section: &Section<'_, '_>) -> Option<Alert> {
    let channel = section.required_text("channel", "\"webhook\"");
    let url = section.required_text("url", "\"https://…\"");
    let severities =
        [("info", Severity::Info), ("warning", Severity::Warning), ("critical", Severity::Critical)];
    let min_severity =
        section.choice("min_severity", &severities).map_or(Severity::Warning, |choice| choice.value);
    let quiet = section.text("quiet").map(|quiet| quiet.value);
    let secret = section.text("secret_env").and_then(|name| {
        let secret = section.source.environment.var(&name.value).map(Secret::new);
        if secret.is_none() {
            let what = format!("the environment variable {} is not set", name.value);
            section.report(&name.at, what, format!("export {}, or remove `secret_env`", name.value));
        }
        secret
    });
    section.finish();
    Some(Alert { channel: channel?.value, url: url?.value, secret, min_severity, quiet })
}
