//! Times of trouble: a database that cannot be written, and a long stretch of mixed load with faults.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use backstop_faultd::{Client, Faultd, How, Limit, Point, Reply, Script, model};

use crate::load;
use crate::machine::resident_kib;
use crate::programs::{CLIENT_KEY, Ground, Size, Target, sized_config};
use crate::results::{Results, Sample, percentile};
use crate::rounds::{held_body, small_body};

/// Holds the database's lock against the gateway for a while, under load: what it costs in memory and time, and
/// whether every row of the log was either kept or counted as dropped.
pub(crate) async fn outage(
    ground: &Ground,
    upstream: SocketAddr,
    time: Duration,
    results: &mut Results,
) -> Result<()> {
    let folder = ground.folder.join("gateway-outage");
    let target = ground.gateway_in(&folder, &sized_config(upstream, Size { keys: 10, clients: 1 })).await?;
    let mut calm = load::pace(&target, &small_body(), OUTAGE_RATE, CALM).await?;
    tokio::time::sleep(SETTLE).await;
    let before = memory(&target);
    let database = rusqlite::Connection::open(folder.join(DATABASE))?;
    database.busy_timeout(Duration::from_secs(5))?;
    database.execute_batch("BEGIN IMMEDIATE")?;
    let mut times = load::pace(&target, &small_body(), OUTAGE_RATE, time).await?;
    let grown = memory(&target) - before;
    ensure!(metric(&target, "backstop_store_failing").await? > 0.0, "the store did not notice that it fails");
    database.execute_batch("ROLLBACK")?;
    let asked = calm.len() + times.len();
    let missing = missing_rows(&folder, &target, asked).await?;
    let ratio = percentile(&mut times, 50.0) / percentile(&mut calm, 50.0);
    for (id, value) in [("outage_mib", grown / 1024.0), ("outage_p50", ratio), ("outage_rows", missing)] {
        results.add(id, &target.name, Sample { round: 0, value, foreign: 0.0 });
    }
    Ok(())
}

/// Rows of the log that are neither written nor counted as dropped, once the store works again.
async fn missing_rows(folder: &Path, target: &Target, asked: usize) -> Result<f64> {
    let database = rusqlite::Connection::open(folder.join(DATABASE))?;
    let deadline = Instant::now() + RECOVERY;
    loop {
        let kept: f64 = database.query_row("SELECT COUNT(*) FROM request", [], |row| row.get(0))?;
        let dropped = metric(target, "backstop_store_dropped_total{kind=\"requests\"}").await?;
        let missing = asked as f64 - kept - dropped;
        if missing <= 0.0 || Instant::now() > deadline {
            return Ok(missing);
        }
        tokio::time::sleep(SETTLE / 2).await;
    }
}

/// Small requests, streams that break, clients that leave, and keys that run into their limits, all the time; memory
/// at the end over memory after a tenth of it.
pub(crate) async fn soak(ground: &Ground, time: Duration, results: &mut Results) -> Result<()> {
    let script = Script::new()
        .limit(Limit::per_window(2000, Duration::from_secs(10)).key("sk-bench-000000000000000000000000"))
        .on(model("held"), Reply::answer().pieces(2, 0).cut(Point::Content(1), How::Hang))
        .on(model("cut"), Reply::answer().pieces(2, 0).cut(Point::Content(1), How::Reset))
        .otherwise(Reply::answer().pieces(1, 720))
        .keep_calls(0);
    let upstream = Faultd::start(script).await?;
    let target = ground.gateway_with(&sized_config(upstream.addr(), Size { keys: 10, clients: 1 })).await?;
    let rate = rate(ground, &target).await?;
    let body = small_body();
    let (mut early, mut late, mut visible) = (0.0, 0.0, 0);
    for tenth in 0..10 {
        let (calm, broken) =
            tokio::join!(load::pace(&target, &body, rate, time / 10), trouble(&target, time / 10));
        broken?;
        visible += usize::from(calm.is_err());
        match tenth {
            0 => early = memory(&target),
            _ => late = memory(&target),
        }
    }
    for (id, value) in [("soak_memory", late / early), ("soak_visible", visible as f64)] {
        results.add(id, &target.name, Sample { round: 0, value, foreign: 0.0 });
    }
    Ok(())
}

/// Four fifths of what the target can do.
async fn rate(ground: &Ground, target: &Target) -> Result<u32> {
    let seen = load::saturate(ground, target, &small_body(), (32, Duration::from_secs(3))).await?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some thousands a second")]
    let rate = (seen.per_second * 0.8) as u32;
    Ok(rate.max(1))
}

/// Streams that clients leave, and streams that break.
async fn trouble(target: &Target, time: Duration) -> Result<()> {
    let until = Instant::now() + time;
    let cut = target.request(&held_body().replace("\"held\"", "\"cut\""));
    while Instant::now() < until {
        drop(load::hold(target, &held_body(), 100).await?);
        for _ in 0..20 {
            let mut client = Client::new(target.addr);
            client.send(&cut).await?;
            client.head().await?;
            while let Ok(Some(_)) = client.piece().await {}
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    Ok(())
}

/// One number of the gateway's own figures.
async fn metric(target: &Target, name: &str) -> Result<f64> {
    let request = format!(
        "GET /metrics HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {CLIENT_KEY}\r\nconnection: close\r\n\r\n",
        target.addr
    );
    let (_, body) = Client::new(target.addr).ask(request.as_bytes()).await?;
    let body = String::from_utf8_lossy(&body);
    let line = body.lines().find(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(' ')));
    let value = line.and_then(|line| line.rsplit(' ').next()?.parse().ok());
    value.with_context(|| format!("the gateway tells no {name}"))
}

/// Resident memory in KiB.
fn memory(target: &Target) -> f64 {
    target.process().map_or(0.0, |process| resident_kib(process) as f64)
}

/// Below the data folder's parent.
const DATABASE: &str = "data/backstop.db";

const OUTAGE_RATE: u32 = 1000;

const CALM: Duration = Duration::from_secs(10);

const SETTLE: Duration = Duration::from_secs(2);

const RECOVERY: Duration = Duration::from_secs(20);
