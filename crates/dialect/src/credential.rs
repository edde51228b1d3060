//! Where keys stand: the client's in the request that arrives, the provider's in the one that leaves.

use std::{borrow::Cow, fmt, str::FromStr};

use http::{
    HeaderMap, HeaderName, HeaderValue,
    header::{AUTHORIZATION, InvalidHeaderName},
};
use percent_encoding::percent_decode_str;

use crate::Dialect;

/// The header that carries our own client key where the others belong to the provider (pass-through mode).
pub const CLIENT_KEY_HEADER: &str = "x-backstop-client-key";

/// How a provider wants its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuthStyle {
    /// `Authorization: Bearer KEY`.
    Bearer,
    /// `x-api-key: KEY`.
    XApiKey,
    /// `x-goog-api-key: KEY`.
    XGoogApiKey,
    /// The key alone in a header of this name.
    Header(HeaderName),
    /// `?NAME=KEY` in the query.
    Query(String),
}

impl AuthStyle {
    /// The style that a dialect's own documentation asks for.
    pub const fn of(dialect: Dialect) -> Self {
        match dialect {
            Dialect::OpenAiChat | Dialect::OpenAiResponses => Self::Bearer,
            Dialect::AnthropicMessages => Self::XApiKey,
            Dialect::Gemini => Self::XGoogApiKey,
        }
    }

    /// The header that carries `key`, marked as sensitive; `None` for a key that goes into the query.
    pub fn header(&self, key: &str) -> Result<Option<(HeaderName, HeaderValue)>, CredentialError> {
        let (name, text) = match self {
            Self::Bearer => (AUTHORIZATION, Cow::Owned(format!("Bearer {key}"))),
            Self::XApiKey => (X_API_KEY, Cow::Borrowed(key)),
            Self::XGoogApiKey => (X_GOOG_API_KEY, Cow::Borrowed(key)),
            Self::Header(name) => (name.clone(), Cow::Borrowed(key)),
            Self::Query(_) => return Ok(None),
        };
        let mut value = HeaderValue::from_str(&text).map_err(|_| CredentialError::Characters)?;
        value.set_sensitive(true);
        Ok(Some((name, value)))
    }
}

impl FromStr for AuthStyle {
    type Err = CredentialError;

    /// Reads `bearer`, `x-api-key`, `x-goog-api-key`, `header:NAME` or `query:NAME`.
    fn from_str(text: &str) -> Result<Self, CredentialError> {
        Ok(match text {
            "bearer" => Self::Bearer,
            "x-api-key" => Self::XApiKey,
            "x-goog-api-key" => Self::XGoogApiKey,
            other => match other.split_once(':') {
                Some(("header", name)) => Self::Header(name.parse()?),
                Some(("query", name)) if !name.is_empty() => Self::Query(name.to_owned()),
                Some(_) | None => return Err(CredentialError::Style),
            },
        })
    }
}

/// Why a credential cannot be placed.
#[derive(Debug, thiserror::Error)]
pub enum CredentialError {
    /// The key holds characters that no header can carry.
    #[error(
        "the key holds characters that a header cannot carry; look for a line break or a quote copied with it"
    )]
    Characters,
    /// The style is none of those known.
    #[error("unknown auth header: use bearer, x-api-key, x-goog-api-key, header:NAME or query:NAME")]
    Style,
    /// The header's name is none.
    #[error("not the name of a header")]
    HeaderName(#[from] InvalidHeaderName),
}

/// Where a client put its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// [`CLIENT_KEY_HEADER`].
    Own,
    /// `Authorization: Bearer`.
    Bearer,
    /// `x-api-key`.
    XApiKey,
    /// `x-goog-api-key`.
    XGoogApiKey,
    /// `?key=`.
    Query,
}

/// A key that a client sent. Its `Debug` shows the place only.
#[derive(Clone, PartialEq, Eq)]
pub struct ClientKey<'a> {
    /// Where it stood.
    pub place: Place,
    /// The key.
    pub key: Cow<'a, str>,
}

impl fmt::Debug for ClientKey<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} ***", self.place)
    }
}

/// Every key that a request carries, ours first; any of them may be the one that is known.
pub fn client_keys<'a>(
    headers: &'a HeaderMap,
    query: Option<&'a str>,
) -> impl Iterator<Item = ClientKey<'a>> {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let plain = |text: &'a str, place| ClientKey { place, key: Cow::Borrowed(text.trim()) };
    let own = header(CLIENT_KEY_HEADER).map(|text| plain(text, Place::Own));
    let bearer = header(AUTHORIZATION.as_str()).and_then(bearer).map(|text| plain(text, Place::Bearer));
    let x_api_key = header("x-api-key").map(|text| plain(text, Place::XApiKey));
    let x_goog = header("x-goog-api-key").map(|text| plain(text, Place::XGoogApiKey));
    let in_query = query
        .into_iter()
        .flat_map(|query| query.split('&'))
        .filter_map(|pair| pair.strip_prefix("key="))
        .map(|text| ClientKey { place: Place::Query, key: percent_decode_str(text).decode_utf8_lossy() });
    own.into_iter()
        .chain(bearer)
        .chain(x_api_key)
        .chain(x_goog)
        .chain(in_query)
        .filter(|found| !found.key.is_empty())
}

/// The query without any `key=`; nothing else of it changes.
pub fn without_key(query: &str) -> Cow<'_, str> {
    if !query.split('&').any(|pair| pair.starts_with("key=")) {
        return Cow::Borrowed(query);
    }
    let kept: Vec<&str> = query.split('&').filter(|pair| !pair.starts_with("key=")).collect();
    Cow::Owned(kept.join("&"))
}

fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.trim_start().split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token)
}

const X_API_KEY: HeaderName = HeaderName::from_static("x-api-key");
const X_GOOG_API_KEY: HeaderName = HeaderName::from_static("x-goog-api-key");
