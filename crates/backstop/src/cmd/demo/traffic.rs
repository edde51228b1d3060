//! The demo's clients: what they ask, in each API shape, and what they make of the answer.
//!
//! A client is strict. An answer counts only if it is whole, in its own shape, and says exactly what the upstream
//! said; a stream that was cut counts as told honestly only if an error event stands at its end and no terminal event
//! does.

use std::fmt;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use backstop_faultd::{AnswerHead, Client, Shape, Trouble};
use serde_json::{Value, json};
use tokio::time::timeout;

/// One request of the demo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ask {
    pub(super) shape: Shape,
    pub(super) streaming: bool,
    pub(super) wish: Wish,
    /// Whether the model names the provider, on the unified routes.
    unified: bool,
}

/// What a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    /// An answer.
    Answer,
    /// An error that is the request's own fault.
    OwnFault,
    /// The beginning of an answer and the truth about its end.
    CutLate,
}

/// What a client saw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) outcome: Outcome,
    /// Upstream calls, as the gateway tells them.
    pub(super) attempts: u32,
    pub(super) took: Duration,
}

/// Whether a client saw what it should.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// A whole answer.
    Answered,
    /// The upstream's word about a malformed request, unchanged.
    Returned,
    /// The beginning of an answer and an honest error.
    ToldOfCut,
    /// Anything else.
    Wrong(String),
}

/// A stream or a body, reduced to what a client acts on.
#[derive(Debug, Default, PartialEq, Eq)]
struct Gist {
    text: String,
    finished: bool,
    error: bool,
}

impl Ask {
    /// The request of this number: the shapes in turn, streamed and not, now and then a special one.
    pub(super) fn numbered(number: u64) -> Self {
        let shape = match number % 4 {
            0 => Shape::Chat,
            1 => Shape::Messages,
            2 => Shape::Responses,
            _ => Shape::Gemini,
        };
        let wish = match number % SPECIAL_EVERY {
            11 => Wish::OwnFault,
            22 => Wish::CutLate,
            _ => Wish::Answer,
        };
        let streaming = wish == Wish::CutLate || (number / 4).is_multiple_of(2);
        Self { shape, streaming, wish, unified: shape != Shape::Gemini && number / 8 % 2 == 1 }
    }

    /// The request as bytes.
    pub(super) fn request(self, gateway: SocketAddr, client_key: &str) -> Vec<u8> {
        let Self { shape, streaming, wish, unified } = self;
        let provider = provider(shape);
        let model = wish.model();
        let named = if unified { format!("{provider}/{model}") } else { model.to_string() };
        let front = if unified { String::new() } else { format!("/proxy/{provider}") };
        let said = json!([{ "role": "user", "content": "Are you there?" }]);
        let (path, auth, body) = match shape {
            Shape::Chat => {
                let body = json!({ "model": named, "stream": streaming, "messages": said });
                ("/v1/chat/completions".to_string(), "authorization: Bearer ", body)
            }
            Shape::Responses => {
                let body = json!({ "model": named, "stream": streaming, "input": said });
                ("/v1/responses".to_string(), "authorization: Bearer ", body)
            }
            Shape::Messages => {
                let body = json!({ "model": named, "stream": streaming, "max_tokens": 64, "messages": said });
                ("/v1/messages".to_string(), "x-api-key: ", body)
            }
            Shape::Gemini => {
                let verb = if streaming { "streamGenerateContent?alt=sse" } else { "generateContent" };
                let body =
                    json!({ "contents": [{ "role": "user", "parts": [{ "text": "Are you there?" }] }] });
                (format!("/v1beta/models/{named}:{verb}"), "x-goog-api-key: ", body)
            }
        };
        let body = body.to_string();
        format!(
            "POST {front}{path} HTTP/1.1\r\nhost: {gateway}\r\n{auth}{client_key}\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        )
        .into_bytes()
    }

    /// Asks, reads to the end, and judges; `answer` is what the upstream says when all is well.
    pub(super) async fn ask(self, client: &mut Client, request: &[u8], answer: &str) -> Seen {
        let started = Instant::now();
        let Ok((head, body, trouble)) = timeout(PATIENCE, read(client, request)).await else {
            client.hang_up();
            let outcome = Outcome::Wrong(format!("nothing, or no end, within {PATIENCE:?}"));
            return Seen { outcome, attempts: 0, took: started.elapsed() };
        };
        let attempts =
            head.as_ref().and_then(|head| head.header("x-backstop-attempts")?.parse().ok()).unwrap_or(0);
        let outcome = self.judge(head.as_ref(), &body, trouble.as_ref(), answer);
        Seen { outcome, attempts, took: started.elapsed() }
    }

    fn judge(
        self,
        head: Option<&AnswerHead>,
        body: &[u8],
        trouble: Option<&Trouble>,
        answer: &str,
    ) -> Outcome {
        let words = || String::from_utf8_lossy(body).trim().chars().take(WORDS_SHOWN).collect::<String>();
        let Some(head) = head else {
            return Outcome::Wrong(trouble.map_or_else(|| "no answer".to_string(), Trouble::to_string));
        };
        if self.wish == Wish::OwnFault {
            return match (head.status, trouble) {
                (400, None) if head.header("x-backstop-error").is_none() => Outcome::Returned,
                (status, _) => Outcome::Wrong(format!("a malformed request got {status}: {}", words())),
            };
        }
        if head.status != 200 {
            return Outcome::Wrong(format!("{}: {}", head.status, words()));
        }
        let gist =
            if self.streaming { Gist::of_stream(self.shape, body) } else { Gist::of_body(self.shape, body) };
        match self.wish {
            Wish::CutLate if gist.error && !gist.finished && begins(answer, &gist.text) => Outcome::ToldOfCut,
            Wish::CutLate => Outcome::Wrong(format!("a cut stream was not told as one: {gist:?}")),
            Wish::Answer | Wish::OwnFault => match trouble {
                Some(trouble) => Outcome::Wrong(format!("an answer broke: {trouble}")),
                None if gist.finished && !gist.error && gist.text == answer => Outcome::Answered,
                None => Outcome::Wrong(format!("no whole answer: {gist:?}")),
            },
        }
    }
}

impl fmt::Display for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = if self.streaming { "a stream" } else { "an answer" };
        let model = self.wish.model();
        write!(f, "{how} of {} {model}", provider(self.shape))
    }
}

impl Wish {
    /// The model by which the script knows it.
    pub(super) fn model(self) -> &'static str {
        match self {
            Self::Answer => "steady",
            Self::OwnFault => "malformed",
            Self::CutLate => "late-cut",
        }
    }
}

impl Gist {
    fn of_body(shape: Shape, body: &[u8]) -> Self {
        let Ok(body) = serde_json::from_slice::<Value>(body) else { return Self::default() };
        let (text, finished) = match shape {
            Shape::Chat => ("/choices/0/message/content", "/choices/0/finish_reason"),
            Shape::Responses => ("/output/0/content/0/text", "/usage"),
            Shape::Messages => ("/content/0/text", "/stop_reason"),
            Shape::Gemini => ("/candidates/0/content/parts/0/text", "/candidates/0/finishReason"),
        };
        let text = body.pointer(text).and_then(Value::as_str).unwrap_or_default().to_string();
        let finished = body.pointer(finished).is_some_and(|value| !value.is_null());
        Self { text, finished, error: body.get("error").is_some_and(|error| !error.is_null()) }
    }

    fn of_stream(shape: Shape, body: &[u8]) -> Self {
        let mut gist = Self::default();
        for line in String::from_utf8_lossy(body).lines() {
            let Some(data) = line.strip_prefix("data: ") else { continue };
            if data == "[DONE]" {
                gist.finished = true;
                continue;
            }
            let event: Value = serde_json::from_str(data).unwrap_or_default();
            gist.add(shape, &event);
        }
        gist
    }

    fn add(&mut self, shape: Shape, event: &Value) {
        let kind = event.get("type").and_then(Value::as_str).unwrap_or_default();
        let (text, finished, error) = match shape {
            Shape::Chat => ("/choices/0/delta/content", false, event.get("error").is_some()),
            Shape::Responses => {
                ("/delta", kind == "response.completed", kind == "response.failed" || kind == "error")
            }
            Shape::Messages => ("/delta/text", kind == "message_stop", kind == "error"),
            Shape::Gemini => {
                let finished = event.pointer("/candidates/0/finishReason").is_some();
                ("/candidates/0/content/parts/0/text", finished, event.get("error").is_some())
            }
        };
        self.text.push_str(event.pointer(text).and_then(Value::as_str).unwrap_or_default());
        self.finished |= finished;
        self.error |= error;
    }
}

/// The provider of the demo that speaks a shape.
pub(super) fn provider(shape: Shape) -> &'static str {
    match shape {
        Shape::Chat => "elm",
        Shape::Messages => "oak",
        Shape::Responses => "ash",
        Shape::Gemini => "fir",
    }
}

async fn read(client: &mut Client, request: &[u8]) -> (Option<AnswerHead>, Vec<u8>, Option<Trouble>) {
    let head = match client.send(request).await {
        Ok(()) => client.head().await,
        Err(trouble) => Err(trouble),
    };
    let head = match head {
        Ok(head) => head,
        Err(trouble) => {
            client.hang_up();
            return (None, Vec::new(), Some(trouble));
        }
    };
    let mut body = Vec::new();
    loop {
        match client.piece().await {
            Ok(Some(piece)) => body.extend_from_slice(&piece),
            Ok(None) => return (Some(head), body, None),
            Err(trouble) => {
                client.hang_up();
                return (Some(head), body, Some(trouble));
            }
        }
    }
}

/// Whether `text` is a beginning of `answer`, and not all of it.
fn begins(answer: &str, text: &str) -> bool {
    !text.is_empty() && text.len() < answer.len() && answer.starts_with(text)
}

/// Of so many requests, one is malformed and one is cut.
const SPECIAL_EVERY: u64 = 37;

/// How long a client waits for the end of an answer.
const PATIENCE: Duration = Duration::from_secs(20);

const WORDS_SHOWN: usize = 1600;

#[cfg(test)]
mod tests {
    use backstop_faultd::{Faultd, How, Point, Reply, Script};

    use super::*;

    const WORDS: &str = "All the words there are.";

    const SHAPES: [Shape; 4] = [Shape::Chat, Shape::Responses, Shape::Messages, Shape::Gemini];

    /// What clients of all shapes make of a reply, straight from the provider.
    async fn outcomes(wish: Wish, streaming: bool, reply: Reply) -> Vec<Outcome> {
        let provider = Faultd::start(Script::new().otherwise(reply)).await.unwrap();
        let mut outcomes = Vec::new();
        for shape in SHAPES {
            let ask = Ask { shape, streaming, wish, unified: false };
            let request = ask.request(provider.addr(), "k");
            let mut client = Client::new(provider.addr());
            outcomes.push(ask.ask(&mut client, &request, WORDS).await.outcome);
        }
        outcomes
    }

    fn good() -> Reply {
        Reply::text(WORDS).pieces(4, 0)
    }

    fn all_wrong(outcomes: &[Outcome]) -> bool {
        outcomes.iter().all(|outcome| matches!(outcome, Outcome::Wrong(_)))
    }

    #[tokio::test]
    async fn whole_answers_count_in_every_shape() {
        for streaming in [false, true] {
            let outcomes = outcomes(Wish::Answer, streaming, good()).await;
            assert_eq!(outcomes, vec![Outcome::Answered; 4], "streaming: {streaming}");
        }
    }

    #[tokio::test]
    async fn an_answer_that_lacks_anything_is_wrong() {
        for reply in [
            Reply::text("Other words."),
            good().cut(Point::Closing, How::End),
            good().cut(Point::Content(2), How::Close),
            good().error_event(Point::Content(4), "server_error", "boom"),
            Reply::status(503),
        ] {
            assert!(all_wrong(&outcomes(Wish::Answer, true, reply).await));
        }
    }

    #[tokio::test]
    async fn a_cut_stream_must_say_so() {
        let told = good().error_event(Point::Content(2), "server_error", "boom");
        assert_eq!(outcomes(Wish::CutLate, true, told).await, vec![Outcome::ToldOfCut; 4]);
        for reply in
            [good(), good().cut(Point::Content(2), How::End), good().cut(Point::Content(2), How::Close)]
        {
            assert!(all_wrong(&outcomes(Wish::CutLate, true, reply).await));
        }
    }

    #[tokio::test]
    async fn a_malformed_request_must_come_back() {
        let own = outcomes(Wish::OwnFault, false, Reply::status(400)).await;
        assert_eq!(own, vec![Outcome::Returned; 4]);
        assert!(all_wrong(&outcomes(Wish::OwnFault, false, Reply::status(503)).await));
    }
}
