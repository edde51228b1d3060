//! What moves in from elsewhere, and what moves out.

use backstop_dashboard::{actions::secrets::Secrets, sealing::Sealed};
use backstop_store::{
    Secret,
    clients::{hash_text, token_hash},
};
use serde_json::json;

use crate::world::World;

#[tokio::test]
async fn a_client_key_from_elsewhere_goes_on_working_and_a_revoked_one_stays_revoked() {
    let world = World::new();
    let adoption = json!({
        "name": "old laptop", "hash": hash_text(&token_hash("sk-of-another-gateway")), "prefix": "sk-of",
        "limits": { "requests_per_minute": 5 },
    });
    let (status, made) = world.ask("POST", "/api/clients/adopt", Some(adoption.clone())).await;
    assert_eq!((status, made["limits"]["requests_per_minute"].as_u64()), (201, Some(5)));
    assert!(made["key"].is_null(), "{made}");
    let (status, again) = world.ask("POST", "/api/clients/adopt", Some(adoption.clone())).await;
    assert_eq!((status, &again["id"]), (200, &made["id"]));
    let row = world.store.clients().unwrap().into_iter().find(|row| row.name == "old laptop").unwrap();
    assert_eq!(row.hash, token_hash("sk-of-another-gateway"));

    world.done("DELETE", &format!("/api/clients/{}", row.id), None).await;
    let (status, _) = world.ask("POST", "/api/clients/adopt", Some(adoption)).await;
    assert_eq!(status, 409);
    for hash in ["", "zz", &"é".repeat(32)] {
        let wrong = json!({ "name": "x", "hash": hash, "prefix": "" });
        assert_eq!(world.ask("POST", "/api/clients/adopt", Some(wrong)).await.0, 422);
    }
}

#[tokio::test]
async fn secrets_leave_only_sealed_and_only_under_a_phrase_that_cannot_be_guessed() {
    let world = World::with_alpha(2).await;
    let short = json!({ "passphrase": "too short" });
    assert_eq!(world.ask("POST", "/api/secrets/export", Some(short)).await.0, 422);
    let phrase = json!({ "passphrase": "correct horse battery" });
    let exported = world.done("POST", "/api/secrets/export", Some(phrase)).await;
    assert_eq!((exported["keys"].as_u64(), exported["locked"].as_u64()), (Some(2), Some(0)));
    assert!(!exported.to_string().contains("sk-secret"), "{exported}");
    let sealed: Sealed = serde_json::from_value(exported["sealed"].clone()).unwrap();
    let plain = sealed.open(&Secret::new("correct horse battery")).unwrap();
    let secrets: Secrets = serde_json::from_slice(&plain).unwrap();
    assert_eq!(secrets.keys["alpha"][1].key, "sk-secret-2");
    assert!(!format!("{secrets:?}").contains("sk-secret"));
}

#[tokio::test]
async fn keys_that_are_there_are_told_before_they_are_added() {
    let world = World::with_alpha(2).await;
    let keys = json!({ "keys": ["sk-secret-2", "sk-new", "", "sk-secret-1"] });
    let known = world.done("POST", "/api/providers/alpha/keys/known", Some(keys)).await;
    assert_eq!(known, json!([2, null, null, 1]));
    let listed = world.done("GET", "/api/providers/alpha/keys", None).await;
    assert_eq!(listed["items"].as_array().unwrap().len(), 2);
}
