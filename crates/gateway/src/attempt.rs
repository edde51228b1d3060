//! One upstream call: sending it, and finding out what its answer is worth before the client sees any of it.
//!
//! An error answer is read as far as evidence needs. A complete answer is held until it is whole, so that one that
//! breaks off can still be had elsewhere; only what is too long to hold begins to pass through. A stream is held until
//! its first content: up to there a failure, also one told inside a success, moves on as if nothing had begun.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use backstop_dialect::{AnswerKind, EventKind, Framing, Operation, StreamReader, examine};
use backstop_store::Secret;
use backstop_triage::{
    Basis, Class, Evidence, Fault, Kind, Scope, Verdict,
    cascade::{Attempt, Outcome, Progress},
};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header, response};
use tokio::time::{Instant, timeout_at};

use crate::{
    drive::{Journey, Returned, Route},
    evidence::{joined, text_of},
    mask, objects, told, unpack,
    upstream::{Answer, Broken, Cut, Exchange, Freshness, Reach, Trouble, UploadFault},
};

/// What became of an attempt.
pub(crate) enum Step {
    /// It failed, and that is reported.
    Again,
    /// A complete answer.
    Whole(Whole),
    /// The beginning of a long answer.
    Passing(Begun),
    /// A stream with its first content.
    Stream(Box<Opened>),
    /// The client's upload failed.
    Upload(UploadFault),
}

/// A complete answer.
pub(crate) struct Whole {
    pub(crate) head: response::Parts,
    pub(crate) pieces: VecDeque<Bytes>,
}

/// The beginning of a long answer.
pub(crate) struct Begun {
    pub(crate) head: response::Parts,
    pub(crate) held: VecDeque<Bytes>,
    pub(crate) answer: Answer,
}

/// A stream with its first content.
pub(crate) struct Opened {
    pub(crate) head: response::Parts,
    pub(crate) held: Held,
    pub(crate) answer: Answer,
    pub(crate) reader: StreamReader,
    pub(crate) framing: Framing,
}

impl Journey {
    /// Makes the call that the cascade ordered. Whatever fails is reported before this returns.
    pub(crate) async fn attempt(&mut self, attempt: &Attempt) -> Step {
        let outlet = self.plan.outlet(attempt.provider.as_str());
        let found = outlet.and_then(|outlet| Some((outlet, outlet.keys.get(&attempt.key)?)));
        let Some((outlet, held)) = found else {
            // Removed while the request was under way, or added after it began.
            return self.lost(Scope::Key, "this key is not configured any more");
        };
        let (outlet, held) = (Arc::clone(outlet), Arc::clone(held));
        let route = Route { outlet, key: attempt.key, held, model: attempt.model.clone() };
        self.route = Some(route.clone());
        self.record.began(attempt);
        self.last = None;
        let Ok(request) = self.asked.call(&route.outlet, &route.held, attempt.model.as_str()) else {
            return self.lost(Scope::Provider, "the path cannot be joined with the provider's base URL");
        };
        let by = self.shared.clock.instant(attempt.first_content_by);
        // An upload can be sent once: not into a connection that may have died while idle.
        let is_delicate = attempt.fresh_connection || self.asked.is_upload();
        let freshness = if is_delicate { Freshness::Fresh } else { Freshness::Pooled };
        match route.outlet.upstream.send(request, freshness, by).await {
            Err(broken) => self.broken(&broken),
            Ok(exchange) => {
                self.read_windows(&exchange.head);
                if exchange.head.status.is_success() {
                    self.succeeded(exchange, attempt, by).await
                } else {
                    self.refused(exchange, route, by).await
                }
            }
        }
    }

    fn lost(&mut self, scope: Scope, what: &str) -> Step {
        self.record.detail(what);
        let verdict = Verdict::new(Class::ConfigurationError, scope, "not_configured", Basis::Structure);
        self.failed_as(verdict, &Evidence::default(), Progress::NotSent, None);
        Step::Again
    }

    fn broken(&mut self, broken: &Broken) -> Step {
        self.record.detail(&broken.detail);
        let progress = match broken.reach {
            Reach::NotSent => Progress::NotSent,
            Reach::Stale => Progress::StaleConnection,
            Reach::MaybeAccepted => Progress::MaybeAccepted,
        };
        match broken.trouble {
            Trouble::Fault(fault) => self.failed(&self.evidence_of(fault, 0), progress, None),
            Trouble::ForbiddenAddress => {
                let reason = "address_not_allowed";
                let verdict =
                    Verdict::new(Class::ConfigurationError, Scope::Provider, reason, Basis::Structure);
                self.failed_as(verdict, &Evidence::default(), progress, None);
            }
            Trouble::Upload(fault) => {
                // Nobody but the client is at fault.
                self.report(Outcome::Abandoned);
                return Step::Upload(fault);
            }
        }
        Step::Again
    }

    /// An error answer: as much of it as evidence needs, the rest in case it goes back.
    async fn refused(&mut self, exchange: Exchange, route: Route, by: Instant) -> Step {
        let Exchange { mut head, mut body } = exchange;
        let status = head.status.as_u16();
        let by = by.min(Instant::now() + error_body_within(status, &head.headers));
        let (mut held, collected) = collect(&mut body, Evidence::TEXT_CAP, by).await;
        let mut is_part = matches!(collected, Collected::More | Collected::Late);
        let plain = unpack::plain(&head.headers, &joined(&held), Evidence::TEXT_CAP);
        if let Some(secret) = self.secret() {
            if let Some(plain) = plain.as_ref().filter(|plain| mask::is_in(plain, secret)) {
                // Nothing can be taken out of what is packed.
                held = VecDeque::from([Bytes::copy_from_slice(plain)]);
                head.headers.remove(header::CONTENT_ENCODING);
                is_part = false;
            }
            held = mask::pieces(held, secret);
            mask::headers(&mut head.headers, secret);
        }
        let text = plain.map_or_else(|| text_of(&held), |plain| String::from_utf8_lossy(&plain).into_owned());
        let evidence = self.evidence(Kind::Http { status }, &head.headers, text);
        self.record.upstream_id(&head.headers);
        if let Some(counted) = self.count_here(status, &evidence) {
            return Step::Whole(counted);
        }
        let progress = match status {
            502 | 504 | 520..=529 if status != 529 => Progress::MaybeAccepted,
            _ => Progress::Rejected,
        };
        // What follows is read only if the answer goes back.
        let rest = is_part.then_some(body);
        self.last = Some(Returned { status: head.status, headers: head.headers, held, rest, route });
        self.failed(&evidence, progress, Some(status));
        Step::Again
    }

    async fn succeeded(&mut self, exchange: Exchange, attempt: &Attempt, by: Instant) -> Step {
        self.record.upstream_id(&exchange.head.headers);
        let content_type =
            exchange.head.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let is_events = content_type.is_some_and(|text| text.trim_start().starts_with("text/event-stream"));
        let framing = Framing::of(self.asked.dialect, content_type);
        let is_stream = is_events || (self.asked.streaming && framing == Framing::JsonArray);
        if is_stream && self.asked.operation == Operation::Generate {
            self.open(exchange, framing, attempt, by).await
        } else {
            self.gather(exchange, by).await
        }
    }

    /// Holds an answer until it is whole or too long to hold.
    async fn gather(&mut self, exchange: Exchange, by: Instant) -> Step {
        let Exchange { head, mut body } = exchange;
        let (held, collected) = collect(&mut body, HELD_ANSWER, by).await;
        match collected {
            Collected::All => self.judge(Whole { head, pieces: held }),
            Collected::More => {
                self.committed();
                Step::Passing(Begun { head, held, answer: body })
            }
            Collected::Late => {
                self.cut_short(Fault::ReadTimeout, "the answer did not come to its end in time", &held)
            }
            Collected::Cut(cut) => self.cut_short(cut.fault, &cut.detail, &held),
        }
    }

    /// Looks whether a complete success is one.
    fn judge(&mut self, whole: Whole) -> Step {
        let status = whole.head.status.as_u16();
        let is_generation = self.asked.operation == Operation::Generate;
        let packed = joined(&whole.pieces);
        let plain = unpack::plain(&whole.head.headers, &packed, UNPACKED_ANSWER).map(Bytes::from);
        let body = plain.clone().unwrap_or(packed);
        if !is_generation {
            let rules = self.route.as_ref().map(|route| route.outlet.config.rules.clone());
            let catalog = self.shared.catalog.load_full();
            if rules.is_some_and(|rules| catalog.success_looks_failed(&rules, status, &body)) {
                return self.failed_within(whole.saying(plain), &body);
            }
            objects::made(self, &body);
            self.completed();
            return Step::Whole(self.without_key(whole, plain));
        }
        let answer = examine(self.asked.dialect, &body);
        self.counted(answer.usage);
        match answer.kind {
            AnswerKind::Content => {
                objects::made(self, &body);
                self.completed();
                Step::Whole(self.without_key(whole, plain))
            }
            AnswerKind::Error | AnswerKind::Unreadable => self.failed_within(whole.saying(plain), &body),
            AnswerKind::Empty => {
                let evidence = self.evidence(Kind::Http { status }, &whole.head.headers, String::new());
                self.failed_as(empty_answer(), &evidence, Progress::Started, Some(status));
                Step::Again
            }
        }
    }

    /// A failure under a success status.
    fn failed_within(&mut self, whole: Whole, body: &[u8]) -> Step {
        let status = whole.head.status.as_u16();
        let text = String::from_utf8_lossy(&body[..body.len().min(Evidence::TEXT_CAP)]).into_owned();
        let evidence = self.evidence(Kind::Http { status }, &whole.head.headers, text);
        self.keep(StatusCode::BAD_REQUEST, whole.head.headers, whole.pieces);
        self.failed(&evidence, Progress::Started, Some(status));
        Step::Again
    }

    /// Holds a stream until its first content.
    async fn open(&mut self, exchange: Exchange, framing: Framing, attempt: &Attempt, by: Instant) -> Step {
        let Exchange { head, body } = exchange;
        let reader = StreamReader::new(self.asked.dialect, framing);
        let mut opened = Box::new(Opened { head, held: Held::default(), answer: body, reader, framing });
        loop {
            match opened.look() {
                Look::More => {}
                Look::Content => return self.show(opened),
                Look::Failed => return self.failed_in_stream(&opened),
            }
            let silent_at = Instant::now() + attempt.idle_timeout;
            let show_at = opened.held.began.map_or(by, |began| began + HOLD_PREAMBLE);
            match timeout_at(by.min(silent_at).min(show_at), opened.answer.bytes()).await {
                Ok(Some(Ok(chunk))) => opened.reader.push(chunk),
                Ok(Some(Err(cut))) => return self.cut_short(cut.fault, &cut.detail, &opened.held.pieces),
                Ok(None) => return self.ended_early(opened),
                Err(_) if Instant::now() >= by => {
                    return self.cut_short(Fault::ReadTimeout, "no content in time", &opened.held.pieces);
                }
                Err(_) if Instant::now() >= show_at => return self.show(opened),
                Err(_) => {
                    return self.cut_short(Fault::IdleTimeout, "the stream fell silent", &opened.held.pieces);
                }
            }
        }
    }

    /// What is held goes to the client: from here on nothing is repeated.
    fn show(&mut self, opened: Box<Opened>) -> Step {
        self.committed();
        Step::Stream(opened)
    }

    /// The stream is over and has shown nothing yet.
    fn ended_early(&mut self, mut opened: Box<Opened>) -> Step {
        opened.reader.finish();
        match opened.look() {
            Look::Content if opened.reader.has_ended() => self.show(opened),
            Look::Failed => self.failed_in_stream(&opened),
            Look::More if opened.reader.has_ended() || opened.held.pieces.is_empty() => {
                self.nothing_came(&opened.head)
            }
            // Nobody has seen any of it, so the whole answer can be had elsewhere.
            Look::Content | Look::More => {
                self.cut_short(Fault::IncompleteBody, "the stream ended early", &opened.held.pieces)
            }
        }
    }

    fn failed_in_stream(&mut self, opened: &Opened) -> Step {
        let Opened { head, reader, .. } = opened;
        let status = head.status.as_u16();
        let Some(error) = reader.error() else { return self.nothing_came(head) };
        let text = String::from_utf8_lossy(error).into_owned();
        let evidence = self.evidence(Kind::Stream { status }, &head.headers, text);
        let mut headers = head.headers.clone();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let (named, body) = told::as_answer(self.asked.dialect, error);
        self.keep(named.unwrap_or(StatusCode::BAD_REQUEST), headers, VecDeque::from([body]));
        self.failed(&evidence, Progress::Started, Some(status));
        Step::Again
    }

    /// The same answer without the key, should the provider repeat it in a success.
    fn without_key(&self, whole: Whole, plain: Option<Bytes>) -> Whole {
        let Some(secret) = self.secret() else { return whole };
        let plain = plain.filter(|plain| mask::is_in(plain, secret));
        let mut whole = whole.saying(plain);
        whole.pieces = mask::pieces(whole.pieces, secret);
        mask::headers(&mut whole.head.headers, secret);
        whole
    }

    /// Keeps an error that was told under a success status, in case it goes back; it then needs an error's status.
    fn keep(&mut self, status: StatusCode, mut headers: HeaderMap, mut held: VecDeque<Bytes>) {
        let Some(route) = self.route.clone() else { return };
        if let Some(secret) = self.secret() {
            held = mask::pieces(held, secret);
            mask::headers(&mut headers, secret);
        }
        self.last = Some(Returned { status, headers, held, rest: None, route });
    }

    /// The key of the latest attempt.
    pub(crate) fn secret(&self) -> Option<&Secret> {
        self.route.as_ref().map(|route| &route.held.secret)
    }

    fn nothing_came(&mut self, head: &response::Parts) -> Step {
        let status = head.status.as_u16();
        let evidence = self.evidence(Kind::Stream { status }, &head.headers, String::new());
        self.failed_as(empty_answer(), &evidence, Progress::Started, Some(status));
        Step::Again
    }

    fn cut_short(&mut self, fault: Fault, detail: &str, held: &VecDeque<Bytes>) -> Step {
        self.record.detail(detail);
        let bytes: usize = held.iter().map(Bytes::len).sum();
        let evidence = self.evidence_of(fault, bytes as u64);
        self.failed(&evidence, Progress::Started, None);
        Step::Again
    }
}

impl Whole {
    /// The answer unpacked, if it came packed.
    fn saying(mut self, plain: Option<Bytes>) -> Self {
        if let Some(plain) = plain {
            self.head.headers.remove(header::CONTENT_ENCODING);
            self.pieces = VecDeque::from([plain]);
        }
        self
    }
}

/// What a stream has shown so far of itself.
#[derive(Default)]
pub(crate) struct Held {
    pub(crate) pieces: VecDeque<Bytes>,
    length: usize,
    /// When its preamble began.
    began: Option<Instant>,
}

enum Look {
    More,
    Content,
    Failed,
}

impl Opened {
    /// Takes in what the reader has let go, up to the first content.
    fn look(&mut self) -> Look {
        while let Some(passage) = self.reader.pop() {
            match passage.kind {
                EventKind::Error | EventKind::Terminal { finish: false } => return Look::Failed,
                EventKind::Content | EventKind::Terminal { finish: true } => {
                    self.held.pieces.push_back(passage.bytes);
                    return Look::Content;
                }
                EventKind::Comment | EventKind::Ping => self.held.hold(passage.bytes),
                EventKind::Preamble | EventKind::Usage | EventKind::Other => {
                    self.held.began.get_or_insert_with(Instant::now);
                    self.held.hold(passage.bytes);
                }
            }
        }
        if self.held.length > HELD_PREAMBLE { Look::Content } else { Look::More }
    }
}

impl Held {
    fn hold(&mut self, bytes: Bytes) {
        self.length += bytes.len();
        self.pieces.push_back(bytes);
    }
}

enum Collected {
    All,
    More,
    Late,
    Cut(Cut),
}

/// Reads a body until it is whole, or longer than `cap`, or the time is over.
async fn collect(body: &mut Answer, cap: usize, by: Instant) -> (VecDeque<Bytes>, Collected) {
    let mut held = VecDeque::new();
    let mut length = 0;
    loop {
        if length > cap {
            return (held, Collected::More);
        }
        if body.is_at_end() {
            body.finish();
            return (held, Collected::All);
        }
        match timeout_at(by, body.bytes()).await {
            Ok(Some(Ok(bytes))) => {
                length += bytes.len();
                held.push_back(bytes);
            }
            Ok(Some(Err(cut))) => return (held, Collected::Cut(cut)),
            Ok(None) => return (held, Collected::All),
            Err(_) => return (held, Collected::Late),
        }
    }
}

/// How long the body of an error may take: where status and headers say it all, the next key does not wait for words.
fn error_body_within(status: u16, headers: &HeaderMap) -> Duration {
    let is_told = status >= 500 || (status == 429 && headers.contains_key(header::RETRY_AFTER));
    if is_told { TOLD_BODY_WITHIN } else { ERROR_BODY_WITHIN }
}

fn empty_answer() -> Verdict {
    Verdict::new(Class::ServerError, Scope::Provider, "empty_answer", Basis::Structure)
}

/// The longest answer that is held until it is whole.
const HELD_ANSWER: usize = 1 << 20;
/// The longest preamble of a stream that is held back, and for how long.
const HELD_PREAMBLE: usize = 64 * 1024;
const HOLD_PREAMBLE: Duration = Duration::from_secs(10);
/// How much of a packed answer is unpacked to see whether it is one.
const UNPACKED_ANSWER: usize = 8 << 20;
const ERROR_BODY_WITHIN: Duration = Duration::from_secs(10);
const TOLD_BODY_WITHIN: Duration = Duration::from_secs(2);
