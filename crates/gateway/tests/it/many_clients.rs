//! Hundreds of clients at once: a shutdown under them, and their leaving whenever they like.

use std::time::Duration;

use backstop_faultd::{Client, Ended, Reply, Script, model};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::world::{STREAM, Setup, World, request, rest};

/// Lets this process have as many files open as the machine allows; whether that is enough for so many clients.
fn has_room_for(clients: usize) -> bool {
    let limit = getrlimit(Resource::Nofile);
    let wanted = Rlimit { current: limit.maximum, maximum: limit.maximum };
    // The client's end and ours, our end to the provider and the provider's.
    let needed = u64::try_from(clients * 4 + 200).unwrap();
    setrlimit(Resource::Nofile, wanted).is_ok() && limit.maximum.is_none_or(|most| most >= needed)
}

#[tokio::test]
async fn hundreds_of_streams_at_a_shutdown_end_by_themselves_or_with_an_error_event() {
    if !has_room_for(STREAMS) {
        eprintln!("SKIPPED: so many streams need a higher limit of open files");
        return;
    }
    let every = Duration::from_secs(1);
    let script = Script::new()
        .on(model("short"), Reply::answer().pieces(5, 0).events_every(every))
        .on(model("long"), Reply::answer().pieces(10_000, 0).events_every(every));
    let world = World::new(Setup { script, tables: "[server]\ndrain_s = 1\n", ..Setup::default() }).await;
    let mut open = Vec::new();
    for number in 0..STREAMS {
        let asked = if number % 2 == 0 { "short" } else { "long" };
        let body = STREAM.replace("\"m\"", &format!("\"{asked}\""));
        let mut client = Client::new(world.gateway.addr());
        client.send(&request("POST", "/proxy/p/v1/chat/completions", &body, "")).await.unwrap();
        open.push((asked, client));
    }
    let mut reading = Vec::new();
    for (asked, mut client) in open {
        assert_eq!(client.head().await.unwrap().status, 200);
        reading.push((asked, tokio::spawn(async move { rest(&mut client).await })));
    }
    let World { gateway, provider: _provider, folder: _folder, .. } = world;
    gateway.shutdown().await;
    for (asked, rest) in reading {
        let (body, whole) = rest.await.unwrap();
        let errors = body.matches("data: {\"error\"").count();
        let ends = body.matches("[DONE]").count();
        let ended = (whole, errors, ends);
        // A slow machine may not get a short one to its end in time.
        let fine = ended == (false, 1, 0) || (asked == "short" && ended == (true, 0, 1));
        assert!(fine, "{asked} {ended:?}: {body}");
    }
}

#[tokio::test]
async fn clients_that_leave_at_any_moment_leave_nothing_behind() {
    let every = Duration::from_millis(3);
    let script = Script::new()
        .otherwise(Reply::answer().after(every).first_event_after(every).pieces(20, 0).events_every(every));
    let world = World::of(script, &["sk-one", "sk-two"]).await;
    let count = std::env::var("BACKSTOP_LEAVERS").ok().and_then(|count| count.parse().ok()).unwrap_or(300);
    let address = world.gateway.addr();
    for first in (0..count).step_by(AT_ONCE) {
        let leaving = (first..(first + AT_ONCE).min(count)).map(|number: usize| {
            tokio::spawn(async move {
                let mut client = Client::new(address);
                client.send(&request("POST", "/proxy/p/v1/chat/completions", STREAM, "")).await.unwrap();
                // Spread over the whole life of an answer, whatever chance says.
                let moment = Duration::from_micros((number as u64).wrapping_mul(7919) % 80_000);
                let _ =
                    tokio::time::timeout(moment, async { while let Ok(Some(_)) = client.piece().await {} })
                        .await;
                client.hang_up();
            })
        });
        for left in leaving.collect::<Vec<_>>() {
            left.await.unwrap();
        }
    }
    let over = |calls: &[backstop_faultd::Call]| {
        calls.iter().all(|call| !matches!(call.ended, Ended::Open)).then_some(())
    };
    tokio::time::timeout(Duration::from_secs(20), world.provider.until(over)).await.expect("every call ends");
    let idle = async {
        loop {
            let metrics = world.get("/metrics").await.body;
            if metrics.contains("backstop_inflight 0\n") && metrics.contains("backstop_connections 1\n") {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), idle).await.expect("nothing is left of them");
    assert_eq!(world.keys(), ["sk-one active", "sk-two active"], "nobody is blamed");
    assert_eq!(world.asked().iter().filter(|(key, _)| key == "sk-two").count(), 0, "nobody else was asked");
}

const STREAMS: usize = 500;
const AT_ONCE: usize = 50;
