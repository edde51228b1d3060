//! Agents and alerts as the API shows them.

use backstop_supervisor::SeatAlerts;
use backstop_triage::{
    Timestamp,
    alert::{Condition, Hysteresis, Topic},
};
use expect_test::expect;
use serde_json::json;

use crate::world::World;

#[tokio::test]
async fn a_seat_is_shown_with_its_state_its_next_start_and_its_history() {
    let world = World::new();
    assert_eq!(
        world.done("GET", "/api/agents", None).await,
        json!([]),
        "without any seat there is no folder"
    );
    let seats = world.store.data_dir().join("seats");
    std::fs::create_dir_all(&seats).expect("a folder");
    let incident =
        json!({ "class": "overloaded", "reason": "busy", "rule": "x/529", "at": "2026-08-18T04:00:00Z" });
    let mut past = incident.clone();
    past["n"] = json!(1);
    past["delay_s"] = json!(60);
    past["circuit"] = json!("open");
    let mut last = incident;
    last["scope"] = json!("provider");
    let record = json!({
        "n": 1, "last": last, "until": "2099-01-01T00:00:00Z", "rest_s": 60_000_000_000_u64,
        "program": "claude", "provider": "anthropic", "runs": 1, "started": "2026-08-18T03:59:00Z",
        "history": [past],
    });
    std::fs::write(seats.join("writer.json"), record.to_string()).expect("written");
    let shown = world.done("GET", "/api/agents", None).await;
    expect![[r#"
        [
          {
            "account": null,
            "account_rests_until": null,
            "circuit": "open",
            "class": "overloaded",
            "failed_at": "2026-08-18T04:00:00Z",
            "failures": 1,
            "history": [
              {
                "at": "2026-08-18T04:00:00Z",
                "circuit": "open",
                "class": "overloaded",
                "delay_s": 60,
                "failures": 1,
                "reason": "busy",
                "rule": "x/529"
              }
            ],
            "name": "writer",
            "next_start": "2099-01-01T00:00:00Z",
            "pid": null,
            "program": "claude",
            "provider": "anthropic",
            "reason": "busy",
            "rule": "x/529",
            "runs": 1,
            "started": "2026-08-18T03:59:00Z",
            "state": "stopped"
          }
        ]"#]]
    .assert_eq(&format!("{shown:#}"));
}

#[tokio::test]
async fn alerts_of_gateway_and_seats_stand_in_one_list_and_can_be_acknowledged() {
    let world = World::with_alpha(1).await;
    let now = Timestamp::now();
    let disk = Topic::new(Condition::DiskLow, "disk");
    let key = Topic::new(Condition::KeyDisabled, "alpha");
    world.live.alerts.lock().raise(&disk, "disk", "200 MiB left", now);
    world.live.alerts.lock().raise(&key, "key-1", "invalid_key", now);
    let seats = SeatAlerts::below(world.store.data_dir());
    let seat = Topic::new(Condition::CrashLoop, "seat/writer");
    let raised = seats.speak("seat/writer", Hysteresis::default(), |book, now| {
        book.raise(&seat, "writer", "exit 1", now);
    });
    raised.expect("written");
    let shown = world.done("GET", "/api/alerts", None).await;
    let names: Vec<_> = shown.as_array().expect("a list").iter().map(|alert| &alert["alert"]).collect();
    assert_eq!(names, ["crash_loop/seat/writer", "key_disabled/alpha", "disk_low/disk"]);
    assert_eq!(shown[1]["subject"], "provider/alpha");
    assert_eq!(shown[1]["members"], json!([{ "name": "key-1", "detail": "invalid_key" }]));
    for alert in ["crash_loop/seat/writer", "disk_low/disk"] {
        world.done("POST", "/api/alerts/ack", Some(json!({ "alert": alert }))).await;
    }
    let shown = world.done("GET", "/api/alerts", None).await;
    let seen: Vec<_> = shown.as_array().expect("a list").iter().map(|alert| &alert["acknowledged"]).collect();
    assert_eq!(seen, [&json!(true), &json!(false), &json!(true)]);
    for wrong in ["disk_low/moon", "nonsense"] {
        let (status, _) = world.ask("POST", "/api/alerts/ack", Some(json!({ "alert": wrong }))).await;
        assert_eq!(status, 404, "{wrong}");
    }
}

#[tokio::test]
async fn a_channel_shows_how_it_fares_and_is_tested_by_name() {
    let world = World::new();
    let shown = world.done("GET", "/api/alerts/channels", None).await;
    expect![[r#"
        [
          {
            "delivered": 0,
            "dropped": 0,
            "failed": 0,
            "failing_since": null,
            "kind": "webhook",
            "last_error": "the receiver answered 503",
            "min_severity": "info",
            "name": "ops",
            "queued": 0
          }
        ]"#]]
    .assert_eq(&format!("{shown:#}"));
    let tested = world.done("POST", "/api/alerts/channels/ops/test", None).await;
    assert_eq!(tested, json!({ "delivered": false, "answer": "the receiver answered 503" }));
    assert_eq!(world.ask("POST", "/api/alerts/channels/other/test", None).await.0, 404);
}
