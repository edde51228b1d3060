//! What a failed key costs: what clients see, how often a dead key is asked, and the time to the first byte.
//!
//! Each mode of failure has a provider of its own, with some keys that fail in that way and one that works, in this
//! order. Modes that prove something about the key have many bad keys; modes that look like the provider's fault have one,
//! since a gateway is right to leave a provider after a few of those.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use backstop_faultd::{Client, Faultd, Framing, How, Point, Reply, Script, key};

use crate::programs::{CLIENT_KEY, Ground, Target};
use crate::results::{Results, Sample, percentile};
use crate::rounds::Meter;

/// One way to fail.
struct Mode {
    name: &'static str,
    reply: Reply,
    bad_keys: usize,
    requests: usize,
}

/// What became of one mode.
#[derive(Default)]
struct Outcome {
    failures: usize,
    most_calls_of_a_bad_key: usize,
    slowest: Duration,
    first_wrong: String,
}

/// Plays every mode and gives the table of what came of it.
pub(crate) async fn measure(ground: &Ground, results: &mut Results) -> Result<String> {
    let modes = modes();
    let upstream = Faultd::start(script(&modes)).await?;
    let gateway = ground.gateway_with(&config(&modes, upstream.addr())).await?;
    let mut text = format!(
        "\n{:26} {:>9} {:>9} {:>17} {:>9}\n",
        "one key fails so", "bad keys", "requests", "seen by clients", "asked"
    );
    let (mut visible, mut dead) = (0, 0);
    for mode in &modes {
        let outcome = play(mode, &gateway, &upstream).await?;
        visible += outcome.failures;
        if mode.bad_keys > 1 {
            dead = dead.max(outcome.most_calls_of_a_bad_key);
        }
        let _ = writeln!(
            text,
            "{:26} {:>9} {:>9} {:>17} {:>9}  slowest {:.1?} {}",
            mode.name,
            mode.bad_keys,
            mode.requests,
            outcome.failures,
            outcome.most_calls_of_a_bad_key,
            outcome.slowest,
            outcome.first_wrong
        );
    }
    let sample = |value| Sample { round: 0, value, foreign: 0.0 };
    results.add("visible", &gateway.name, sample(visible as f64));
    results.add("dead_calls", &gateway.name, sample(dead as f64));
    let at_once = at_once(&gateway, &upstream).await?;
    results.add("dead_at_once", &gateway.name, sample(at_once));
    let forged = cut_late(&gateway).await?;
    results.add("forged", &gateway.name, sample(forged as f64));
    let meter = Meter::start(ground, &gateway)?;
    let value = first_byte(&gateway).await?;
    let foreign = meter.read()?.foreign();
    results.add("failover", &gateway.name, Sample { round: 0, value, foreign });
    Ok(text)
}

async fn play(mode: &Mode, gateway: &Target, upstream: &Faultd) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    let mut client = Client::new(gateway.addr);
    for number in 0..mode.requests {
        let streaming = number % 2 == 0;
        let request = request(gateway, mode.name, "m", streaming);
        let started = Instant::now();
        if let Err(wrong) = whole(&mut client, &request, streaming).await {
            outcome.failures += 1;
            if outcome.first_wrong.is_empty() {
                outcome.first_wrong = wrong.to_string();
            }
            client.hang_up();
        }
        outcome.slowest = outcome.slowest.max(started.elapsed());
    }
    for number in 0..mode.bad_keys {
        let calls = upstream.calls_with(&bad_key(mode.name, number)).len();
        outcome.most_calls_of_a_bad_key = outcome.most_calls_of_a_bad_key.max(calls);
    }
    upstream.clear_log();
    Ok(outcome)
}

/// Twenty clients at once in front of a dead key; calls of it, over those that could be under way at the first failure.
async fn at_once(gateway: &Target, upstream: &Faultd) -> Result<f64> {
    let mut asking = tokio::task::JoinSet::new();
    for _ in 0..AT_ONCE {
        let (request, mut client) = (request(gateway, "at-once", "m", false), Client::new(gateway.addr));
        asking.spawn(async move {
            for _ in 0..3 {
                whole(&mut client, &request, false).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(asked) = asking.join_next().await {
        asked??;
    }
    Ok(upstream.calls_with(&bad_key("at-once", 0)).len() as f64 / AT_ONCE as f64)
}

/// Streams that break after content; counts those that a client would take for complete.
async fn cut_late(gateway: &Target) -> Result<usize> {
    let mut forged = 0;
    for model in ["cut-close", "cut-reset", "cut-end"] {
        let mut client = Client::new(gateway.addr);
        client.send(&request(gateway, "late", model, true)).await?;
        client.head().await?;
        let mut body = Vec::new();
        while let Ok(Some(piece)) = client.piece().await {
            body.extend_from_slice(&piece);
        }
        let body = String::from_utf8_lossy(&body);
        let told = body.contains("\"error\"")
            && !body.contains("[DONE]")
            && !body.contains("\"finish_reason\":\"stop\"");
        forged += usize::from(!told);
    }
    Ok(forged)
}

/// The median time to the first byte when the first key has failed, over the median when none does.
async fn first_byte(gateway: &Target) -> Result<f64> {
    let (mut failed, mut healthy) = (Vec::new(), Vec::new());
    let mut client = Client::new(gateway.addr);
    for number in 0..FIRST_BYTE_PROVIDERS {
        let request = request(gateway, &format!("first-{number}"), "m", false);
        for times in [&mut failed, &mut healthy] {
            let started = Instant::now();
            client.send(&request).await?;
            let head = client.head().await?;
            times.push(started.elapsed().as_secs_f64());
            ensure!(head.status == 200, "status {} where a good key was left", head.status);
            while client.piece().await?.is_some() {}
        }
    }
    Ok(percentile(&mut failed, 50.0) / percentile(&mut healthy, 50.0))
}

/// Reads an answer that must be whole.
async fn whole(client: &mut Client, request: &[u8], streaming: bool) -> Result<()> {
    let (head, body) = client.ask(request).await?;
    let body = String::from_utf8_lossy(&body);
    ensure!(head.status == 200, "status {}", head.status);
    ensure!(!body.contains("\"error\""), "an error in the answer");
    let text: String =
        body.split("\"content\":\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    ensure!(text == ANSWER, "other words: {text:?}");
    ensure!(!streaming || body.ends_with("data: [DONE]\n\n"), "no end marker");
    Ok(())
}

fn request(gateway: &Target, provider: &str, model: &str, streaming: bool) -> Vec<u8> {
    let body = format!(
        r#"{{"model":"{model}","stream":{streaming},"messages":[{{"role":"user","content":"hi"}}]}}"#
    );
    let target = Target {
        name: String::new(),
        addr: gateway.addr,
        base: format!("/proxy/{provider}/v1"),
        key: CLIENT_KEY.into(),
        running: None,
    };
    target.request(&body)
}

fn modes() -> Vec<Mode> {
    let answer = || Reply::text(ANSWER).pieces(4, 0);
    let of_the_key = |name, reply| Mode { name, reply, bad_keys: 23, requests: 20 };
    let of_the_provider = |name, reply| Mode { name, reply, bad_keys: 1, requests: 20 };
    vec![
        of_the_key("429-retry-after", Reply::status(429).header("retry-after", "600")),
        of_the_key("401-invalid-key", Reply::status(401)),
        of_the_key("402-no-money", Reply::error(402, "insufficient_balance", "Insufficient Balance")),
        of_the_key(
            "403-suspended",
            Reply::error(403, "account_suspended", "Your account has been suspended."),
        ),
        of_the_provider("500", Reply::status(500)),
        of_the_provider("502-html", Reply::html(502, "<html><h1>502 Bad Gateway</h1></html>")),
        Mode { requests: 3, ..of_the_provider("503-overloaded", Reply::status(503)) },
        of_the_provider("unknown", Reply::empty(418)),
        of_the_provider("reset", Reply::reset()),
        of_the_provider("closed", answer().cut(Point::Request, How::Close)),
        of_the_provider("cut-in-head", answer().cut(Point::Status, How::Close)),
        of_the_provider("cut-before-content", answer().cut(Point::Content(0), How::Reset)),
        of_the_provider("ends-before-content", answer().cut(Point::Content(0), How::End)),
        of_the_provider("silence", Reply::never()),
        of_the_provider("silence-after-head", answer().cut(Point::Headers, How::Hang)),
        of_the_provider(
            "error-first",
            answer().error_event(Point::Events(0), "server_error", "The server had an error."),
        ),
        of_the_provider("error-in-200", Reply::error(200, "server_error", "The server had an error.")),
        of_the_provider("empty-200", Reply::empty(200)),
        of_the_provider("garbage", Reply::raw("\x16\x03\x01\x02garbage\r\n\r\n")),
        of_the_provider("bad-chunks", answer().framing(Framing::BadChunks)),
        of_the_provider("short-body", Reply::json(200, "{\"choices\":[").framing(Framing::WrongLength(100))),
        of_the_provider("endless-headers", answer().filler_headers(u32::MAX)),
    ]
}

fn script(modes: &[Mode]) -> Script {
    let late = |how| Reply::text(ANSWER).pieces(4, 0).cut(Point::Content(2), how);
    let mut script = Script::new().otherwise(Reply::text(ANSWER).pieces(4, 0));
    for mode in modes {
        for number in 0..mode.bad_keys {
            script = script.on(key(bad_key(mode.name, number)), mode.reply.clone());
        }
    }
    script = script.on(key(bad_key("at-once", 0)), Reply::status(401).after(Duration::from_millis(20)));
    for (model, how) in [("cut-close", How::Close), ("cut-reset", How::Reset), ("cut-end", How::End)] {
        script = script.on(backstop_faultd::model(model), late(how));
    }
    let refused = Reply::status(429).header("retry-after", "600");
    (0..FIRST_BYTE_PROVIDERS).fold(script, |script, number| {
        script.on(key(bad_key(&format!("first-{number}"), 0)), refused.clone())
    })
}

fn config(modes: &[Mode], upstream: SocketAddr) -> String {
    let mut text = String::new();
    let mut provider = |name: &str, bad_keys: usize| {
        let _ = write!(
            text,
            "[[provider]]\nid = \"{name}\"\nformat = \"openai-chat\"\nbase_url = \"http://{upstream}/v1\"\nallow_private = true\n\
             rules = \"openai\"\ntimeout_ms = 500\n"
        );
        for number in 0..bad_keys {
            let _ = write!(
                text,
                "[[provider.key]]\nlabel = \"bad {number}\"\nvalue = \"{}\"\n",
                bad_key(name, number)
            );
        }
        let _ = write!(text, "[[provider.key]]\nlabel = \"good\"\nvalue = \"sk-good-{name}\"\n\n");
    };
    modes.iter().for_each(|mode| provider(mode.name, mode.bad_keys));
    provider("at-once", 1);
    provider("late", 0);
    (0..FIRST_BYTE_PROVIDERS).for_each(|number| provider(&format!("first-{number}"), 1));
    text
}

fn bad_key(mode: &str, number: usize) -> String {
    format!("sk-bad-{mode}-{number}")
}

const ANSWER: &str = "All of it, and in order.";

const AT_ONCE: usize = 20;

const FIRST_BYTE_PROVIDERS: usize = 100;
