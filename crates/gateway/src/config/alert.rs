//! `[[alert]]`: where alerts go. The fields are checked for their names here; whoever delivers gives them their meaning.

use std::fmt;

use super::section::Section;

/// A channel for alerts, as it is written.
#[derive(Clone, PartialEq)]
pub struct Alert {
    /// The kind of channel: `webhook`, `email` …
    pub channel: String,
    /// Every field, the channel's kind among them, with variables filled in.
    pub fields: toml::Table,
    /// The line of the table.
    pub line: usize,
}

impl fmt::Debug for Alert {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Addresses and secrets may stand in any field.
        f.debug_struct("Alert").field("channel", &self.channel).finish_non_exhaustive()
    }
}

/// Reads every `[[alert]]`.
pub(super) fn read(root: &Section<'_, '_>) -> Vec<Alert> {
    root.sections("alert").iter().filter_map(one).collect()
}

fn one(section: &Section<'_, '_>) -> Option<Alert> {
    let channel = section.required_text("channel", "\"webhook\"");
    let fields = section.values(&FIELDS).into_iter().map(|(name, located)| (name.to_owned(), located.value));
    let fields = fields.collect();
    section.finish();
    Some(Alert { channel: channel?.value, fields, line: section.line() })
}

/// The fields of every kind of channel.
const FIELDS: [&str; 17] = [
    "channel",
    "name",
    "url",
    "url_env",
    "secret",
    "secret_env",
    "secret_file",
    "chat",
    "smtp",
    "smtp_tls",
    "user",
    "from",
    "to",
    "command",
    "min_severity",
    "recoveries",
    "quiet",
];
