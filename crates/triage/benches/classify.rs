//! What one verdict costs: by size, by shape, and by the number of rules.

use std::fmt::Write as _;

use backstop_triage::{
    Catalog, Evidence, Kind, ProviderId, Timestamp,
    facts::Facts,
    reset::{self, Frame},
    rules::Pack,
};
use divan::{Bencher, black_box};

fn main() {
    let _ = Catalog::embedded();
    divan::main();
}

fn http(status: u16, text: String) -> Evidence {
    Evidence { kind: Kind::Http { status }, text, ..Evidence::default() }
}

/// A failure of a kilobyte, as providers send them.
fn kilobyte() -> Evidence {
    let message = "Rate limit reached for gpt-4o in organization org-x on tokens per min (TPM): Limit 30000, Used 14567, \
                   Requested 24754. Please try again in 18.642s. Visit https://platform.openai.com/account/rate-limits \
                   to learn more. You can increase your rate limit by adding a payment method to your account.";
    let padding = "x".repeat(1024 - message.len() - 130);
    http(
        429,
        format!(
            "{{\"error\":{{\"message\":\"{message}\",\"type\":\"tokens\",\"param\":null,\"code\":\"rate_limit_exceeded\"}},\
             \"request_id\":\"req_0123456789\",\"trace\":\"{padding}\"}}"
        ),
    )
}

fn page() -> Evidence {
    let mut page = String::from("<!DOCTYPE html><html><head><title>502 Bad Gateway</title></head><body>");
    while page.len() < 64 * 1024 {
        page.push_str(
            "<p>The server could not be reached, unauthorized, rate limit exceeded, please try again.</p>\n",
        );
    }
    http(502, page)
}

fn classify(bencher: Bencher<'_, '_>, catalog: &Catalog, provider: &str, evidence: &Evidence) {
    let (provider, now) = (ProviderId::from(provider), Timestamp::UNIX_EPOCH);
    bencher.bench_local(|| black_box(catalog.classify(&provider, black_box(evidence), now)));
}

#[divan::bench]
fn json_1kb_own_pack(bencher: Bencher<'_, '_>) {
    classify(bencher, &Catalog::embedded(), "openai", &kilobyte());
}

#[divan::bench]
fn json_1kb_unknown_provider(bencher: Bencher<'_, '_>) {
    classify(bencher, &Catalog::embedded(), "unheard-of", &kilobyte());
}

#[divan::bench]
fn short_json(bencher: Bencher<'_, '_>) {
    let evidence =
        http(402, r#"{"error":{"message":"Insufficient Balance","type":"unknown_error"}}"#.to_owned());
    classify(bencher, &Catalog::embedded(), "deepseek", &evidence);
}

#[divan::bench]
fn empty_body(bencher: Bencher<'_, '_>) {
    classify(bencher, &Catalog::embedded(), "openai", &http(503, String::new()));
}

#[divan::bench]
fn html_64kb(bencher: Bencher<'_, '_>) {
    classify(bencher, &Catalog::embedded(), "openai", &page());
}

#[divan::bench]
fn open_json_1kb(bencher: Bencher<'_, '_>) {
    let evidence = kilobyte();
    bencher.bench_local(|| black_box(Facts::open(black_box(&evidence))).text.len());
}

#[divan::bench]
fn read_times_of_json_1kb(bencher: Bencher<'_, '_>) {
    let evidence = kilobyte();
    let facts = Facts::open(&evidence);
    let frame = Frame { now: Timestamp::UNIX_EPOCH, zone: None };
    bencher.bench_local(|| black_box(reset::heals(black_box(&facts), &evidence, &frame)));
}

/// The same failure against 10, 100 and 1,000 rules, of which the last one matches.
#[divan::bench(args = [10, 100, 1000])]
fn json_1kb_by_rules(bencher: Bencher<'_, '_>, rules: usize) {
    let mut toml = String::from("provider = \"many\"\n");
    for number in 1..rules {
        let _ = write!(
            toml,
            "[[rule]]\nid = \"many/{number}\"\nany = [\"failure number {number} of many\", \"another phrase {number}\"]\n\
             class = \"unknown\"\nreason = \"other\"\n"
        );
    }
    toml.push_str("[[rule]]\nid = \"many/last\"\nall = [\"tokens per min\"]\nclass = \"rate_limit\"\nreason = \"tokens\"\n");
    let pack = Pack::parse("many.toml", &toml).expect("a valid pack");
    let catalog = Catalog::of(vec![pack], 0).expect("no references");
    classify(bencher, &catalog, "many", &kilobyte());
}

/// Parsing and compiling every embedded pack: what a start or a reload costs.
#[divan::bench]
fn compile_embedded() -> Catalog {
    Catalog::with_user_packs(&[]).expect("valid packs")
}
