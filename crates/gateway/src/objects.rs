//! Objects that live at a provider (files, batches, stored answers) belong to the account whose key made them.
//!
//! The id of what a key has made is remembered; a request that names the id goes to that key's account and to no other.

use std::sync::Arc;

use backstop_dialect::{Head, Operation};
use backstop_store::Register;
use backstop_triage::KeyId;

use crate::{asked::Asked, drive::Journey, plan::Outlet, shared::Shared};

/// The object that a request names, by the last segment of its path that looks like an id, or in its body.
pub(crate) fn named(operation: Operation, path: &str, head: Option<&Head<'_>>) -> Option<String> {
    if let Some(previous) = head.and_then(|head| head.previous_response_id.as_deref()) {
        return Some(previous.to_owned());
    }
    match operation {
        Operation::Files | Operation::Batches | Operation::Stored => {
            path.split('/').find(|segment| is_id(segment)).map(str::to_owned)
        }
        Operation::Generate
        | Operation::Compact
        | Operation::CountTokens
        | Operation::Embeddings
        | Operation::Models
        | Operation::Audio
        | Operation::Images
        | Operation::Other => None,
    }
}

/// The key that made the object which a request names, if it is one of this provider's.
pub(crate) async fn owner(shared: &Arc<Shared>, asked: &Asked, outlet: &Outlet) -> Option<KeyId> {
    let subject = format!("{}/{}", outlet.config.id, asked.object.as_deref()?);
    let store = shared.store.clone();
    let found = tokio::task::spawn_blocking(move || store.state(Register::Object, &subject)).await;
    let key = KeyId(found.ok()?.ok()??.parse().ok()?);
    outlet.keys.contains_key(&key).then_some(key)
}

/// Remembers who made the object that an answer tells of.
pub(crate) fn made(journey: &Journey, body: &[u8]) {
    if !keeps_something(&journey.asked) || body.len() > LONGEST_BODY {
        return;
    }
    let answer: Option<Made> = serde_json::from_slice(body).ok();
    if let Some(id) = answer.and_then(|answer| answer.id.or(answer.name)) {
        remember(journey, &id);
    }
}

/// Remembers who made the object of this id.
pub(crate) fn remember(journey: &Journey, id: &str) {
    let Some(route) = journey.route.as_ref().filter(|_| keeps_something(&journey.asked)) else { return };
    let subject = format!("{}/{id}", route.outlet.config.id);
    // Nobody waits for it: until it is written, the newest state is in the store's queue.
    drop(journey.shared.store.save([(Register::Object, subject, Some(route.key.to_string()))]));
}

/// Whether the provider keeps something of a call that a later call may name.
fn keeps_something(asked: &Asked) -> bool {
    asked.stateful || asked.is_stored
}

/// What an answer says of the object that it made.
#[derive(serde::Deserialize)]
struct Made {
    id: Option<String>,
    name: Option<String>,
}

/// Ids are long and have a digit in them; the words of paths have none.
fn is_id(segment: &str) -> bool {
    segment.len() >= SHORTEST_ID && segment.bytes().any(|byte| byte.is_ascii_digit())
}

const SHORTEST_ID: usize = 8;
const LONGEST_BODY: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_object_of_a_path_is_its_id() {
        let of = |operation, path| named(operation, path, None);
        assert_eq!(of(Operation::Files, "/v1/files/file-abc123/content").as_deref(), Some("file-abc123"));
        assert_eq!(of(Operation::Files, "/v1/files"), None);
        assert_eq!(
            of(Operation::Batches, "/v1/messages/batches/msgbatch_01HkcTjaV5uDC8jWR4ZsDV8d/results")
                .as_deref(),
            Some("msgbatch_01HkcTjaV5uDC8jWR4ZsDV8d")
        );
        assert_eq!(of(Operation::Generate, "/v1beta/models/gemini-2.5-pro:generateContent"), None);
    }
}
