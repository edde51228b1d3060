//! What passing costs: cutting events, reading them, renaming a model, reading a head.

use backstop_dialect::{Dialect, Framing, SseSplitter, StreamReader, estimate_tokens, head, splice_model};
use bytes::Bytes;
use divan::{Bencher, counter::BytesCount, counter::ItemsCount};

fn main() {
    divan::main();
}

const CHUNK: &str = "data: {\"id\":\"chatcmpl-9\",\"object\":\"chat.completion.chunk\",\"created\":1767225600,\
    \"model\":\"some-model-2026\",\"system_fingerprint\":\"fp_1\",\"choices\":[{\"index\":0,\"delta\":\
    {\"content\":\" word\"},\"logprobs\":null,\"finish_reason\":null}],\"usage\":null}\n\n";

const DELTA: &str = "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\
    \"delta\":{\"type\":\"text_delta\",\"text\":\" word\"}}\n\n";

fn request(kilobytes: usize) -> Bytes {
    let turn = format!("{{\"role\":\"user\",\"content\":\"{}\"}}", "a line of text\\n".repeat(60));
    let turns = vec![turn; kilobytes].join(",");
    Bytes::from(format!("{{\"messages\":[{turns}],\"stream\":true,\"model\":\"old\"}}"))
}

#[divan::bench]
fn split_an_event(bencher: Bencher<'_, '_>) {
    let mut splitter = SseSplitter::new();
    bencher.counter(ItemsCount::new(1usize)).bench_local(|| {
        splitter.push(divan::black_box(CHUNK.as_bytes()), |event, end| {
            divan::black_box((event, end));
        });
    });
}

#[divan::bench]
fn split_an_event_in_two_chunks(bencher: Bencher<'_, '_>) {
    let mut splitter = SseSplitter::new();
    let (first, second) = CHUNK.as_bytes().split_at(100);
    bencher.counter(ItemsCount::new(1usize)).bench_local(|| {
        for chunk in [first, second] {
            splitter.push(divan::black_box(chunk), |event, end| {
                divan::black_box((event, end));
            });
        }
    });
}

#[divan::bench(args = [Dialect::OpenAiChat, Dialect::AnthropicMessages])]
fn watch_an_event(bencher: Bencher<'_, '_>, dialect: Dialect) {
    let event = if dialect == Dialect::OpenAiChat { CHUNK } else { DELTA };
    let mut reader = StreamReader::new(dialect, Framing::Sse);
    let event = Bytes::from_static(event.as_bytes());
    bencher.counter(ItemsCount::new(1_000usize)).bench_local(|| {
        for _ in 0..1_000 {
            reader.push(divan::black_box(event.clone()));
            divan::black_box(reader.pop());
        }
    });
}

#[divan::bench(args = [1, 128])]
fn read_a_head(bencher: Bencher<'_, '_>, kilobytes: usize) {
    let body = request(kilobytes);
    bencher
        .counter(BytesCount::new(body.len()))
        .bench_local(|| head(divan::black_box(&body), Dialect::OpenAiChat).map(|head| head.stream));
}

#[divan::bench(args = [1, 128])]
fn splice_a_model(bencher: Bencher<'_, '_>, kilobytes: usize) {
    let body = request(kilobytes);
    let slot = head(&body, Dialect::OpenAiChat).map(|head| head.slot).unwrap_or_default();
    bencher
        .counter(BytesCount::new(body.len()))
        .bench_local(|| splice_model(divan::black_box(&body), &slot, "some/new-model"));
}

#[divan::bench(args = [1, 128])]
fn reserialise_for_comparison(bencher: Bencher<'_, '_>, kilobytes: usize) {
    let body = request(kilobytes);
    bencher.counter(BytesCount::new(body.len())).bench_local(|| {
        let mut value: serde_json::Value =
            serde_json::from_slice(divan::black_box(&body)).unwrap_or_default();
        value["model"] = "some/new-model".into();
        serde_json::to_vec(&value)
    });
}

#[divan::bench(args = [128])]
fn estimate(bencher: Bencher<'_, '_>, kilobytes: usize) {
    let body = request(kilobytes);
    bencher.counter(BytesCount::new(body.len())).bench_local(|| estimate_tokens(divan::black_box(&body)));
}
