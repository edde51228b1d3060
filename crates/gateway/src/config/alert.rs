//! `[[alert]]`: where alerts go. Whoever delivers gives the fields their meaning and says what is wrong with them.

use std::{fmt, fs};

use backstop_alerts::{Channel, ChannelConfig, Source};
use jiff::tz::TimeZone;

use super::section::Section;

/// A channel for alerts, as it is written.
#[derive(Clone)]
pub struct Alert {
    /// The kind of channel: `webhook`, `email` …
    pub channel: String,
    /// Every field, the channel's kind among them, with variables filled in.
    pub fields: toml::Table,
    /// The line of the table.
    pub line: usize,
    /// The same, ready to deliver.
    pub route: Channel,
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
    let fields: toml::Table = fields.collect();
    section.finish();
    let channel = channel?.value;
    match route(section, &fields) {
        Ok(route) => Some(Alert { channel, fields, line: section.line(), route }),
        Err(problem) => {
            section.report(section.at(), problem, "`backstop check --example` shows a channel of each kind");
            None
        }
    }
}

fn route(section: &Section<'_, '_>, fields: &toml::Table) -> Result<Channel, String> {
    let source = section.source;
    let lookup = |named: Source<'_>| match named {
        Source::Environment(name) => source.environment.var(name).map(str::to_owned),
        Source::File(path) => fs::read_to_string(source.environment.path(path, &source.folder)).ok(),
    };
    let config: ChannelConfig =
        fields.clone().try_into().map_err(|error: toml::de::Error| error.message().to_owned())?;
    Channel::new(&config, &lookup, &TimeZone::system()).map_err(|error| error.to_string())
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
