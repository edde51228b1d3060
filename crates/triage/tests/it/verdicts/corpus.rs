//! Every line of the corpus through the engine, as its provider's and as a stranger's.

use std::fmt::Write as _;

use backstop_triage::{Catalog, Class};
use expect_test::expect_file;
use serde_json::json;

use super::score::{Line, Score, corpus, percent};

#[test]
fn the_corpus_is_read_right_and_nothing_is_harmful() {
    let score = scored(corpus().iter());
    assert!(score.accuracy() >= 99.0, "{:.2} %\n{}", score.accuracy(), score.wrong.join("\n"));
    assert!(score.harmful.is_empty(), "{}", score.harmful.join("\n"));
    for (field, least) in [
        ("disable_key", 99.5),
        ("window", 98.0),
        ("retry_after_s", 98.0),
        ("reset_at", 98.0),
        ("scope", 97.0),
        ("reason", 97.0),
    ] {
        assert!(score.field(field) >= least, "{field}: {:.2} %", score.field(field));
    }
}

#[test]
fn a_provider_without_a_pack_is_read_almost_as_well() {
    let score = as_stranger();
    assert!(score.accuracy() >= 95.0, "{:.2} %\n{}", score.accuracy(), score.wrong.join("\n"));
    assert!(score.harmful.is_empty(), "{}", score.harmful.join("\n"));
    assert!(score.field("disable_key") >= 99.0, "{:.2} %", score.field("disable_key"));
}

#[test]
fn the_page_about_quality_is_up_to_date() {
    let (own, stranger) = (scored(corpus().iter()), as_stranger());
    expect_file!["../../../../../docs/verdict-quality.md"].assert_eq(&page(&own, &stranger));
}

fn scored<'l>(lines: impl Iterator<Item = &'l Line>) -> Score {
    let catalog = Catalog::embedded();
    let mut score = Score::default();
    for line in lines {
        score.add(line, &line.report(&catalog));
    }
    score
}

fn as_stranger() -> Score {
    let lines: Vec<_> = corpus()
        .iter()
        .cloned()
        .map(|mut line| {
            line.failure["provider"] = json!("unheard-of");
            line
        })
        .collect();
    scored(lines.iter())
}

fn page(own: &Score, stranger: &Score) -> String {
    let mut page = String::from(HEAD);
    for class in Class::ALL {
        let (right, of) = own.by_class.get(&class).copied().unwrap_or_default();
        let (stranger, _) = stranger.by_class.get(&class).copied().unwrap_or_default();
        let _ = writeln!(page, "| `{class}` | {of} | {right} | {stranger} |");
    }
    let _ = writeln!(page, "| all | {} | {} | {} |", own.lines, own.right, stranger.right);
    let _ = writeln!(page, "| right | | {:.1} % | {:.1} % |", own.accuracy(), stranger.accuracy());
    let _ = writeln!(page, "| harmful | | {} | {} |\n", own.harmful.len(), stranger.harmful.len());
    page.push_str(
        "| field | lines that have it | right | without the provider's pack |\n|---|---:|---:|---:|\n",
    );
    for (field, (right, of)) in &own.by_field {
        let (_, least) = stranger.by_field.get(field).copied().unwrap_or_default();
        let _ = writeln!(
            page,
            "| `{field}` | {of} | {:.1} % | {:.1} % of {least} |",
            percent(*right, *of),
            stranger.field(field)
        );
    }
    page
}

const HEAD: &str = "# How well failures are read

The corpus (`crates/triage/corpus/`) holds real failures with the verdict that serves the user. This page is written by
the test that scores it: `UPDATE_EXPECT=1 cargo test -p backstop-triage --test it quality`.

A verdict is *harmful* when its action hurts where the right one would not have: a good key disabled, a dead key or a full
window hammered, a request's own fault burning the pool, a curable failure returned to the client, an unknown treated as
eager. The last column reads every line as if its provider had no rule pack, which is how a provider that nobody has met is
read.

| class | lines | right | without the provider's pack |
|---|---:|---:|---:|
";
