//! Secrets never reach the disk in the clear.

use backstop_store::{KeySource, Secret, clients::NewClient, keys::NewKey, requests::Bodies};
use backstop_triage::ProviderId;

use crate::{at, open, request, until};

#[test]
fn no_planted_secret_is_in_any_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(&folder);
    let canary = "sk-canary-4f1d9c0b7a6e5d3c2b1a";
    let key = |secret: &str| NewKey { label: "k".into(), account: None, secret: Secret::new(secret) };
    let provider = ProviderId::from("alpha");
    let _added = store.add_keys(&provider, vec![key(canary)]).wait().expect("added");
    let _known = store.provision_keys(&ProviderId::from("beta"), vec![key(canary)]).wait().expect("known");
    store.set_secret_value("webhook", Secret::new(canary)).wait().expect("sealed");
    let new = NewClient { name: "c".into(), ..NewClient::default() };
    let _known = store.provision_clients(vec![(new, Secret::new(canary))]).wait().expect("known");
    let (_, made) = store.create_client(NewClient::default()).wait().expect("made");
    let session = store.begin_session("agent", at(0)).wait().expect("begun");
    let mut row = request("r1", 0);
    row.bodies = Some(Bodies::new(canary.into(), canary.into()));
    store.record_request(row);
    until("the request is written", || store.bodies("r1").expect("readable").is_some());
    store.rekey(&KeySource::Folder).wait().expect("rekeyed");
    let secrets = [canary, made.expose(), session.expose()];
    let sweep = || {
        for entry in std::fs::read_dir(folder.path()).expect("a folder") {
            let path = entry.expect("an entry").path();
            let content = std::fs::read(&path).expect("readable");
            for secret in secrets {
                let found = content.windows(secret.len()).any(|window| window == secret.as_bytes());
                assert!(!found, "a secret is in {}", path.display());
            }
        }
    };
    sweep();
    store.close();
    sweep();
    assert!(!format!("{store:?}").contains(canary));
}
