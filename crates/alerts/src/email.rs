//! Mail by SMTP.

use lettre::{
    AsyncSmtpTransport, AsyncTransport as _, Message, Tokio1Executor,
    message::{Mailbox as Address, header::ContentType},
    transport::smtp::{
        authentication::Credentials,
        client::{Tls, TlsParameters},
    },
};

use crate::{ChannelConfig, DeliveryError, Notice, Secret, message};

/// A mail account and the addresses of its alerts.
#[derive(Clone, Debug)]
pub(crate) struct Mailbox {
    host: String,
    port: u16,
    tls: Protection,
    login: Option<(String, Secret)>,
    from: Address,
    to: Vec<Address>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Protection {
    StartTls,
    Tls,
    None,
}

impl Mailbox {
    pub(crate) fn new(config: &ChannelConfig, secret: Option<Secret>) -> Result<Self, String> {
        let tls = match config.smtp_tls.as_deref() {
            None | Some("starttls") => Protection::StartTls,
            Some("tls") => Protection::Tls,
            Some("none") => Protection::None,
            Some(other) => return Err(format!("smtp_tls = {other:?} must be starttls, tls or none")),
        };
        let server = config.smtp.as_deref().ok_or("smtp = \"host:port\" is missing")?;
        let (host, port) = match server.rsplit_once(':') {
            Some((host, port)) => {
                (host, port.parse().map_err(|_| format!("smtp = {server:?} must be host:port"))?)
            }
            None => (server, if tls == Protection::Tls { 465 } else { 587 }),
        };
        let address =
            |text: &str| text.parse::<Address>().map_err(|_| format!("{text:?} is no mail address"));
        let login = match (config.user.clone(), secret) {
            (Some(user), Some(password)) => Some((user, password)),
            (Some(_), None) => return Err("user needs a password: set secret_env".to_owned()),
            (None, _) => None,
        };
        if login.is_some() && tls == Protection::None {
            return Err("smtp_tls = \"none\" would send the password in the clear".to_owned());
        }
        if config.to.is_empty() {
            return Err("to = [\"…\"] is missing".to_owned());
        }
        Ok(Self {
            host: host.to_owned(),
            port,
            tls,
            login,
            from: address(config.from.as_deref().ok_or("from is missing")?)?,
            to: config.to.iter().map(|to| address(to)).collect::<Result<_, _>>()?,
        })
    }

    pub(crate) async fn send(&self, notice: &Notice) -> Result<String, DeliveryError> {
        let unsendable = |error: &dyn std::fmt::Display| DeliveryError::Refused(error.to_string());
        let mut mail = Message::builder().from(self.from.clone()).subject(subject(notice));
        for to in &self.to {
            mail = mail.to(to.clone());
        }
        let mail = mail
            .message_id(Some(format!("<{}@backstop>", message_id(&notice.id))))
            .header(ContentType::TEXT_PLAIN)
            .body(message::text(notice, 20_000))
            .map_err(|error| unsendable(&error))?;
        let reply = self.transport()?.send(mail).await.map_err(|error| {
            if error.is_permanent() {
                unsendable(&error)
            } else {
                DeliveryError::Unreachable(format!("mail server {}: {error}", self.host))
            }
        })?;
        Ok(format!("{} {}", reply.code(), reply.first_line().unwrap_or_default()))
    }

    fn transport(&self) -> Result<AsyncSmtpTransport<Tokio1Executor>, DeliveryError> {
        let parameters = || {
            TlsParameters::new(self.host.clone())
                .map_err(|error| DeliveryError::Unreachable(error.to_string()))
        };
        let tls = match self.tls {
            Protection::StartTls => Tls::Required(parameters()?),
            Protection::Tls => Tls::Wrapper(parameters()?),
            Protection::None => Tls::None,
        };
        let mut builder =
            AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(&self.host).port(self.port).tls(tls);
        if let Some((user, password)) = &self.login {
            builder = builder.credentials(Credentials::new(user.clone(), password.expose().to_owned()));
        }
        Ok(builder.build())
    }
}

fn subject(notice: &Notice) -> String {
    message::cut(format!("[backstop] {}", notice.title()).replace(['\r', '\n'], " "), 200)
}

/// An id that mail allows, the same for each repetition of a notice.
fn message_id(id: &str) -> String {
    id.chars().map(|c| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '.' }).collect()
}
