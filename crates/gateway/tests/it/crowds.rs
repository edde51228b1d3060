//! Hundreds of keys that all fail the same way.

use backstop_faultd::{Reply, Script, any, key};

use crate::world::{Got, World};

/// What the first request got and cost, and what the later ones got, before a provider with 300 such keys.
async fn crowd(script: Script, requests: usize) -> (World, Vec<(usize, Got)>) {
    let keys: Vec<String> = (0..KEYS).map(name).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let world = World::of(script, &keys).await;
    let mut answers = Vec::new();
    for _ in 0..requests {
        let before = world.provider.log().len();
        let got = world.chat().await;
        answers.push((world.provider.log().len() - before, got));
    }
    (world, answers)
}

fn name(number: usize) -> String {
    format!("sk-{number:03}")
}

#[tokio::test]
async fn when_all_rest_the_client_hears_of_the_first_that_comes_back() {
    let limited = |seconds: usize| Reply::status(429).header("retry-after", seconds.to_string());
    let script = (0..KEYS).fold(Script::new(), |script, number| {
        script.on(key(name(number)), limited(3000 + (number * 7) % KEYS))
    });
    let (world, answers) = crowd(script, KEYS / ATTEMPTS + 2).await;
    assert!(answers.iter().all(|(calls, got)| *calls <= ATTEMPTS && got.status == 429));
    assert!(world.asked().iter().all(|(_, calls)| *calls == 1), "each key was asked once");
    let (calls, last) = answers.last().unwrap();
    assert_eq!((*calls, world.provider.log().len()), (0, KEYS));
    let seconds: u64 = last.header("retry-after").parse().unwrap();
    assert!(
        (2900..=3060).contains(&seconds),
        "the earliest is back in 3000 s or up to 60 s later: {seconds}"
    );
}

#[tokio::test]
async fn dead_keys_are_asked_once_each_and_never_more_than_a_request_may() {
    let dead = Reply::error(401, "invalid_api_key", "Incorrect API key provided.");
    let (world, answers) = crowd(Script::new().otherwise(dead), 12).await;
    assert!(answers.iter().all(|(calls, got)| *calls <= ATTEMPTS && got.status == 502));
    assert!(world.asked().iter().all(|(_, calls)| *calls == 1));
}

#[tokio::test]
async fn a_failure_that_nobody_knows_is_never_tried_on_hundreds_of_keys() {
    let odd = Reply::json(418, r#"{"zorp":"the flux is out of phase"}"#);
    let (_world, answers) = crowd(Script::new().on(any(), odd), 3).await;
    assert!(answers.iter().all(|(calls, _)| *calls <= 2), "{:?}", answers[0]);
}

const KEYS: usize = 300;
/// The most upstream calls of a request.
const ATTEMPTS: usize = 32;
