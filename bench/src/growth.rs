//! What grows with the number of keys, of client keys, and of open streams.
//!
//! Two gateways run side by side, a small one and a large one, and are measured in turn, so that the ratio of the two
//! is as steady as a ratio to nginx.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Result;

use crate::load;
use crate::machine::resident_kib;
use crate::programs::{Ground, Size, Target, sized_config};
use crate::results::{Results, Sample};
use crate::rounds::{Effort, Meter, Round, held_body, small_body};

/// Measures growth and adds what it finds.
pub(crate) async fn measure(
    ground: &Ground,
    upstream: SocketAddr,
    effort: Effort,
    results: &mut Results,
) -> Result<()> {
    let small = ground.gateway(upstream, Size { keys: 1, clients: 1 }).await?.0;
    let base = idle_kib(&small, effort).await?;
    {
        let meter = Meter::before_start(ground)?;
        let (target, ready) = ground.gateway(upstream, Size { keys: 1000, clients: 1 }).await?;
        let foreign = meter.read_started(&target)?.foreign();
        results.add("ready", NAME, Sample { round: 0, value: ready.as_secs_f64() * 1e3, foreign });
    }
    {
        let many_keys = ground.gateway(upstream, Size { keys: MANY_KEYS, clients: 1 }).await?.0;
        let grown = idle_kib(&many_keys, effort).await? - base;
        results.add("keys_kib", NAME, sample(0, grown / MANY_KEYS as f64));
        compare(ground, (&small, &many_keys), effort, |sample| results.add("keys_cpu", NAME, sample)).await?;
    }
    {
        let many_clients = ground.gateway(upstream, Size { keys: 1, clients: MANY_CLIENTS }).await?.0;
        compare(ground, (&small, &many_clients), effort, |sample| results.add("clients_cpu", NAME, sample))
            .await?;
    }
    {
        let many_rules = with_rules(ground, upstream).await?;
        compare(ground, (&small, &many_rules), effort, |sample| results.add("rules_cpu", NAME, sample))
            .await?;
    }
    {
        let long_log = with_log(ground, upstream, effort.log_rows).await?;
        compare(ground, (&small, &long_log), effort, |sample| results.add("rows_cpu", NAME, sample)).await?;
    }
    drop(small);
    let few = per_stream(ground, upstream, FEW_STREAMS, effort).await?;
    let many = per_stream(ground, upstream, effort.streams.max(FEW_STREAMS * 4), effort).await?;
    results.add("streams_kib", NAME, sample(0, many / few));
    Ok(())
}

/// CPU per request of the second over that of the first, round by round.
async fn compare(
    ground: &Ground,
    (one, other): (&Target, &Target),
    effort: Effort,
    mut add: impl FnMut(Sample),
) -> Result<()> {
    for number in 0..effort.rounds {
        let round = Round { ground, effort, number, expected: 0 };
        let (mut costs, mut foreign) = ([0.0; 2], 0.0_f64);
        for (cost, target) in costs.iter_mut().zip([one, other]) {
            let meter = round.meter(target)?;
            let time = Duration::from_secs(effort.seconds);
            let seen = load::saturate(ground, target, &small_body(), (32, time)).await?;
            let used = meter.read()?;
            *cost = used.micros() / seen.requests;
            foreign = foreign.max(used.foreign());
        }
        add(Sample { round: number, value: costs[1] / costs[0], foreign });
    }
    Ok(())
}

async fn per_stream(ground: &Ground, upstream: SocketAddr, streams: usize, effort: Effort) -> Result<f64> {
    let target = ground.gateway(upstream, Size { keys: 10, clients: 1 }).await?.0;
    let before = idle_kib(&target, effort).await?;
    let held = load::hold(&target, &held_body(), streams).await?;
    let process = target.process().map_or(0.0, |process| resident_kib(process) as f64);
    drop(held);
    Ok((process - before) / streams as f64)
}

/// A gateway with a pack of a user's own that has a thousand rules.
async fn with_rules(ground: &Ground, upstream: SocketAddr) -> Result<Target> {
    let folder = ground.folder.join("gateway-rules");
    std::fs::create_dir_all(folder.join("rules"))?;
    let rule = |number: usize| {
        format!(
            "[[rule]]\nid = \"bench/{number}\"\nany = [\"failure number {number} of many\", \"another phrase {number}\"]\n\
             class = \"unknown\"\nreason = \"other\"\n"
        )
    };
    let pack: String =
        std::iter::once("provider = \"bench\"\n".to_owned()).chain((0..1000).map(rule)).collect();
    std::fs::write(folder.join("rules/bench.toml"), pack)?;
    ground.gateway_in(&folder, &sized_config(upstream, Size { keys: 1, clients: 1 })).await
}

/// A gateway whose log has many rows, all of them young enough to be kept.
async fn with_log(ground: &Ground, upstream: SocketAddr, rows: u32) -> Result<Target> {
    let folder = ground.folder.join("gateway-log");
    let config = sized_config(upstream, Size { keys: 1, clients: 1 });
    drop(ground.gateway_in(&folder, &config).await?);
    let database = rusqlite::Connection::open(folder.join("data/backstop.db"))?;
    database.pragma_update(None, "synchronous", "OFF")?;
    database.execute(FILL_REQUESTS, [rows])?;
    database.execute(FILL_ATTEMPTS, [])?;
    database.execute(FILL_SEQUENCE, [rows])?;
    drop(database);
    ground.gateway_in(&folder, &config).await
}

/// Memory a while after a hundred calm requests.
async fn idle_kib(target: &Target, effort: Effort) -> Result<f64> {
    load::pace(target, &small_body(), 100, Duration::from_secs(1)).await?;
    tokio::time::sleep(effort.rest).await;
    Ok(target.process().map_or(0.0, |process| resident_kib(process) as f64))
}

/// Memory is the same whoever else uses the core.
fn sample(round: usize, value: f64) -> Sample {
    Sample { round, value, foreign: 0.0 }
}

const NAME: &str = "gateway";

const MANY_KEYS: usize = 10_000;

const MANY_CLIENTS: usize = 100_000;

const FEW_STREAMS: usize = 200;

const FILL_REQUESTS: &str = "WITH RECURSIVE number (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < ?1)
    INSERT INTO request (seq, id, at, client, operation, dialect, provider, model, stream, fallback, outcome, status,
        duration_ms, cost_reported)
    SELECT n, 'req_filled' || n, (strftime('%s', 'now') - 3600) * 1000 + n / 10, 'bench', 'generate', 'openai-chat', 'bench',
        'small', 0, 0, 'succeeded', 200, 10, 0 FROM number";
const FILL_ATTEMPTS: &str = "INSERT INTO attempt (id, after_ms, provider, model, key_id, key_label,
        status, waited_ms, took_ms)
    SELECT seq * 1024, 0, 'bench', 'small', 1, 'key 0', 200, 0, 10 FROM request WHERE id LIKE 'req_filled%'";
const FILL_SEQUENCE: &str = "INSERT INTO sequence (name, last) VALUES ('request', ?1) ON CONFLICT (name) DO UPDATE SET last = excluded.last";
