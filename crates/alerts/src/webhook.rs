//! Channels that are an HTTP call.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Value, json};
use sha2::Sha256;

use backstop_http::HttpError;

use crate::{DeliveryError, HttpClient, Notice, Secret, Severity, message};

/// The signature of a webhook, by the Standard Webhooks convention: `v1,` and the base64 of HMAC-SHA256 over
/// `id.timestamp.body`. A secret that begins with `whsec_` is base64 behind it, any other is taken as it is.
pub fn signature(secret: &Secret, id: &str, timestamp_s: i64, body: &[u8]) -> String {
    let text = secret.expose();
    let key = text.strip_prefix("whsec_").and_then(|rest| STANDARD.decode(rest).ok());
    let key = key.unwrap_or_else(|| text.as_bytes().to_vec());
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).expect("HMAC takes keys of any length");
    mac.update(format!("{id}.{timestamp_s}.").as_bytes());
    mac.update(body);
    format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
}

pub(crate) async fn signed(
    http: &HttpClient,
    url: &Secret,
    secret: &Secret,
    notice: &Notice,
) -> Result<String, DeliveryError> {
    let body = message::json(notice).to_string();
    let now = jiff::Timestamp::now().as_second();
    let headers = [
        ("webhook-id", notice.id.clone()),
        ("webhook-timestamp", now.to_string()),
        ("webhook-signature", signature(secret, &notice.id, now, body.as_bytes())),
    ];
    post(http, url.expose(), &headers, body).await
}

pub(crate) async fn slack(http: &HttpClient, url: &Secret, notice: &Notice) -> Result<String, DeliveryError> {
    let text = message::text(notice, 3_000).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    post(http, url.expose(), &[], json!({ "text": text }).to_string()).await
}

pub(crate) async fn discord(
    http: &HttpClient,
    url: &Secret,
    notice: &Notice,
) -> Result<String, DeliveryError> {
    // Nothing that an upstream wrote may ring everybody.
    let body = json!({ "content": message::text(notice, 1_900), "allowed_mentions": { "parse": [] } });
    post(http, url.expose(), &[], body.to_string()).await
}

pub(crate) async fn telegram(
    http: &HttpClient,
    base: &str,
    (token, chat): (&Secret, &str),
    notice: &Notice,
) -> Result<String, DeliveryError> {
    let url = format!("{base}/bot{}/sendMessage", token.expose());
    let body = json!({
        "chat_id": chat,
        "text": message::text(notice, 4_000),
        "link_preview_options": { "is_disabled": true },
    });
    post(http, &url, &[], body.to_string()).await
}

pub(crate) async fn ntfy(
    http: &HttpClient,
    url: &str,
    token: Option<&Secret>,
    notice: &Notice,
) -> Result<String, DeliveryError> {
    let (server, topic) = url.trim_end_matches('/').rsplit_once('/').unwrap_or((url, ""));
    let (priority, tag) = match notice.severity {
        Severity::Critical => (5, "rotating_light"),
        Severity::Warning => (4, "warning"),
        Severity::Info => (2, "white_check_mark"),
    };
    let body: Value = json!({
        "topic": topic,
        "title": message::cut(notice.title(), 200),
        "message": message::cut(notice.body(), 3_500),
        "priority": priority,
        "tags": [tag],
    });
    let token = token.map(|token| ("authorization", format!("Bearer {}", token.expose())));
    post(http, server, token.as_slice(), body.to_string()).await
}

/// Sends JSON and reads the answer's meaning.
async fn post(
    http: &HttpClient,
    url: &str,
    headers: &[(&str, String)],
    body: String,
) -> Result<String, DeliveryError> {
    let reply = http.post_json(url, headers, body).await.map_err(|error| match error {
        HttpError::BadUrl => DeliveryError::Refused("its address is no URL".to_owned()),
        other => DeliveryError::Unreachable(other.to_string()),
    })?;
    let text = message::cut(String::from_utf8_lossy(&reply.body).trim().replace('\n', " "), 200);
    match reply.status {
        200..=299 => Ok(format!("{} {text}", reply.status).trim_end().to_owned()),
        408 | 425 | 429 | 500.. => {
            let retry_after_s = reply.header("retry-after").and_then(|value| value.parse().ok());
            Err(DeliveryError::Busy { status: reply.status, retry_after_s, text })
        }
        status => Err(DeliveryError::Refused(format!("{status} {text}").trim_end().to_owned())),
    }
}
