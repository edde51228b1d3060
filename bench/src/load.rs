//! Load: `wrk` for saturation, our own client where single answers and events matter.

use std::fs;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, ensure};
use backstop_faultd::{Client, hash};
use tokio::process::Command;
use tokio::time::{Instant, sleep_until};

use crate::programs::{Ground, Target};

/// What `wrk` saw.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Saturation {
    pub(crate) requests: f64,
    pub(crate) per_second: f64,
}

/// What streams looked like from the client's side.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    /// From sending the request to the first content, microseconds.
    pub(crate) first: Vec<f64>,
    /// From the upstream's stamp to the client, microseconds; every content event but the first of each stream.
    pub(crate) events: Vec<f64>,
    /// Streams that ended well, with every byte in its place.
    pub(crate) whole: usize,
    pub(crate) broken: usize,
}

/// Saturates a target over kept connections.
pub(crate) async fn saturate(
    ground: &Ground,
    target: &Target,
    body: &str,
    (connections, time): (usize, Duration),
) -> Result<Saturation> {
    let file = ground.folder.join("wrk.lua");
    let script = format!(
        "wrk.method = 'POST'\nwrk.headers['content-type'] = 'application/json'\n\
         wrk.headers['authorization'] = 'Bearer {}'\nwrk.body = [==[{body}]==]\n",
        target.key
    );
    fs::write(&file, script)?;
    let mut command = Command::new("taskset");
    command.args(["-c", &ground.cores.load.to_string(), "wrk", "-t1", &format!("-c{connections}")]);
    command.arg(format!("-d{}s", time.as_secs().max(1))).arg("-s").arg(&file).arg(target.url());
    let output = command.stdin(Stdio::null()).output().await.context("cannot run wrk")?;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(!text.contains("Non-2xx"), "{} failed under load:\n{text}", target.name);
    ensure!(!text.contains("Socket errors"), "{} lost connections under load:\n{text}", target.name);
    let requests = text.lines().find_map(|line| line.trim().split_once(" requests in ")?.0.parse().ok());
    let per_second = text.lines().find_map(|line| line.strip_prefix("Requests/sec:")?.trim().parse().ok());
    let (Some(requests), Some(per_second)) = (requests, per_second) else {
        anyhow::bail!(
            "wrk said nothing about {}: {text}{}",
            target.name,
            String::from_utf8_lossy(&output.stderr)
        )
    };
    Ok(Saturation { requests, per_second })
}

/// Asks at a steady rate and gives the time of each answer, microseconds.
pub(crate) async fn pace(target: &Target, body: &str, rate: u32, time: Duration) -> Result<Vec<f64>> {
    let request: Arc<[u8]> = target.request(body).into();
    let total = u64::from(rate) * time.as_secs().max(1);
    let gap = Duration::from_secs(1) / rate;
    let started = Instant::now() + Duration::from_millis(50);
    let times = Arc::new(Mutex::new(Vec::new()));
    let mut lanes = tokio::task::JoinSet::new();
    for lane in 0..PACE_LANES {
        let (request, times, mut client) =
            (Arc::clone(&request), Arc::clone(&times), Client::new(target.addr));
        lanes.spawn(async move {
            let mut seen = Vec::new();
            for number in (lane..total).step_by(usize::try_from(PACE_LANES)?) {
                sleep_until(started + gap * u32::try_from(number)?).await;
                let sent = Instant::now();
                let (head, _) = client.ask(&request).await?;
                ensure!(head.status == 200, "status {} at a steady rate", head.status);
                seen.push(sent.elapsed().as_secs_f64() * 1e6);
            }
            times.lock().unwrap_or_else(PoisonError::into_inner).extend(seen);
            Ok(())
        });
    }
    while let Some(ended) = lanes.join_next().await {
        ended??;
    }
    let times = std::mem::take(&mut *times.lock().unwrap_or_else(PoisonError::into_inner));
    Ok(times)
}

/// Runs streams of stamped events side by side; `expected` is the [`digest`] of each one's bytes.
pub(crate) async fn stream(
    target: &Target,
    body: &str,
    side_by_side: usize,
    expected: u64,
) -> Result<Streams> {
    let request: Arc<[u8]> = target.request(body).into();
    let mut lanes = tokio::task::JoinSet::new();
    for lane in 0..side_by_side {
        let (request, addr) = (Arc::clone(&request), target.addr);
        lanes.spawn(async move {
            // Spread over the gap between events, as streams of many people are.
            tokio::time::sleep(STREAM_SPREAD * u32::try_from(lane).unwrap_or(0)).await;
            let mut client = Client::new(addr);
            let mut streams = Streams::default();
            match one_stream(&mut client, &request, &mut streams).await {
                Ok(body) if digest(body.clone()) == expected => streams.whole += 1,
                Ok(_) | Err(_) => streams.broken += 1,
            }
            streams
        });
    }
    let mut all = Streams::default();
    while let Some(lane) = lanes.join_next().await {
        let lane = lane?;
        all.first.extend(lane.first);
        all.events.extend(lane.events);
        all.whole += lane.whole;
        all.broken += lane.broken;
    }
    Ok(all)
}

/// Asks for short streams at a calm pace and gives the time to the first content of each, microseconds.
pub(crate) async fn first_contents(target: &Target, body: &str, count: usize) -> Result<Vec<f64>> {
    let request = target.request(body);
    let mut client = Client::new(target.addr);
    let mut streams = Streams::default();
    for _ in 0..count {
        one_stream(&mut client, &request, &mut streams).await?;
        tokio::time::sleep(FIRST_GAP).await;
    }
    Ok(streams.first)
}

/// Reads one stream to its orderly end, noting when each stamped piece came.
async fn one_stream(client: &mut Client, request: &[u8], streams: &mut Streams) -> Result<Vec<u8>> {
    let sent = Instant::now();
    client.send(request).await?;
    let head = client.head().await?;
    ensure!(head.status == 200, "status {}", head.status);
    let (mut body, mut looked, mut pieces) = (Vec::new(), 0, 0_usize);
    while let Some(piece) = client.piece().await? {
        let (came, since) = (nanos_since_1970(), sent.elapsed());
        body.extend_from_slice(&piece);
        while let Some((at, stamp)) = next_stamp(&body, looked) {
            looked = at;
            match pieces {
                0 => streams.first.push(since.as_secs_f64() * 1e6),
                _ => streams.events.push((came - stamp) as f64 / 1e3),
            }
            pieces += 1;
        }
    }
    Ok(body)
}

/// Opens streams that stay open after their first content; they close when the clients are dropped.
pub(crate) async fn hold(target: &Target, body: &str, count: usize) -> Result<Vec<Client>> {
    let request = target.request(body);
    let mut held = Vec::with_capacity(count);
    for _ in 0..count {
        let mut client = Client::new(target.addr);
        client.send(&request).await?;
        held.push(client);
        if held.len() % HOLD_BATCH == 0 || held.len() == count {
            let fresh = held.len().saturating_sub(1) / HOLD_BATCH * HOLD_BATCH;
            await_content(&mut held[fresh..]).await?;
        }
    }
    Ok(held)
}

async fn await_content(clients: &mut [Client]) -> Result<()> {
    for client in clients {
        let head = client.head().await?;
        ensure!(head.status == 200, "status {} while streams were opened", head.status);
        let mut seen = Vec::new();
        while memmem(&seen, b"piece 0").is_none() {
            seen.extend_from_slice(&client.piece().await?.context("a stream ended that should stay open")?);
        }
    }
    Ok(())
}

/// The hash of a stream's bytes, whenever its pieces were sent.
pub(crate) fn digest(mut body: Vec<u8>) -> u64 {
    let mut from = 0;
    while let Some((at, _)) = next_stamp(&body, from) {
        body[at - STAMP_DIGITS..at].fill(b'0');
        from = at;
    }
    hash(&body)
}

/// The bytes of one stream as the upstream itself sends it.
pub(crate) async fn expected_digest(direct: &Target, body: &str) -> Result<u64> {
    let mut client = Client::new(direct.addr);
    let body = one_stream(&mut client, &direct.request(body), &mut Streams::default()).await?;
    Ok(digest(body))
}

/// The end of the next stamp and its nanoseconds: eight digits, `@`, nineteen digits.
fn next_stamp(body: &[u8], from: usize) -> Option<(usize, i64)> {
    let mut from = from;
    loop {
        let at = from + body[from..].iter().position(|byte| *byte == b'@')?;
        let stamp = body.get(at + 1..at + 1 + STAMP_DIGITS)?;
        if let Some(nanos) = std::str::from_utf8(stamp).ok().and_then(|text| text.parse::<i64>().ok()) {
            return Some((at + 1 + STAMP_DIGITS, nanos));
        }
        from = at + 1;
    }
}

fn nanos_since_1970() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

fn memmem(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

const PACE_LANES: u64 = 16;

const STREAM_SPREAD: Duration = Duration::from_micros(390);

const FIRST_GAP: Duration = Duration::from_millis(2);

const STAMP_DIGITS: usize = 19;

const HOLD_BATCH: usize = 100;
