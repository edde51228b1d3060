use std::{path::Path, time::Duration};

use backstop_alerts::{
    Channel, ChannelConfig, Courier, HttpClient, Notice, NoticeKind, Pace, Secret, signature,
};
use backstop_triage::{
    Timestamp,
    alert::{Book, Condition, Hysteresis, Topic},
};
use expect_test::expect;
use jiff::tz::TimeZone;

use crate::sink::{Answer, Sink};

#[tokio::test]
async fn a_webhook_is_signed_so_that_its_receiver_can_tell() {
    let mut sink = Sink::start([]).await;
    let channel = channel(&format!("channel = \"webhook\"\nurl = \"{}/hook\"\nsecret = \"hush\"", sink.url));
    let receipt = channel.deliver(&http(), &raised(Condition::ProviderDown)).await.unwrap();
    assert_eq!(receipt, "200 ok");
    let call = sink.call().await;
    let timestamp = call.header("webhook-timestamp").parse().unwrap();
    let expected =
        signature(&Secret::new("hush"), call.header("webhook-id"), timestamp, call.body.as_bytes());
    assert_eq!(call.header("webhook-signature"), expected);
    let json: serde_json::Value = serde_json::from_str(&call.body).unwrap();
    assert_eq!(json["type"], "alert.raised");
    assert_eq!(json["severity"], "critical");
    assert_eq!(json["count"], 2);
}

#[test]
fn the_signature_is_the_published_one() {
    // The example of the Standard Webhooks specification.
    let secret = Secret::new("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
    let body = br#"{"test": 2432232314}"#;
    assert_eq!(
        signature(&secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, body),
        "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    );
}

#[tokio::test]
async fn every_service_gets_the_shape_that_it_reads() {
    let mut sink = Sink::start([]).await;
    let mut lines = Vec::new();
    for kind in ["slack", "discord", "telegram", "ntfy"] {
        let text =
            format!("channel = \"{kind}\"\nurl = \"{}/topic\"\nsecret = \"t0ken\"\nchat = \"42\"", sink.url);
        channel(&text).deliver(&http(), &raised(Condition::KeyQuotaExhausted)).await.unwrap();
        let call = sink.call().await;
        lines.push(format!("{kind} {} {}", call.path, call.body));
    }
    expect![[r#"
        slack /topic {"text":"[warning] zai: usage window full (2)\nresets 4am &amp; later\nkey 2, key &lt;1&gt;"}
        discord /topic {"allowed_mentions":{"parse":[]},"content":"[warning] zai: usage window full (2)\nresets 4am & later\nkey 2, key <1>"}
        telegram /topic/bott0ken/sendMessage {"chat_id":"42","link_preview_options":{"is_disabled":true},"text":"[warning] zai: usage window full (2)\nresets 4am & later\nkey 2, key <1>"}
        ntfy / {"message":"resets 4am & later\nkey 2, key <1>","priority":4,"tags":["warning"],"title":"zai: usage window full (2)","topic":"topic"}"#]].assert_eq(&lines.join("\n"));
}

#[tokio::test]
async fn a_dead_channel_delays_nobody_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let dead = Sink::start([Answer::Hang; 9]).await;
    let mut live = Sink::start([]).await;
    let channels = vec![
        channel(&format!("channel = \"slack\"\nname = \"dead\"\nurl = \"{}\"", dead.url)),
        channel(&format!("channel = \"slack\"\nname = \"live\"\nurl = \"{}\"", live.url)),
    ];
    let http = HttpClient::new(Duration::from_millis(50));
    let courier = Courier::start(channels, folder.path(), &http, brisk()).unwrap();
    for _ in 0..3 {
        courier.post(&raised(Condition::ProviderDown)).unwrap();
        live.call().await;
    }
    let status = until(&courier, |status| status[0].failing_since.is_some() && status[1].queued == 0).await;
    assert!(status[0].last_error.as_deref().unwrap().contains("no answer from 127.0.0.1"), "{status:?}");
    assert!(status[0].queued > 0 && status[0].delivered == 0);
    assert_eq!(status[1].last_error, None);
}

#[tokio::test]
async fn a_channel_that_recovers_gets_everything_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let mut sink = Sink::start([Answer::Status(503), Answer::Status(500), Answer::Status(429)]).await;
    let slack = channel(&format!("channel = \"slack\"\nurl = \"{}\"", sink.url));
    let courier = Courier::start(vec![slack], folder.path(), &http(), brisk()).unwrap();
    let mut notices =
        [raised(Condition::ProviderDown), raised(Condition::CrashLoop), raised(Condition::DiskLow)];
    for (index, notice) in notices.iter_mut().enumerate() {
        notice.at += Duration::from_millis(index as u64);
        courier.post(notice).unwrap();
    }
    let mut bodies = Vec::new();
    for _ in 0..6 {
        bodies.push(sink.call().await.body);
    }
    let firsts = bodies.iter().take(4).filter(|body| body.contains("no usable key")).count();
    assert_eq!(firsts, 4, "the first is tried until it is taken: {bodies:#?}");
    assert!(bodies[4].contains("crash loop") && bodies[5].contains("disk"), "{bodies:#?}");
    let status = until(&courier, |status| status[0].delivered == 3).await;
    assert_eq!((status[0].failing_since, status[0].queued), (None, 0));
}

#[tokio::test]
async fn what_was_not_delivered_survives_a_restart_under_the_same_id() {
    let folder = tempfile::tempdir().unwrap();
    let text = "channel = \"webhook\"\nname = \"w\"\nsecret = \"s\"\nurl = ";
    let notice = raised(Condition::StoreFailing);
    {
        let nobody = channel(&format!("{text}\"http://127.0.0.1:1/\""));
        let courier = Courier::start(vec![nobody], folder.path(), &http(), brisk()).unwrap();
        courier.post(&notice).unwrap();
        courier.settle(Duration::from_secs(5)).await;
    }
    let mut sink = Sink::start([]).await;
    let back = channel(&format!("{text}\"{}\"", sink.url));
    let _courier = Courier::start(vec![back], folder.path(), &http(), brisk()).unwrap();
    assert_eq!(sink.call().await.header("webhook-id"), notice.id);
}

#[tokio::test]
async fn a_receiver_that_refuses_is_asked_three_times_and_no_token_is_shown() {
    let folder = tempfile::tempdir().unwrap();
    let sink = Sink::start([Answer::Status(401); 9]).await;
    let text = format!("channel = \"telegram\"\nurl = \"{}\"\nsecret = \"12:t0ken\"\nchat = \"1\"", sink.url);
    let courier = Courier::start(vec![channel(&text)], folder.path(), &http(), brisk()).unwrap();
    courier.post(&raised(Condition::ProviderDown)).unwrap();
    let status = until(&courier, |status| status[0].dropped == 1).await;
    assert_eq!(status[0].queued, 0);
    assert!(!format!("{status:?}").contains("t0ken"));
    let dead =
        channel("channel = \"telegram\"\nurl = \"http://127.0.0.1:1\"\nsecret = \"12:t0ken\"\nchat = \"1\"");
    let error = dead.deliver(&http(), &raised(Condition::ProviderDown)).await.unwrap_err();
    assert!(!error.to_string().contains("t0ken"), "{error}");
}

#[tokio::test]
async fn quiet_hours_hold_all_but_the_critical_and_forget_what_is_over_by_morning() {
    let folder = tempfile::tempdir().unwrap();
    let mut sink = Sink::start([]).await;
    // The hours are quiet around the moment of the notice, whatever the clock says.
    let now = Timestamp::now().to_zoned_datetime(TimeZone::UTC).time();
    let (from, to) =
        (now.wrapping_sub(jiff::Span::new().hours(2)), now.wrapping_add(jiff::Span::new().hours(2)));
    let quiet = format!("{}-{} UTC", from.strftime("%H:%M"), to.strftime("%H:%M"));
    let slack = channel(&format!("channel = \"slack\"\nurl = \"{}\"\nquiet = \"{quiet}\"", sink.url));
    let courier = Courier::start(vec![slack], folder.path(), &http(), brisk()).unwrap();
    courier.post(&raised(Condition::FallbackInUse)).unwrap();
    courier.post(&raised(Condition::DiskLow)).unwrap();
    courier.post(&raised(Condition::StoreFailing)).unwrap();
    assert!(sink.call().await.body.contains("the store cannot write"));
    assert_eq!(until(&courier, |status| status[0].delivered == 1).await[0].queued, 2);
    courier.post(&Notice { kind: NoticeKind::Recovered, ..raised(Condition::DiskLow) }).unwrap();
    assert_eq!(courier.status()[0].queued, 1);
}

#[test]
fn a_channel_takes_what_is_grave_enough_and_recoveries_if_it_asks_for_them() {
    let recovered = |condition: Condition| {
        let notice = raised(condition);
        Notice { kind: NoticeKind::Recovered, severity: backstop_alerts::Severity::Info, ..notice }
    };
    let url = "channel = \"slack\"\nurl = \"http://127.0.0.1:1\"\n";
    let pager = channel(&format!("{url}min_severity = \"critical\""));
    assert!(pager.wants(&raised(Condition::ProviderDown)));
    assert!(!pager.wants(&raised(Condition::DiskLow)));
    assert!(!pager.wants(&recovered(Condition::ProviderDown)));
    let pager = channel(&format!("{url}min_severity = \"critical\"\nrecoveries = true"));
    assert!(pager.wants(&recovered(Condition::ProviderDown)));
    assert!(!pager.wants(&recovered(Condition::DiskLow)));
    assert!(channel(url).wants(&recovered(Condition::DiskLow)));
}

#[tokio::test]
async fn a_command_gets_the_notice_on_its_input_and_in_its_environment() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let script = format!(
        "cat > {0}; printf '\\n%s %s' \"$BACKSTOP_ALERT_CONDITION\" \"$BACKSTOP_ALERT_SEVERITY\" >> {0}",
        out.display()
    );
    let command = channel(&format!("channel = \"command\"\ncommand = [\"sh\", \"-c\", '''{script}''']"));
    command.deliver(&http(), &raised(Condition::KeyLocked)).await.unwrap();
    let text = std::fs::read_to_string(out).unwrap();
    assert!(text.starts_with("{\"at\":") && text.ends_with("\nkey_locked critical"), "{text}");
    let failing = channel("channel = \"command\"\ncommand = [\"sh\", \"-c\", \"exit 3\"]");
    let error = failing.deliver(&http(), &raised(Condition::KeyLocked)).await.unwrap_err();
    assert!(error.to_string().contains("exit status: 3"), "{error}");
}

async fn until(
    courier: &Courier,
    mut reached: impl FnMut(&[backstop_alerts::ChannelStatus]) -> bool,
) -> Vec<backstop_alerts::ChannelStatus> {
    for _ in 0..2_000 {
        let status = courier.status();
        if reached(&status) {
            return status;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("never reached: {:?}", courier.status());
}

fn raised(condition: Condition) -> Notice {
    let mut book = Book::new(Hysteresis { gather: Duration::ZERO, ..Hysteresis::default() });
    let topic = Topic::new(condition, "zai");
    let now = Timestamp::now();
    for member in ["key <1>", "key 2"] {
        book.raise(&topic, member, "resets 4am & later", now);
    }
    let notice = book.poll(now).remove(0);
    Notice { id: format!("{condition}/zai@1800000000/raised-1"), claim: None, ..notice }
}

fn channel(text: &str) -> Channel {
    let config: ChannelConfig = toml::from_str(text).unwrap();
    Channel::new(&config, &|_| None, &TimeZone::UTC).unwrap()
}

fn http() -> HttpClient {
    HttpClient::new(Duration::from_secs(5))
}

fn brisk() -> Pace {
    Pace { first: Duration::from_millis(10), longest: Duration::from_millis(40) }
}

#[test]
fn the_outbox_is_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let slack = channel("channel = \"slack\"\nurl = \"http://127.0.0.1:1\"");
        let _courier = Courier::start(vec![slack], folder.path(), &http(), Pace::default()).unwrap();
    });
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&folder.path().join("slack")), 0o700);
}
