//! Small drawings: the strip of a day, the trail of attempts, the pips of keys. Each has its words beside it.

use std::fmt::Write as _;

use askama::filters::Safe;
use backstop_store::{requests::RequestRow, traffic::KeyTraffic};
use backstop_triage::Class;

/// The last 24 hours of a key in half hours. Cells differ in height as well as hue.
pub(crate) fn strip(cells: &[KeyTraffic]) -> Safe<String> {
    const KINDS: [(&str, u32, &str); 5] = [
        ("off", 2, "no traffic"),
        ("rest", 7, "resting"),
        ("ok", 12, "good"),
        ("warn", 16, "some failures"),
        ("bad", 20, "mostly failures"),
    ];
    let mut paths = [const { String::new() }; 5];
    let mut counts = [0_u32; 5];
    for (place, cell) in (0_u32..).zip(cells) {
        let kind = match (cell.succeeded, cell.failed) {
            (0, 0) if cell.rested => 1,
            (0, 0) => 0,
            (_, 0) => 2,
            (succeeded, failed) if failed < succeeded => 3,
            // The failures that began a rest are not what the half hour was like.
            (0, _) if cell.rested => 1,
            (_, _) => 4,
        };
        counts[kind] += 1;
        let x = place * 36 + 13;
        draw(&mut paths[kind], format_args!("M{}.{} 20v-{}", x / 10, x % 10, KINDS[kind].1));
    }
    let seen = KINDS.iter().zip(counts).filter(|(_, count)| *count > 0);
    let words = seen.map(|((_, _, word), count)| format!("{count} {word}")).collect::<Vec<_>>().join(", ");
    let mut text = format!(
        "<svg class=\"strip\" viewBox=\"0 0 172 20\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"Last 24 hours, half-hours: {words}\"><title>Last 24 hours, half-hours: {words}</title>"
    );
    for ((hue, _, _), path) in KINDS.iter().zip(&paths).filter(|(_, path)| !path.is_empty()) {
        draw(&mut text, format_args!("<path class=\"d-{hue}\" d=\"{path}\"/>"));
    }
    text.push_str("</svg>");
    Safe(text)
}

/// The attempts of a request: a cross failed, a ring failed and the key rests, a square answered.
pub(crate) fn trail(row: &RequestRow) -> Safe<String> {
    let shown = row.attempts.len().min(MOST_SHOWN);
    let failed = row.attempts.iter().filter(|attempt| attempt.failure.is_some()).count();
    let words = match (row.attempts.len(), failed) {
        (0, _) => "no attempt".to_owned(),
        (1, 0) => "1 attempt".to_owned(),
        (1, _) => "1 attempt, failed".to_owned(),
        (all, 0) => format!("{all} attempts"),
        (all, failed) => format!("{all} attempts, {failed} failed"),
    };
    let width = shown.max(1) * 14;
    let mut text = format!(
        "<svg class=\"trail\" width=\"{width}\" height=\"14\" viewBox=\"0 0 {width} 14\" role=\"img\" aria-label=\"{words}\"><title>{words}</title>"
    );
    for (place, attempt) in row.attempts.iter().take(shown).enumerate() {
        let x = place * 14;
        match &attempt.failure {
            None => draw(
                &mut text,
                format_args!(
                    "<rect class=\"hit-ok\" x=\"{}\" y=\"2\" width=\"10\" height=\"10\" rx=\"3\"/>",
                    x + 1
                ),
            ),
            Some(failure) if rests(failure.class) => {
                draw(
                    &mut text,
                    format_args!("<circle class=\"rested\" cx=\"{}\" cy=\"7\" r=\"3.8\"/>", x + 6),
                );
            }
            Some(_) => draw(
                &mut text,
                format_args!("<path class=\"miss\" d=\"M{}.5 3.5l7 7M{}.5 3.5l-7 7\"/>", x + 2, x + 9),
            ),
        }
    }
    text.push_str("</svg>");
    if row.attempts.len() > shown {
        draw(&mut text, format_args!(" <span class=\"faint small\">+{}</span>", row.attempts.len() - shown));
    }
    Safe(text)
}

/// One mark per key by its state, forty at most.
pub(crate) fn pips<'a>(states: impl IntoIterator<Item = (&'a str, usize)>) -> Safe<String> {
    let mut marks = String::new();
    let mut place = 0;
    for (state, count) in states {
        let (hue, y, height) = match state {
            "active" => ("ok", 0, 12),
            "unstable" => ("warn", 0, 12),
            "resting" | "half_open" => ("rest", 5, 7),
            "disabled" | "quarantined" | "locked" => ("bad", 0, 12),
            _ => ("off", 9, 3),
        };
        for _ in 0..count.min(PIPS - place) {
            let x = place * 8;
            draw(
                &mut marks,
                format_args!(
                    "<rect class=\"d-{hue}\" x=\"{x}\" y=\"{y}\" width=\"6\" height=\"{height}\" rx=\"1.5\"/>"
                ),
            );
            place += 1;
        }
    }
    let width = (place * 8).saturating_sub(2);
    Safe(format!("<svg class=\"pips\" width=\"{width}\" height=\"12\" aria-hidden=\"true\">{marks}</svg>"))
}

/// Whether a failure of this class rests its key.
pub(crate) fn rests(class: Class) -> bool {
    match class {
        Class::QuotaExhausted
        | Class::RateLimit
        | Class::BillingExhausted
        | Class::AuthError
        | Class::Unknown => true,
        Class::RequestError
        | Class::ContextOverflow
        | Class::TransientRequest
        | Class::ModelError
        | Class::Overloaded
        | Class::ServerError
        | Class::Timeout
        | Class::NetworkError
        | Class::ConfigurationError
        | Class::LocalFault => false,
    }
}

fn draw(text: &mut String, piece: std::fmt::Arguments<'_>) {
    let written = text.write_fmt(piece);
    debug_assert!(written.is_ok(), "writing to a string does not fail");
}

const MOST_SHOWN: usize = 10;
const PIPS: usize = 40;
