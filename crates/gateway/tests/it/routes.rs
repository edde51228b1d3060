//! Who is meant by a request, and who may ask.

use backstop_faultd::{Faultd, Script};

use crate::world::{CHAT, CLIENT_KEY, Setup, World, ask};

#[tokio::test]
async fn a_unified_request_names_its_provider_in_the_model() {
    let tables = "[aliases]\nfast = \"p/small\"\n[[combo]]\nid = \"best\"\nmembers = [{ provider = \"p\", model = \"big\", alias = \"top\" }]\n";
    let world = World::new(Setup { tables, provider: "models = [\"listed\"]\n", ..Setup::default() }).await;
    let names = [("p/any/thing", "any/thing"), ("fast", "small"), ("best/top", "big"), ("listed", "listed")];
    for (asked, sent) in names {
        let got = world.post("/v1/chat/completions", &CHAT.replace("\"m\"", &format!("\"{asked}\""))).await;
        assert_eq!(got.status, 200, "{asked}: {}", got.body);
        let call = world.provider.log().pop().unwrap();
        assert_eq!(String::from_utf8_lossy(&call.body), CHAT.replace("\"m\"", &format!("\"{sent}\"")));
    }
}

#[tokio::test]
async fn gemini_names_the_model_in_the_path() {
    let world = World::new(Setup { format: "gemini", ..Setup::default() }).await;
    let got = world
        .post("/v1beta/models/p/flash:generateContent", r#"{"contents":[{"parts":[{"text":"hi"}]}]}"#)
        .await;
    assert_eq!(got.status, 200, "{}", got.body);
    assert_eq!(world.provider.log()[0].path, "/v1beta/models/flash:generateContent");
}

#[tokio::test]
async fn unknown_names_get_the_nearest_ones() {
    let world = World::new(Setup { provider: "models = [\"glm-5.2\"]\n", ..Setup::default() }).await;
    let got = world.post("/v1/chat/completions", &CHAT.replace("\"m\"", "\"p2/glm-5.2\"")).await;
    assert_eq!(
        (got.status, got.json()["error"]["code"].as_str()),
        (404, Some("model_not_found")),
        "{}",
        got.body
    );
    assert!(got.body.contains("p/glm-5.2"), "{}", got.body);
    assert_eq!(world.post("/proxy/nobody/v1/chat/completions", CHAT).await.status, 404);
    assert_eq!(world.get("/v1/nothing").await.status, 404);
    assert_eq!(world.get("/nothing").await.status, 404);
}

#[tokio::test]
async fn the_wrong_dialect_is_told_the_right_path() {
    let world = World::new(Setup { format: "anthropic-messages", ..Setup::default() }).await;
    let got = world.post("/v1/chat/completions", &CHAT.replace("\"m\"", "\"p/m\"")).await;
    assert_eq!(got.status, 400);
    assert!(got.body.contains("/v1/messages"), "{}", got.body);
    assert!(world.provider.log().is_empty());
}

#[tokio::test]
async fn models_are_listed_in_the_shape_of_the_asker() {
    let world = World::new(Setup { provider: "models = [\"a\", \"b\"]\n", ..Setup::default() }).await;
    let openai = world.get("/v1/models").await.json();
    assert_eq!((openai["object"].as_str(), openai["data"][1]["id"].as_str()), (Some("list"), Some("p/b")));
    let request =
        crate::world::request("GET", "/v1/models?limit=1000", "", "anthropic-version: 2023-06-01\r\n");
    let anthropic = ask(world.gateway.addr(), &request).await.json();
    assert_eq!((anthropic["has_more"].as_bool(), anthropic["first_id"].as_str()), (Some(false), Some("p/a")));
    let gemini = world.get("/v1beta/models").await.json();
    assert_eq!(gemini["models"][0]["name"], "models/p/a");
    assert_eq!(world.get("/v1/models/p/b").await.json()["id"], "p/b");
}

#[tokio::test]
async fn nobody_comes_in_without_a_client_key() {
    let world = World::new(Setup::default()).await;
    for headers in ["authorization: Bearer wrong\r\n", "authorization: Basic abc\r\n"] {
        let got = world.post_with("/proxy/p/v1/chat/completions", CHAT, headers).await;
        assert_eq!((got.status, got.header("x-should-retry")), (401, "false"));
    }
    let messages = world.post_with("/v1/messages", CHAT, "authorization: Bearer wrong\r\n").await;
    assert_eq!(messages.json()["type"], "error", "in the caller's dialect");
    for place in [format!("x-api-key: {CLIENT_KEY}"), format!("x-goog-api-key: {CLIENT_KEY}")] {
        let got = world
            .post_with("/proxy/p/v1/chat/completions", CHAT, &format!("authorization: x\r\n{place}\r\n"))
            .await;
        assert_eq!(got.status, 200, "{place}");
    }
    let got = world
        .post_with(&format!("/proxy/p/v1/chat/completions?key={CLIENT_KEY}"), CHAT, "authorization: x\r\n")
        .await;
    assert_eq!(got.status, 200);
    assert!(world.provider.log().iter().all(|call| !call.path.contains(CLIENT_KEY)));
}

#[tokio::test]
async fn a_client_key_does_what_it_may_and_no_more() {
    let tables = "[[client]]\nname = \"small\"\nvalue = \"small-client-key-0123456789\"\nmodels = [\"m\"]\nrequests_per_minute = 2\n";
    let world = World::new(Setup { tables, ..Setup::default() }).await;
    let headers = "authorization: Bearer small-client-key-0123456789\r\n";
    let ask = |body: String| async move { body };
    let other = ask(CHAT.replace("\"m\"", "\"other\"")).await;
    assert_eq!(world.post_with("/proxy/p/v1/chat/completions", &other, headers).await.status, 403);
    let mut statuses = Vec::new();
    for _ in 0..6 {
        statuses.push(world.post_with("/proxy/p/v1/chat/completions", CHAT, headers).await.status);
    }
    // A minute may end in between, once.
    let passed = statuses.iter().filter(|status| **status == 200).count();
    assert!((2..=4).contains(&passed) && statuses.contains(&429), "{statuses:?}");
}

#[tokio::test]
async fn operators_see_whether_it_is_alive_ready_and_what_it_counted() {
    let world = World::new(Setup::default()).await;
    world.chat().await;
    assert_eq!(world.get("/healthz").await.status, 200);
    let ready = world.get("/readyz").await;
    assert_eq!((ready.status, ready.json()["usable_keys"]["p"].as_u64()), (200, Some(2)));
    let metrics = world.get("/metrics").await;
    assert!(
        metrics.body.contains("route=\"proxy\",provider=\"p\",model=\"other\",outcome=\"succeeded\"} 1"),
        "{}",
        metrics.body
    );
    assert!(metrics.body.contains("state=\"active\"} 1"));
}

#[tokio::test]
async fn combos_fail_over_between_members_that_share_an_alias() {
    let other = Faultd::start(Script::new()).await.unwrap();
    let tables = format!(
        "[[combo]]\nid = \"best\"\nmembers = [{{ provider = \"p\", model = \"a\", alias = \"x\" }}, {{ provider = \"q\", model = \"b\", alias = \"x\" }}]\n[[provider]]\nid = \"q\"\nformat = \"openai-chat\"\nbase_url = \"{}\"\n[[provider.key]]\nvalue = \"sk-q\"\n",
        other.base_url()
    );
    let script = Script::new().otherwise(backstop_faultd::Reply::status(429).header("retry-after", "600"));
    let world = World::new(Setup { script, tables: &tables, ..Setup::default() }).await;
    let got = world.post("/proxy/best/v1/chat/completions", &CHAT.replace("\"m\"", "\"x\"")).await;
    assert_eq!((got.status, other.log()[0].model.as_deref()), (200, Some("b")), "{}", got.body);
    assert_eq!(world.get("/proxy/best/v1/models").await.json()["data"][0]["id"], "x");
}

#[tokio::test]
async fn a_client_key_lists_only_what_it_may_ask_for() {
    let tables = "[aliases]\nfast = \"p/a\"\nslow = \"p/b\"\n[[combo]]\nid = \"best\"\nmembers = [{ provider = \"p\", model = \"b\", alias = \"a\" }]\n[[client]]\nname = \"held\"\nvalue = \"held-client-key-0123456789\"\nmodels = [\"a\"]\n[[client]]\nname = \"other\"\nvalue = \"other-client-key-0123456789\"\nproviders = [\"best\"]\n";
    let world = World::new(Setup { tables, provider: "models = [\"a\", \"b\"]\n", ..Setup::default() }).await;
    let listed = async |key: &str, path: &str, headers: &str| {
        let headers = format!("authorization: Bearer {key}\r\n{headers}");
        let list = ask(world.gateway.addr(), &crate::world::request("GET", path, "", &headers)).await.json();
        let entries = list["data"].as_array().or_else(|| list["models"].as_array()).unwrap().clone();
        let name = |entry: &serde_json::Value| {
            let name = entry.get("id").or_else(|| entry.get("name")).unwrap().as_str().unwrap();
            name.strip_prefix("models/").unwrap_or(name).to_owned()
        };
        entries.iter().map(name).collect::<Vec<_>>()
    };
    let held = "held-client-key-0123456789";
    assert_eq!(listed(held, "/v1/models", "").await, ["fast", "best/a", "p/a"]);
    assert_eq!(
        listed(held, "/v1/models", "anthropic-version: 2023-06-01\r\n").await,
        ["fast", "best/a", "p/a"]
    );
    assert_eq!(listed(held, "/v1beta/models", "").await, ["fast", "best/a", "p/a"]);
    assert_eq!(listed("other-client-key-0123456789", "/v1/models", "").await, ["best/a"]);
    assert_eq!(listed("other-client-key-0123456789", "/proxy/best/v1/models", "").await, ["a"]);
    assert_eq!(listed(CLIENT_KEY, "/v1/models", "").await.len(), 5);
}
