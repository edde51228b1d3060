//! Every misbehaviour, as its bytes.

use std::io::Read;
use std::time::Duration;

use backstop_faultd::{Ended, Faultd, Framing, Greeting, How, Point, Reply, Script, any, key};
use expect_test::expect;
use tokio::time::Instant;

use crate::client::{CHAT, CHAT_STREAM, Client, End, ask, get, keep, post};

async fn play(reply: Reply) -> Faultd {
    Faultd::start(Script::new().otherwise(reply)).await.unwrap()
}

async fn stream(reply: Reply) -> (String, End) {
    let provider = play(reply).await;
    ask(&provider, post("/v1/chat/completions", CHAT_STREAM)).await
}

/// What of a stream came, without its wording.
fn outline(answer: &str) -> Vec<&str> {
    let marks = [
        ("role", "preamble"),
        ("\"content\":\"piece", "content"),
        ("finish_reason\":\"stop", "closing"),
        ("[DONE]", "terminal"),
        ("\"error\"", "error"),
    ];
    let lines = answer.lines().filter(|line| line.starts_with("data:"));
    lines
        .filter_map(|line| marks.iter().find(|(sign, _)| line.contains(sign)).map(|(_, name)| *name))
        .collect()
}

#[tokio::test]
async fn errors_speak_the_shape_of_the_request() {
    let provider =
        play(Reply::error(429, "rate_limit_exceeded", "Slow \"down\"").header("retry-after", "7")).await;
    let (chat, _) = ask(&provider, post("/v1/chat/completions", CHAT)).await;
    expect![[r#"
        HTTP/1.1 429 Too Many Requests
        content-type: application/json
        retry-after: 7
        content-length: 108
        connection: close

        {"error":{"message":"Slow \"down\"","type":"rate_limit_exceeded","param":null,"code":"rate_limit_exceeded"}}"#]]
    .assert_eq(&chat);
    let last = |answer: String| answer.lines().last().unwrap().to_string();
    let (messages, _) = ask(&provider, post("/v1/messages", CHAT)).await;
    expect![[r#"{"type":"error","error":{"type":"rate_limit_exceeded","message":"Slow \"down\""},"request_id":"req_faultd"}"#]]
        .assert_eq(&last(messages));
    let (gemini, _) = ask(&provider, post("/v1beta/models/g:generateContent", CHAT)).await;
    expect![[r#"{"error":{"code":429,"message":"Slow \"down\"","status":"rate_limit_exceeded"}}"#]]
        .assert_eq(&last(gemini));
}

#[tokio::test]
async fn a_status_alone_gets_the_usual_error() {
    let provider = play(Reply::status(529)).await;
    let (answer, _) = ask(&provider, post("/v1/messages", CHAT)).await;
    assert!(answer.contains(r#""type":"overloaded_error","message":"Overloaded""#), "{answer}");
}

#[tokio::test]
async fn a_stream_is_cut_where_the_script_says() {
    let cases: [(Point, &[&str]); 7] = [
        (Point::Headers, &[]),
        (Point::Events(1), &["preamble"]),
        (Point::Content(0), &["preamble"]),
        (Point::Content(2), &["preamble", "content", "content"]),
        (Point::Closing, &["preamble", "content", "content", "content"]),
        (Point::Terminal, &["preamble", "content", "content", "content", "closing"]),
        (Point::FinalChunk, &["preamble", "content", "content", "content", "closing", "terminal"]),
    ];
    for (point, expected) in cases {
        for (how, end) in [(How::Close, End::Closed), (How::Reset, End::Reset)] {
            let (answer, ended) = stream(Reply::answer().pieces(3, 0).cut(point, how)).await;
            assert_eq!(ended, end, "{point:?}");
            assert!(!answer.ends_with("0\n\n"), "{point:?} {answer}");
            // A reset may overtake what was sent before it.
            if how == How::Close {
                assert_eq!(outline(&answer), expected, "{point:?}");
            }
        }
        let (answer, _) = stream(Reply::answer().pieces(3, 0).cut(point, How::End)).await;
        assert!(answer.ends_with("0\n\n"), "{point:?} {answer}");
        assert_eq!(outline(&answer), expected, "{point:?}");
    }
}

#[tokio::test]
async fn an_answer_is_cut_at_a_byte() {
    let (answer, end) = stream(Reply::json(200, "0123456789").cut(Point::Bytes(4), How::Close)).await;
    assert_eq!(end, End::Closed);
    assert!(answer.contains("content-length: 10\n") && answer.ends_with("\n\n0123"), "{answer}");
}

#[tokio::test]
async fn an_answer_is_cut_inside_a_chunk_size() {
    let (answer, _) = stream(Reply::answer().cut(Point::ChunkSize(0), How::Close)).await;
    assert!(answer.ends_with("\n\nb"), "{answer}");
}

#[tokio::test]
async fn an_answer_is_cut_before_and_after_the_status_line() {
    let (answer, end) = stream(Reply::reset()).await;
    assert_eq!((answer.as_str(), end), ("", End::Reset));
    let (answer, end) = stream(Reply::answer().cut(Point::Request, How::Close)).await;
    assert_eq!((answer.as_str(), end), ("", End::Closed));
    let (answer, _) = stream(Reply::answer().cut(Point::Status, How::Close)).await;
    assert_eq!(answer, "HTTP/1.1 200 OK\n");
}

#[tokio::test]
async fn an_error_event_ends_a_stream_wherever_it_stands() {
    let reply = || Reply::answer().pieces(3, 0);
    let (first, _) = stream(reply().error_event(Point::Events(0), "server_error", "boom")).await;
    assert_eq!(outline(&first), ["error"]);
    let (before, _) = stream(reply().error_event(Point::Content(0), "server_error", "boom")).await;
    assert_eq!(outline(&before), ["preamble", "error"]);
    let (after, _) = stream(reply().error_event(Point::Content(2), "server_error", "boom")).await;
    assert_eq!(outline(&after), ["preamble", "content", "content", "error"]);
    assert!(after.ends_with("0\n\n") && after.starts_with("HTTP/1.1 200"), "{after}");
    let (verbatim, _) =
        stream(reply().error_frame(Point::Content(0), "data: {\"error\":\"x\"}\r\n\r\n")).await;
    assert!(verbatim.contains("data: {\"error\":\"x\"}"), "{verbatim}");
}

#[tokio::test]
async fn error_events_speak_the_shape_of_the_request() {
    let provider =
        play(Reply::answer().error_event(Point::Content(0), "overloaded_error", "Overloaded")).await;
    let events = |answer: &str| {
        let lines: Vec<&str> = answer.lines().filter(|line| line.contains("verloaded")).collect();
        lines.join("\n")
    };
    let (messages, _) = ask(&provider, post("/v1/messages", CHAT_STREAM)).await;
    expect![[r#"data: {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"},"request_id":"req_faultd"}"#]]
        .assert_eq(&events(&messages));
    let (responses, _) = ask(&provider, post("/v1/responses", CHAT_STREAM)).await;
    expect![[r#"data: {"type":"response.failed","sequence_number":4,"response":{"id":"resp_faultd","object":"response","created_at":1750000000,"status":"failed","error":{"code":"overloaded_error","message":"Overloaded"},"incomplete_details":null,"model":"m","output":[],"usage":null,"metadata":{}}}"#]]
        .assert_eq(&events(&responses));
    let path = "/v1beta/models/g:streamGenerateContent?alt=sse";
    let (gemini, _) = ask(&provider, post(path, "{}")).await;
    expect![[r#"data: {"error":{"code":500,"message":"Overloaded","status":"overloaded_error"}}"#]]
        .assert_eq(&events(&gemini));
}

#[tokio::test]
async fn pings_come_before_content() {
    let (answer, _) = stream(Reply::answer().pieces(1, 0).pings(2)).await;
    let at = |needle: &str| answer.find(needle).unwrap();
    assert_eq!(answer.matches(": ping\n").count(), 2);
    assert!(at("role") < at(": ping") && at(": ping") < at("piece 0"), "{answer}");
}

#[tokio::test]
async fn lengths_can_lie() {
    let head = |answer: &str| answer.split("\n\n").next().unwrap().to_string();
    let framed = |framing| Reply::json(200, "0123456789").framing(framing);
    let (more, end) = stream(framed(Framing::WrongLength(5))).await;
    assert!(head(&more).contains("content-length: 15") && more.ends_with("\n\n0123456789"), "{more}");
    assert_eq!(end, End::Closed);
    let (fewer, _) = stream(framed(Framing::WrongLength(-4))).await;
    assert!(head(&fewer).contains("content-length: 6") && fewer.ends_with("\n\n0123456789"), "{fewer}");
    let (twice, _) = stream(framed(Framing::DuplicateLength)).await;
    assert!(head(&twice).contains("content-length: 10\ncontent-length: 11"), "{twice}");
    let (both, _) = stream(framed(Framing::LengthAndChunked)).await;
    assert!(head(&both).contains("content-length: 10\ntransfer-encoding: chunked"), "{both}");
    assert!(both.ends_with("\n\na\n0123456789\n0\n\n"), "{both}");
    let (bad, _) = stream(framed(Framing::BadChunks)).await;
    assert!(bad.ends_with("\n\nsize\n0123456789\n"), "{bad}");
    let (open, end) = stream(framed(Framing::UntilClose)).await;
    assert!(!head(&open).contains("length") && open.ends_with("\n\n0123456789"), "{open}");
    assert_eq!(end, End::Closed);
}

#[tokio::test]
async fn bodies_can_be_anything() {
    let (html, _) = stream(Reply::html(200, "<html>Login</html>")).await;
    assert!(html.contains("text/html") && html.ends_with("<html>Login</html>"), "{html}");
    let (empty, _) = stream(Reply::empty(200)).await;
    assert_eq!(empty, "HTTP/1.1 200 OK\ncontent-length: 0\nconnection: close\n\n");
    let (moved, _) = stream(Reply::redirect(307, "http://127.0.0.1:1/x")).await;
    assert!(
        moved.starts_with("HTTP/1.1 307 Temporary Redirect\nlocation: http://127.0.0.1:1/x\n"),
        "{moved}"
    );
    let (none, _) = stream(Reply::empty(204)).await;
    assert!(none.starts_with("HTTP/1.1 204 No Content\n"), "{none}");
    let (garbage, end) = stream(Reply::raw(&b"\x00\xffSSH-2.0-x\r\n"[..])).await;
    assert_eq!((garbage.as_str(), end), ("\0\u{fffd}SSH-2.0-x\n", End::Closed));
    let (frames, _) = stream(Reply::events(["data: a\n\n", "data: b\r\n\r\n"])).await;
    assert!(frames.contains("\n9\ndata: a\n\n\nb\ndata: b\n\n\n0\n"), "{frames}");
}

#[tokio::test]
async fn a_gzip_bomb_unpacks_to_what_it_promises() {
    for size in [0, 1, 258, 100_003] {
        let provider = play(Reply::gzip_bomb(200, size)).await;
        let mut client = Client::connect(provider.addr()).await;
        client.send(get("/v1/models")).await;
        let head = client.until("\r\n\r\n").await;
        assert!(head.contains("content-encoding: gzip"), "{head}");
        let (body, _) = client.read_all().await;
        let mut unpacked = Vec::new();
        flate2::read::GzDecoder::new(&body[..]).read_to_end(&mut unpacked).unwrap();
        assert!(unpacked.iter().all(|byte| *byte == 0));
        assert_eq!(unpacked.len() as u64, size);
    }
}

#[tokio::test]
async fn heads_can_flood() {
    let (hints, _) = stream(Reply::answer().informational(3)).await;
    assert_eq!(hints.matches("HTTP/1.1 103 Early Hints\n\n").count(), 3);
    let (filler, _) = stream(Reply::answer().filler_headers(500)).await;
    assert!(filler.contains("x-filler-499: ") && filler.contains("[DONE]"), "{filler}");
}

#[tokio::test]
async fn endless_headers_end_when_the_client_leaves() {
    let provider = play(Reply::answer().filler_headers(u32::MAX)).await;
    let mut client = Client::connect(provider.addr()).await;
    client.send(get("/v1/models")).await;
    client.until("x-filler-9999: ").await;
    drop(client);
    assert!(gone(&provider).await);
}

#[tokio::test]
async fn a_client_that_leaves_is_seen_in_every_phase() {
    let hour = Duration::from_secs(3600);
    let cases = [
        (Reply::answer().after(hour), ""),
        (Reply::answer().first_event_after(hour), "\r\n\r\n"),
        (Reply::answer().events_every(hour), "role"),
        (Reply::answer().drip(hour), "H"),
    ];
    for (reply, seen) in cases {
        let provider = play(reply).await;
        let mut client = Client::connect(provider.addr()).await;
        client.send(keep("/v1/chat/completions", "k", CHAT_STREAM)).await;
        provider.until(|calls| calls.first().map(|_| ())).await;
        client.until(seen).await;
        drop(client);
        assert!(gone(&provider).await);
        assert_eq!(provider.counters().client_gone, 1);
    }
}

async fn gone(provider: &Faultd) -> bool {
    provider.until(|calls| calls.iter().find(|call| call.ended != Ended::Open).map(|call| call.ended)).await
        != Ended::Complete
}

#[tokio::test]
async fn a_hang_holds_until_the_client_leaves() {
    for (point, seen) in [(Point::Request, ""), (Point::Headers, "\r\n\r\n"), (Point::Content(1), "piece 0")]
    {
        let provider = play(Reply::answer().cut(point, How::Hang)).await;
        let mut client = Client::connect(provider.addr()).await;
        client.send(keep("/v1/chat/completions", "k", CHAT_STREAM)).await;
        provider.until(|calls| calls.first().map(|_| ())).await;
        client.until(seen).await;
        assert_eq!(provider.counters().open, 1);
        drop(client);
        assert!(gone(&provider).await);
    }
}

#[tokio::test]
async fn a_slow_reader_holds_the_writer_back() {
    let provider = play(Reply::answer().pieces(500, 16 * 1024)).await;
    let mut client = Client::connect(provider.addr()).await;
    client.send(keep("/v1/chat/completions", "k", CHAT_STREAM)).await;
    client.until("piece 0").await;
    assert_eq!(provider.counters().open, 1);
    let rest = client.until("[DONE]").await;
    assert!(rest.contains("piece 499"));
}

#[tokio::test(start_paused = true)]
async fn waits_are_as_long_as_scripted() {
    let second = Duration::from_secs(1);
    let reply = Reply::answer().pieces(3, 0);
    let reply = reply.after(second).first_event_after(10 * second).events_every(100 * second);
    let provider = play(reply).await;
    let started = Instant::now();
    ask(&provider, post("/v1/chat/completions", CHAT_STREAM)).await;
    assert_eq!(started.elapsed().as_secs(), 1 + 10 + 5 * 100);
}

#[tokio::test(start_paused = true)]
async fn a_drip_brings_a_byte_at_a_time() {
    let provider = play(Reply::empty(200).drip(Duration::from_secs(1))).await;
    let started = Instant::now();
    let (answer, _) = ask(&provider, get("/v1/models")).await;
    assert_eq!(answer, "HTTP/1.1 200 OK\ncontent-length: 0\nconnection: close\n\n");
    assert_eq!(started.elapsed().as_secs(), 57);
}

#[tokio::test]
async fn connections_can_be_greeted_badly() {
    let script = Script::new().greet(1..=1, Greeting::Reset).greet(2..=2, Greeting::Close);
    let provider = Faultd::start(script.greet(3..=3, Greeting::Silent)).await.unwrap();
    assert_eq!(Client::connect(provider.addr()).await.read_all().await.1, End::Reset);
    assert_eq!(Client::connect(provider.addr()).await.read_all().await.1, End::Closed);
    let mut silent = Client::connect(provider.addr()).await;
    silent.send(get("/v1/models")).await;
    let (answer, _) = ask(&provider, get("/v1/models")).await;
    assert!(answer.starts_with("HTTP/1.1 200"));
    assert_eq!(provider.counters().calls, 1);
}

#[tokio::test]
async fn dropping_the_provider_ends_its_connections() {
    let provider = play(Reply::never()).await;
    let mut client = Client::connect(provider.addr()).await;
    client.send(keep("/v1/chat/completions", "k", CHAT)).await;
    provider.until(|calls| calls.first().map(|_| ())).await;
    drop(provider);
    client.read_all().await;
}

#[tokio::test]
async fn a_reply_that_breaks_off_is_logged_as_cut() {
    let script = Script::new().on(key("k"), Reply::reset()).on(any(), Reply::status(500));
    let provider = Faultd::start(script).await.unwrap();
    let mut client = Client::connect(provider.addr()).await;
    client.send(keep("/v1/chat/completions", "k", CHAT)).await;
    client.read_all().await;
    ask(&provider, post("/v1/chat/completions", CHAT)).await;
    let ends = provider
        .until(|calls| {
            let ends: Vec<_> = calls.iter().map(|call| (call.status, call.rule, call.ended)).collect();
            (ends.len() == 2 && ends.iter().all(|end| end.2 != Ended::Open)).then_some(ends)
        })
        .await;
    assert_eq!(ends, [(0, Some(0), Ended::Cut), (500, Some(1), Ended::Complete)]);
}
