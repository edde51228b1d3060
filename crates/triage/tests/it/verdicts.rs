//! The verdict engine: the corpus, every wrapping of it, the whole domain of statuses, invariants, times.

mod corpus;
mod domain;
mod facts;
mod fuzz_seeds;
mod invariants;
mod packs;
mod reset;
mod score;
mod wrapping;

use backstop_triage::{Catalog, Evidence, Kind, ProviderId, Timestamp, Verdict, wire::Failure};

/// The moment of failures that tell none.
fn now() -> Timestamp {
    "2026-09-20T09:00:00Z".parse().expect("a valid moment")
}

/// The verdict on a body that a provider sent with a status.
fn verdict(provider: &str, status: u16, body: &str) -> Verdict {
    let evidence = Evidence { kind: Kind::Http { status }, text: body.to_owned(), ..Evidence::default() };
    Catalog::embedded().classify(&ProviderId::from(provider), &evidence, now())
}

/// The verdict on one line of JSON.
fn judge(line: &str) -> Verdict {
    let catalog = Catalog::embedded();
    let case = Failure::parse(line).and_then(|failure| failure.resolve(&catalog, now())).expect("a failure");
    catalog.classify(&case.provider, &case.evidence, case.now)
}
