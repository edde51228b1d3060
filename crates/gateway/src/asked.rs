//! What a client asks: everything about a request that the journey needs, read once.

use std::{borrow::Cow, sync::Arc};

use backstop_dialect::{Dialect, Framing, Operation, Slot, splice_model};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri, header};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use tokio::time::Instant;

use crate::{
    auth::Client,
    config::AuthMode,
    intake::Taken,
    meters::Way,
    plan::{Credential, Outlet, OutletKey},
    request_id::RequestId,
    upstream::{Outgoing, Upload},
};

/// One request.
pub(crate) struct Asked {
    pub(crate) id: RequestId,
    pub(crate) arrived: Instant,
    pub(crate) client: Option<Arc<Client>>,
    /// The shape in which it is read and answered.
    pub(crate) dialect: Dialect,
    pub(crate) operation: Operation,
    /// Whether the answer is to be a stream.
    pub(crate) streaming: bool,
    /// Whether the upstream keeps something of it.
    pub(crate) stateful: bool,
    /// How it named its provider.
    pub(crate) way: Way,
    /// The provider or combo that was asked.
    pub(crate) provider: String,
    /// The model as the client wrote it.
    pub(crate) model: Option<String>,
    pub(crate) method: Method,
    /// The path without what is ours of it, and the query without our key.
    pub(crate) path: String,
    pub(crate) query: Option<String>,
    /// The headers that go on.
    pub(crate) headers: HeaderMap,
    /// The client's own credentials, for providers that pass them through.
    pub(crate) own_credentials: Vec<(HeaderName, HeaderValue)>,
    pub(crate) body: Body,
    /// Where the model stands in the body.
    pub(crate) slot: Slot,
    /// Turns of the conversation.
    pub(crate) messages: Option<u64>,
    /// The window of the model that it asks for first, where it was looked up.
    pub(crate) window: Option<u64>,
    /// Whether the answer is an estimate of ours.
    pub(crate) is_estimated: bool,
    /// Whether the provider keeps the answer, though nobody asked for it in so many words.
    pub(crate) is_stored: bool,
    /// The object at the provider that it names.
    pub(crate) object: Option<String>,
    /// The session that it belongs to, hashed.
    pub(crate) session: Option<u64>,
}

/// A request's body.
pub(crate) enum Body {
    /// Held, so that it can be sent again.
    Whole(Taken),
    /// On its way; can be sent once.
    Upload(Upload),
    /// Gone: sent, or not needed any more.
    Gone,
}

/// Why an attempt cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unbuildable {
    /// The upload has been sent already.
    BodyGone,
    /// Path and base URL do not make a URL.
    Address,
}

impl Asked {
    /// The call to one provider, with one key, for one model.
    pub(crate) fn call(
        &mut self,
        outlet: &Outlet,
        key: &OutletKey,
        model: &str,
    ) -> Result<Request<Outgoing>, Unbuildable> {
        let renamed = self.model.as_deref().is_some_and(|asked| asked != model) && !model.is_empty();
        let path = if renamed { self.path_for(model) } else { Cow::Borrowed(self.path.as_str()) };
        let query = self.query_for(outlet, key);
        let target =
            outlet.config.base_url.address.join(&path, query.as_deref()).map_err(|_| Unbuildable::Address)?;
        let uri = Uri::try_from(target).map_err(|_| Unbuildable::Address)?;
        let body = match std::mem::replace(&mut self.body, Body::Gone) {
            Body::Whole(taken) => {
                let bytes =
                    if renamed { splice_model(&taken.bytes, &self.slot, model) } else { taken.bytes.clone() };
                self.body = Body::Whole(taken);
                Outgoing::Whole(bytes)
            }
            Body::Upload(upload) => Outgoing::Upload(upload),
            Body::Gone => return Err(Unbuildable::BodyGone),
        };
        let mut request = Request::new(body);
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = uri;
        *request.headers_mut() = self.headers_for(outlet, key);
        Ok(request)
    }

    /// How the events of a streamed answer are told apart.
    pub(crate) fn framing(&self) -> Framing {
        let of_events =
            self.query.as_deref().is_some_and(|query| query.split('&').any(|pair| pair == "alt=sse"));
        let content_type = (!of_events).then_some("application/json");
        Framing::of(self.dialect, content_type)
    }

    /// Whether the body can be sent once more.
    pub(crate) fn can_be_sent(&self) -> bool {
        !matches!(self.body, Body::Gone)
    }

    /// Whether the body can be sent only once.
    pub(crate) fn is_upload(&self) -> bool {
        matches!(self.body, Body::Upload(_))
    }

    /// The held body; empty if there is none.
    pub(crate) fn bytes(&self) -> &[u8] {
        match &self.body {
            Body::Whole(taken) => &taken.bytes,
            Body::Upload(_) | Body::Gone => &[],
        }
    }

    /// Lets go of what only another attempt would need.
    pub(crate) fn release(&mut self) {
        self.body = Body::Gone;
        self.headers = HeaderMap::new();
        self.own_credentials = Vec::new();
    }

    fn headers_for(&self, outlet: &Outlet, key: &OutletKey) -> HeaderMap {
        let mut headers = self.headers.clone();
        headers.insert(header::HOST, outlet.upstream.authority().clone());
        for (name, value) in &outlet.config.headers {
            headers.insert(name.clone(), value.clone());
        }
        if outlet.config.auth == AuthMode::PassThrough {
            headers.extend(self.own_credentials.iter().cloned());
        }
        if let Credential::Header(name, value) = &key.credential {
            headers.insert(name.clone(), value.clone());
        }
        headers
    }

    fn query_for(&self, outlet: &Outlet, key: &OutletKey) -> Option<String> {
        let has = |name: &str| {
            self.query
                .iter()
                .flat_map(|query| query.split('&'))
                .any(|pair| pair.split('=').next() == Some(name))
        };
        let own = self.query.iter().filter(|query| !query.is_empty()).cloned();
        let added = outlet
            .config
            .query
            .iter()
            .filter(|(name, _)| !has(name))
            .map(|(name, value)| format!("{name}={value}"));
        let credential = match &key.credential {
            Credential::Query(pair) => Some(pair.clone()),
            Credential::Header(..) | Credential::Nothing => None,
        };
        let parts: Vec<String> = own.chain(added).chain(credential).collect();
        (!parts.is_empty()).then(|| parts.join("&"))
    }

    /// The path with another model in it, in the dialect that has it there.
    fn path_for(&self, model: &str) -> Cow<'_, str> {
        let parts =
            self.path.split_once("models/").and_then(|(before, rest)| Some((before, rest.rsplit_once(':')?)));
        match parts {
            Some((before, (_, verb))) if self.dialect == Dialect::Gemini => {
                let model = utf8_percent_encode(model, MODEL_IN_PATH);
                Cow::Owned(format!("{before}models/{model}:{verb}"))
            }
            Some(_) | None => Cow::Borrowed(&self.path),
        }
    }
}

const MODEL_IN_PATH: &percent_encoding::AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/').remove(b'@');
