//! Starting, changing the configuration under way, stopping.

use std::time::Duration;

use backstop_faultd::{Client, Faultd, How, Point, Reply, Script, Trouble};
use backstop_gateway::config::{Config, Environment};
use backstop_triage::Catalog;

use crate::world::{CHAT, STREAM, Setup, World, request, rest};

#[tokio::test]
async fn open_streams_finish_before_the_gateway_stops() {
    let script =
        Script::new().otherwise(Reply::answer().pieces(5, 0).events_every(Duration::from_millis(60)));
    let world = World::of(script, &["sk-one"]).await;
    let mut client = Client::new(world.gateway.addr());
    client.send(&request("POST", "/proxy/p/v1/chat/completions", STREAM, "")).await.unwrap();
    assert_eq!(client.head().await.unwrap().status, 200);
    let World { gateway, provider, folder: _folder, .. } = world;
    let stopping = tokio::spawn(gateway.shutdown());
    let mut body = Vec::new();
    while let Some(piece) = client.piece().await.unwrap() {
        body.extend_from_slice(&piece);
    }
    assert!(String::from_utf8_lossy(&body).ends_with("data: [DONE]\n\n"));
    stopping.await.unwrap();
    drop(provider);
}

#[tokio::test]
async fn a_stream_that_outlives_the_drain_time_ends_with_an_error_event() {
    let script =
        Script::new().otherwise(Reply::answer().pieces(10_000, 0).events_every(Duration::from_millis(30)));
    let world = World::new(Setup { script, tables: "[server]\ndrain_s = 0\n", ..Setup::default() }).await;
    let mut client = Client::new(world.gateway.addr());
    client.send(&request("POST", "/proxy/p/v1/chat/completions", STREAM, "")).await.unwrap();
    assert_eq!(client.head().await.unwrap().status, 200);
    let World { gateway, provider: _provider, folder: _folder, .. } = world;
    let stopping = tokio::spawn(gateway.shutdown());
    let mut body = Vec::new();
    let end = loop {
        match client.piece().await {
            Ok(Some(piece)) => body.extend_from_slice(&piece),
            end => break end,
        }
    };
    assert!(matches!(end, Err(Trouble::Closed | Trouble::Broken(_))), "{end:?}");
    let body = String::from_utf8_lossy(&body);
    assert_eq!((body.matches("data: {\"error\"").count(), body.matches("[DONE]").count()), (1, 0), "{body}");
    stopping.await.unwrap();
}

#[tokio::test]
async fn a_stream_whose_last_event_is_out_ends_without_an_error_event_however_long_its_body_stays_open() {
    let chat =
        ["data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"},\"finish_reason\":\"stop\"}]}\n\n"];
    let gemini = [
        "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"hi\"}]},\"finishReason\":\"STOP\"}]}\n\n",
    ];
    let contents = r#"{"contents":[{"parts":[{"text":"hi"}]}]}"#;
    let generate = "/proxy/p/v1beta/models/m:streamGenerateContent?alt=sse";
    let chats = "/proxy/p/v1/chat/completions";
    for (format, path, body, events, end, errors) in [
        (
            "openai-chat",
            chats,
            STREAM,
            [chat.as_slice(), &["data: [DONE]\n\n"]].concat(),
            "data: [DONE]\n\n",
            0,
        ),
        ("openai-chat", chats, STREAM, chat.to_vec(), chat[0], 1),
        ("gemini", generate, contents, gemini.to_vec(), gemini[0], 0),
    ] {
        let reply = Reply::events(events).cut(Point::FinalChunk, How::Hang);
        let script = Script::new().otherwise(reply);
        let world =
            World::new(Setup { format, script, tables: "[server]\ndrain_s = 0\n", ..Setup::default() }).await;
        let mut client = Client::new(world.gateway.addr());
        client.send(&request("POST", path, body, "")).await.unwrap();
        assert_eq!(client.head().await.unwrap().status, 200);
        let mut got = Vec::new();
        while !got.ends_with(end.as_bytes()) {
            got.extend_from_slice(&client.piece().await.unwrap().expect("more"));
        }
        let World { gateway, provider: _provider, folder: _folder, .. } = world;
        let stopping = tokio::spawn(gateway.shutdown());
        let (rest, whole) = rest(&mut client).await;
        assert_eq!((rest.matches("\"error\"").count(), whole), (errors, errors == 0), "{format}: {rest}");
        stopping.await.unwrap();
    }
}

#[tokio::test]
async fn a_stopped_gateway_leaves_its_address_and_folder() {
    let world = World::of(Script::new(), &["sk-one"]).await;
    let address = world.gateway.addr();
    assert_eq!(world.chat().await.status, 200);
    let World { gateway, folder, .. } = world;
    gateway.shutdown().await;
    assert!(std::net::TcpStream::connect(address).is_err());
    drop(backstop_store::Store::open(folder.path()).expect("nobody holds the folder"));
}

#[tokio::test]
async fn a_new_configuration_takes_over_and_health_stays() {
    let script =
        Script::new().on(backstop_faultd::key("sk-one"), Reply::status(429).header("retry-after", "600"));
    let world = World::of(script, &["sk-one", "sk-two"]).await;
    assert_eq!(world.chat().await.status, 200);
    let other = Faultd::start(Script::new()).await.unwrap();
    let text = format!(
        "[server]\ndata_dir = \"{}\"\n[[client]]\nname = \"test\"\nvalue = \"{}\"\n[[provider]]\nid = \"p\"\nformat = \"openai-chat\"\nbase_url = \"{}\"\n[[provider.key]]\nvalue = \"sk-one\"\n[[provider.key]]\nvalue = \"sk-three\"\n[[provider]]\nid = \"q\"\nformat = \"openai-chat\"\nbase_url = \"{}\"\n[[provider.key]]\nvalue = \"sk-q\"\n",
        world.folder.path().display(),
        crate::world::CLIENT_KEY,
        world.provider.base_url(),
        other.base_url(),
    );
    let config =
        Config::parse(&text, std::path::Path::new("new.toml"), &Environment::default(), &Catalog::embedded())
            .unwrap();
    world.gateway.control().reload(&config, Catalog::embedded()).unwrap();
    assert_eq!(world.keys(), ["key 1 resting", "key 2 active"]);
    assert_eq!(world.chat().await.status, 200);
    assert_eq!(world.post("/proxy/q/v1/chat/completions", CHAT).await.status, 200);
    let asked: Vec<String> = world.asked().into_iter().map(|(key, count)| format!("{key} {count}")).collect();
    assert_eq!(asked, ["sk-one 1", "sk-two 1", "sk-three 1"]);
}

#[tokio::test]
async fn a_person_can_end_a_rest_and_disable_a_key() {
    use backstop_triage::{ProviderId, pool::Deed};
    let script = Script::new()
        .on(backstop_faultd::key("sk-one").nth(1), Reply::status(429).header("retry-after", "600"));
    let world = World::of(script, &["sk-one", "sk-two"]).await;
    assert_eq!(world.chat().await.header("x-backstop-key"), "sk-two");
    let control = world.gateway.control();
    let provider = ProviderId::from("p");
    let key = control.keys(&provider)[0].id;
    assert!(control.act(&provider, key, Deed::EndRest).await);
    assert_eq!(world.chat().await.header("x-backstop-key"), "sk-one");
    assert!(control.act(&provider, key, Deed::Disable).await);
    assert_eq!(world.chat().await.header("x-backstop-key"), "sk-two");
}

#[tokio::test]
async fn a_reload_that_fails_changes_nothing_and_one_that_works_makes_no_key_that_nobody_sees() {
    let world = World::new(Setup::default()).await;
    let control = world.gateway.control();
    let parse = |text: &str| {
        let text = format!("[server]\ndata_dir = \"{}\"\n{text}", world.folder.path().display());
        let path = std::path::Path::new("new.toml");
        Config::parse(&text, path, &Environment::default(), &Catalog::embedded()).unwrap()
    };
    let provider = format!(
        "[[provider]]\nid = \"p\"\nformat = \"openai-chat\"\nbase_url = \"{}\"\n",
        world.provider.base_url()
    );
    let rules = control.catalog();
    let encrypted = provider.replace("http://", "https://");
    let broken = format!("{encrypted}ca_file = \"/nowhere/ca.pem\"\n[[provider.key]]\nvalue = \"sk-new\"\n");
    let error = control.reload(&parse(&broken), Catalog::embedded()).unwrap_err();
    assert!(error.is_permanent(), "{error}");
    assert_eq!(control.store().clients().unwrap().len(), 1, "the client is not revoked");
    assert_eq!(world.keys(), ["sk-one active", "sk-two active"]);
    assert!(std::sync::Arc::ptr_eq(&rules, &control.catalog()));
    assert_eq!(world.chat().await.status, 200);

    control.reload(&parse(&provider), Catalog::embedded()).unwrap();
    assert_eq!(control.store().clients().unwrap(), [], "no key is made that nobody is shown");
    assert_eq!(world.chat().await.status, 401);
}

#[tokio::test]
async fn attempts_are_counted_by_what_became_of_them() {
    let script = Script::new()
        .on(backstop_faultd::key("sk-one").nth(1), Reply::reset())
        .on(backstop_faultd::key("sk-one"), Reply::answer());
    let world = World::new(Setup { script, ..Setup::default() }).await;
    assert_eq!(world.chat().await.status, 200);
    assert_eq!(world.post("/proxy/p/v1/chat/completions", "{\"model\":\"m\"}").await.status, 200);
    let metrics = world.get("/metrics").await.body;
    let counted = |line: &str| assert!(metrics.contains(&format!("{line}\n")), "{line}: {metrics}");
    counted("backstop_attempts_total{provider=\"p\",model=\"other\",class=\"answered\"} 2");
    counted("backstop_attempts_total{provider=\"p\",model=\"other\",class=\"network_error\"} 1");
    counted("backstop_ambiguous_retries_total 1");
}
