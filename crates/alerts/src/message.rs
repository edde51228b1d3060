//! A notice as text and as JSON.

use backstop_triage::alert::{Notice, Severity};
use serde_json::{Value, json};

/// Title and body as plain text, cut to what the channel takes.
pub(crate) fn text(notice: &Notice, at_most: usize) -> String {
    let mark = match notice.severity {
        Severity::Critical => "[critical] ",
        Severity::Warning => "[warning] ",
        Severity::Info => "",
    };
    let mut text = format!("{mark}{}", notice.title());
    let body = notice.body();
    if !body.is_empty() {
        text.push('\n');
        text.push_str(&body);
    }
    cut(text, at_most)
}

/// The whole notice for programs.
pub(crate) fn json(notice: &Notice) -> Value {
    let kind = if notice.is_test() { "test" } else { notice.kind.as_str() };
    json!({
        "id": notice.id,
        "type": format!("alert.{kind}"),
        "severity": notice.severity,
        "condition": notice.condition,
        "group": notice.group,
        "count": notice.count,
        "members": notice.members,
        "causes": notice.causes.iter().map(|(condition, count)| json!({ "condition": condition, "count": count })).collect::<Vec<_>>(),
        "title": notice.title(),
        "text": notice.body(),
        "opened": notice.opened,
        "at": notice.at,
    })
}

/// Cuts after so many characters.
pub(crate) fn cut(mut text: String, at_most: usize) -> String {
    if let Some((end, _)) = text.char_indices().nth(at_most) {
        text.truncate(end);
        text.push('…');
    }
    text
}
