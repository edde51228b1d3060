//! Channels as they are configured, and as they are used.

use backstop_triage::alert::{Notice, NoticeKind, Severity};
use jiff::tz::TimeZone;
use serde::Deserialize;

use crate::{DeliveryError, HttpClient, QuietHours, Secret, command, email, webhook};

/// An `[[alert]]` table of the configuration.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ChannelConfig {
    /// `webhook`, `slack`, `discord`, `telegram`, `ntfy`, `email` or `command`.
    pub channel: String,
    /// What people call it; the kind, if not given.
    pub name: Option<String>,
    /// Where it is delivered. For Slack and Discord the address is itself a secret.
    pub url: Option<Secret>,
    /// The environment variable that holds the address.
    pub url_env: Option<String>,
    /// The secret of a webhook's signature, the token of Telegram or ntfy, the password of a mail account.
    pub secret: Option<Secret>,
    /// The environment variable that holds the secret.
    pub secret_env: Option<String>,
    /// The file that holds the secret.
    pub secret_file: Option<String>,
    /// Telegram's chat.
    pub chat: Option<String>,
    /// The mail server as `host:port`.
    pub smtp: Option<String>,
    /// `starttls` (default), `tls` or `none`.
    pub smtp_tls: Option<String>,
    /// The user of the mail account.
    pub user: Option<String>,
    /// The sender's address.
    pub from: Option<String>,
    /// The receivers' addresses.
    pub to: Vec<String>,
    /// The program of a `command` channel, with its arguments.
    pub command: Vec<String>,
    /// The least severity that is delivered: `info` (default), `warning` or `critical`.
    pub min_severity: Severity,
    /// Whether recoveries are delivered although `min_severity` is above `info`.
    pub recoveries: bool,
    /// Hours in which only critical alerts are delivered, such as `22:00-07:00 Europe/Berlin`.
    pub quiet: Option<String>,
}

/// What is wrong with a channel's configuration, and what to do.
#[derive(Debug, thiserror::Error)]
#[error("alert channel {channel:?}: {problem}")]
pub struct ConfigError {
    /// The channel's name.
    pub channel: String,
    /// What is wrong.
    pub problem: String,
}

/// A channel that can be used.
#[derive(Clone, Debug)]
pub struct Channel {
    name: String,
    kind: Kind,
    min_severity: Severity,
    recoveries: bool,
    quiet: Option<QuietHours>,
}

/// Where from values come that a configuration only names: the environment, and files.
type Lookup<'a> = &'a dyn Fn(Source<'_>) -> Option<String>;

/// A named value.
#[derive(Clone, Copy, Debug)]
pub enum Source<'a> {
    /// An environment variable.
    Environment(&'a str),
    /// A file.
    File(&'a str),
}

#[derive(Clone, Debug)]
enum Kind {
    Webhook { url: Secret, secret: Secret },
    Slack { url: Secret },
    Discord { url: Secret },
    Telegram { base: String, token: Secret, chat: String },
    Ntfy { url: String, token: Option<Secret> },
    Email(email::Mailbox),
    Command { command: Vec<String> },
}

impl Channel {
    /// Checks a configuration and fetches what it names.
    pub fn new(config: &ChannelConfig, lookup: Lookup<'_>, local: &TimeZone) -> Result<Self, ConfigError> {
        let name = config.name.clone().unwrap_or_else(|| config.channel.clone());
        let wrong = |problem: String| ConfigError { channel: name.clone(), problem };
        let fits = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
        if !fits || name.starts_with('.') {
            return Err(wrong("the name must be letters, digits, '-', '_' and '.'".to_owned()));
        }
        let kind = Kind::new(config, lookup).map_err(wrong)?;
        let quiet = config.quiet.as_deref().map(|quiet| QuietHours::parse(quiet, local)).transpose();
        Ok(Self {
            kind,
            min_severity: config.min_severity,
            recoveries: config.recoveries,
            quiet: quiet.map_err(wrong)?,
            name: name.clone(),
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it is, by the word of the configuration.
    pub fn kind(&self) -> &'static str {
        match self.kind {
            Kind::Webhook { .. } => "webhook",
            Kind::Slack { .. } => "slack",
            Kind::Discord { .. } => "discord",
            Kind::Telegram { .. } => "telegram",
            Kind::Ntfy { .. } => "ntfy",
            Kind::Email(_) => "email",
            Kind::Command { .. } => "command",
        }
    }

    /// The least severity that it takes.
    pub fn min_severity(&self) -> Severity {
        self.min_severity
    }

    /// Whether it wants a notice.
    pub fn wants(&self, notice: &Notice) -> bool {
        let recovery = notice.kind == NoticeKind::Recovered;
        notice.severity >= self.min_severity
            || (recovery && self.recoveries && notice.condition.severity() >= self.min_severity)
    }

    /// Until when a notice has to wait because of quiet hours.
    pub(crate) fn held_until(&self, notice: &Notice) -> Option<backstop_triage::Timestamp> {
        self.quiet.as_ref().filter(|_| notice.severity < Severity::Critical)?.end(notice.at)
    }

    /// Delivers a notice at once and says what came back.
    pub async fn deliver(&self, http: &HttpClient, notice: &Notice) -> Result<String, DeliveryError> {
        let send = async {
            match &self.kind {
                Kind::Webhook { url, secret } => webhook::signed(http, url, secret, notice).await,
                Kind::Slack { url } => webhook::slack(http, url, notice).await,
                Kind::Discord { url } => webhook::discord(http, url, notice).await,
                Kind::Telegram { base, token, chat } => {
                    webhook::telegram(http, base, (token, chat), notice).await
                }
                Kind::Ntfy { url, token } => webhook::ntfy(http, url, token.as_ref(), notice).await,
                Kind::Email(mailbox) => mailbox.send(notice).await,
                Kind::Command { command } => command::run(command, notice).await,
            }
        };
        let limit = std::time::Duration::from_secs(DELIVERY_LIMIT_S);
        tokio::time::timeout(limit, send).await.unwrap_or(Err(DeliveryError::TimedOut(DELIVERY_LIMIT_S)))
    }
}

impl Kind {
    fn new(config: &ChannelConfig, lookup: Lookup<'_>) -> Result<Self, String> {
        let secret = secret_of(config, lookup)?;
        let url = || -> Result<Secret, String> {
            let url = match (&config.url, &config.url_env) {
                (Some(url), _) => url.clone(),
                (None, Some(name)) => {
                    Secret::new(lookup(Source::Environment(name)).ok_or_else(|| unset(name))?)
                }
                (None, None) => return Err("url is missing".to_owned()),
            };
            let known = ["http://", "https://"].iter().any(|scheme| url.expose().starts_with(scheme));
            if known { Ok(url) } else { Err("url must begin with https:// or http://".to_owned()) }
        };
        match config.channel.as_str() {
            "webhook" => {
                let missing = "a webhook is signed: set secret_env, secret_file or secret to a secret that the receiver knows";
                Ok(Self::Webhook { url: url()?, secret: secret.ok_or(missing)? })
            }
            "slack" => Ok(Self::Slack { url: url()? }),
            "discord" => Ok(Self::Discord { url: url()? }),
            "telegram" => Ok(Self::Telegram {
                base: url().map_or_else(
                    |_| TELEGRAM.to_owned(),
                    |url| url.expose().trim_end_matches('/').to_owned(),
                ),
                token: secret.ok_or("the bot's token is missing: set secret_env")?,
                chat: config.chat.clone().ok_or("chat is missing")?,
            }),
            "ntfy" => Ok(Self::Ntfy { url: url()?.expose().to_owned(), token: secret }),
            "email" => Ok(Self::Email(email::Mailbox::new(config, secret)?)),
            "command" if config.command.is_empty() => Err("command is missing".to_owned()),
            "command" => Ok(Self::Command { command: config.command.clone() }),
            other => Err(format!(
                "channel = {other:?} is not known; use webhook, slack, discord, telegram, ntfy, email or command"
            )),
        }
    }
}

/// The secret, from wherever it is. An empty one counts as a mistake, not as none.
fn secret_of(config: &ChannelConfig, lookup: Lookup<'_>) -> Result<Option<Secret>, String> {
    let secret = match (&config.secret, &config.secret_env, &config.secret_file) {
        (None, None, None) => return Ok(None),
        (Some(secret), None, None) => secret.clone(),
        (None, Some(name), None) => {
            Secret::new(lookup(Source::Environment(name)).ok_or_else(|| unset(name))?)
        }
        (None, None, Some(path)) => {
            let text =
                lookup(Source::File(path)).ok_or_else(|| format!("secret_file {path} cannot be read"))?;
            Secret::new(text.trim())
        }
        _ => return Err("set only one of secret, secret_env and secret_file".to_owned()),
    };
    if secret.expose().trim().is_empty() { Err("the secret is empty".to_owned()) } else { Ok(Some(secret)) }
}

fn unset(name: &str) -> String {
    format!("the environment variable {name} is not set")
}

/// The longest time that one delivery may take.
const DELIVERY_LIMIT_S: u64 = 10;
const TELEGRAM: &str = "https://api.telegram.org";
