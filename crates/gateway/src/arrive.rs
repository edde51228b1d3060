//! The end of a journey: what the client gets, before it is put into an answer.

use std::{collections::VecDeque, time::Duration};

use backstop_dialect::{ClientError, Problem, error_body, error_headers, response_headers};
use backstop_triage::Class;
use backstop_triage::cascade::{End, FinalError, FinalKind};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};

use crate::{
    attempt::{Begun, Opened, Whole},
    counting::ESTIMATE,
    drive::{Journey, Returned, Route},
    passing::Passing,
    refuse,
    relay::Relay,
    reply::{Content, Reply},
    upstream::UploadFault,
};

/// How a journey ended.
pub(crate) struct Arrival {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) end: Ending,
}

/// What follows the head.
pub(crate) enum Ending {
    /// A complete answer, or the upstream's own error.
    Whole(VecDeque<Bytes>),
    /// An answer whose rest passes through.
    Passing(Box<Passing>),
    /// A stream.
    Stream(Box<Relay>),
    /// An error of ours.
    Ours(Box<ClientError>),
}

impl Arrival {
    /// As an answer.
    pub(crate) fn into_response(self, dialect: backstop_dialect::Dialect) -> Response<Reply> {
        let content = match self.end {
            Ending::Whole(pieces) => Content::Whole(pieces),
            Ending::Passing(passing) => Content::Passing(passing),
            Ending::Stream(relay) => Content::Relay(relay),
            Ending::Ours(error) => Content::Whole(VecDeque::from([Bytes::from(error_body(dialect, &error))])),
        };
        let mut response = Response::new(Reply::new(content));
        *response.status_mut() = self.status;
        *response.headers_mut() = self.headers;
        response
    }
}

pub(crate) async fn whole(mut journey: Box<Journey>, whole: Whole) -> Arrival {
    journey.written().await;
    let headers = headers(&journey, &whole.head.headers, journey.route.as_ref());
    journey.record.answered(whole.head.status);
    whole.pieces.iter().for_each(|piece| journey.record.showed(piece));
    Arrival { status: whole.head.status, headers, end: Ending::Whole(whole.pieces) }
}

pub(crate) async fn passing(mut journey: Box<Journey>, begun: Begun, idle_timeout: Duration) -> Arrival {
    journey.written().await;
    let status = begun.head.status;
    let headers = headers(&journey, &begun.head.headers, journey.route.as_ref());
    journey.record.answered(status);
    let passing = Passing::new(begun.held, begun.answer, idle_timeout, Some(journey));
    Arrival { status, headers, end: Ending::Passing(Box::new(passing)) }
}

pub(crate) async fn stream(
    mut journey: Box<Journey>,
    opened: Box<Opened>,
    idle_timeout: Duration,
) -> Arrival {
    journey.written().await;
    let status = opened.head.status;
    let headers = headers(&journey, &opened.head.headers, journey.route.as_ref());
    journey.record.answered(status);
    Arrival { status, headers, end: Ending::Stream(Box::new(Relay::new(*opened, idle_timeout, journey))) }
}

/// The upload is gone although the cascade would go on: if the client sends it again, it gets further.
pub(crate) async fn stuck(journey: Box<Journey>) -> Arrival {
    let class = journey.trail().iter().rev().find_map(|tried| tried.result.class());
    if class == Some(Class::ModelError) && journey.last.is_some() {
        return end(journey, &End::Return).await;
    }
    let error = FinalError {
        kind: FinalKind::UpstreamFailed,
        class: class.unwrap_or(Class::NetworkError),
        retry_at: None,
        should_retry: true,
    };
    end(journey, &End::Error(error)).await
}

/// The client's own upload failed on its way: that is all it is told.
pub(crate) fn upload_failed(journey: Box<Journey>, fault: UploadFault) -> Arrival {
    let problem = match fault {
        UploadFault::BrokeOff => Problem::BadRequest { why: "the body broke off".into() },
        UploadFault::TooLong => Problem::TooLarge { limit: journey.plan.upload_limit },
    };
    let mut error = ClientError::new(&problem, journey.asked.dialect, None);
    error.request_id = journey.asked.id.to_string();
    told(journey, error)
}

pub(crate) async fn end(mut journey: Box<Journey>, end: &End) -> Arrival {
    journey.written().await;
    match (end, journey.last.take()) {
        (End::Return, Some(returned)) => back(journey, returned),
        (End::Error(error), _) => ours(journey, error),
        // The cascade returns only after an answer, and answers end elsewhere.
        (End::Return, None) | (End::Answered | End::Abandoned, _) => {
            let error = FinalError {
                kind: FinalKind::LocalFault,
                class: Class::LocalFault,
                retry_at: None,
                should_retry: true,
            };
            ours(journey, &error)
        }
    }
}

fn back(mut journey: Box<Journey>, returned: Returned) -> Arrival {
    let mut headers = headers(&journey, &returned.headers, Some(&returned.route));
    headers.insert(SHOULD_RETRY, HeaderValue::from_static("false"));
    journey.record.answered(returned.status);
    returned.held.iter().for_each(|piece| journey.record.showed(piece));
    let end = match returned.rest {
        None => Ending::Whole(returned.held),
        Some(rest) => Ending::Passing(Box::new(Passing::new(returned.held, rest, REST_WITHIN, None))),
    };
    Arrival { status: returned.status, headers, end }
}

fn ours(journey: Box<Journey>, end: &FinalError) -> Arrival {
    let error = refuse::final_error(&journey, end);
    told(journey, error)
}

fn told(mut journey: Box<Journey>, error: ClientError) -> Arrival {
    let status = StatusCode::from_u16(error.status).unwrap_or(StatusCode::BAD_GATEWAY);
    let mut headers = error_headers(journey.asked.dialect, &error);
    mark(&journey, &mut headers, journey.route.as_ref());
    journey.record.answered(status);
    Arrival { status, headers, end: Ending::Ours(Box::new(error)) }
}

fn headers(journey: &Journey, upstream: &HeaderMap, route: Option<&Route>) -> HeaderMap {
    let mut headers = response_headers(upstream);
    mark(journey, &mut headers, route);
    headers
}

/// Says which way the request went.
fn mark(journey: &Journey, headers: &mut HeaderMap, route: Option<&Route>) {
    if let Ok(id) = HeaderValue::try_from(journey.asked.id.to_string()) {
        headers.insert(REQUEST_ID, id);
    }
    if journey.asked.is_estimated {
        headers.insert(ESTIMATE, HeaderValue::from_static("true"));
    }
    headers.insert(ATTEMPTS, HeaderValue::from(journey.attempts()));
    let Some(Route { outlet, held, model, .. }) = route else { return };
    headers.insert(PROVIDER, outlet.id_header.clone());
    if let Ok(model) = HeaderValue::from_str(model.as_str())
        && !model.is_empty()
    {
        headers.insert(MODEL, model);
    }
    headers.insert(KEY, held.label_header.clone());
}

pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-backstop-request-id");
const ATTEMPTS: HeaderName = HeaderName::from_static("x-backstop-attempts");
const PROVIDER: HeaderName = HeaderName::from_static("x-backstop-provider");
const MODEL: HeaderName = HeaderName::from_static("x-backstop-model");
const KEY: HeaderName = HeaderName::from_static("x-backstop-key");
const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");
/// How long the rest of a long error answer may fall silent.
const REST_WITHIN: Duration = Duration::from_secs(30);
