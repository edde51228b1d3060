//! Server-sent events, as far as a failure needs them: the data of every frame, whether the frame is called
//! an error, and frames glued to a cut one.

use std::borrow::Cow;

/// One event of a stream.
pub(super) struct Frame<'t> {
    pub(super) data: Cow<'t, str>,
    /// Whether the event's name says that it is an error.
    pub(super) failed: bool,
    /// A status that a comment tells (`:HTTP_STATUS/429`).
    pub(super) status: Option<u16>,
}

/// Whether a text is a stream of events.
pub(super) fn is_stream(text: &str) -> bool {
    text.lines().take(8).any(|line| {
        line.starts_with("data:")
            || line.starts_with("event:")
            || line.starts_with(": ")
            || line.starts_with("error: {")
            || line.starts_with("error:{")
    })
}

/// The events of a stream; comments and the closing `[DONE]` are none.
pub(super) fn frames(text: &str) -> Vec<Frame<'_>> {
    let mut frames = Vec::new();
    let mut failed = false;
    let mut status = None;
    let mut data: Option<Cow<'_, str>> = None;
    for line in text.lines().chain([""]) {
        let line = line.trim_end_matches('\r');
        if let Some(payload) = line.strip_prefix("data:") {
            let payload = payload.trim_start();
            data = Some(match data.take() {
                None => Cow::Borrowed(payload),
                // A data line that is a value of its own is a new event whose separator was lost.
                Some(before) if payload.starts_with('{') => {
                    push(&mut frames, before, failed, status.take());
                    Cow::Borrowed(payload)
                }
                Some(before) => Cow::Owned(format!("{before}\n{payload}")),
            });
        } else if let Some(name) = line.strip_prefix("event:") {
            failed = matches!(name.trim(), "error" | "exception" | "response.failed" | "failed");
        } else if let Some(payload) = line.strip_prefix("error:") {
            push(&mut frames, Cow::Borrowed(payload.trim_start()), true, None);
        } else if let Some(comment) = line.strip_prefix(':') {
            status =
                comment.trim().strip_prefix("HTTP_STATUS/").and_then(|status| status.parse().ok()).or(status);
        } else if line.trim().is_empty() {
            if let Some(payload) = data.take() {
                push(&mut frames, payload, failed, status.take());
            }
            failed = false;
        } else if line.starts_with(['{', '[']) || data.is_none() && line.trim_start().starts_with('{') {
            // A value without a field's name, perhaps over many lines.
            if let Some(before) = data.replace(Cow::Borrowed(line)) {
                push(&mut frames, before, failed, status.take());
            }
        } else if let Some(before) = data.take() {
            let mut before = before.into_owned();
            before.push('\n');
            before.push_str(line);
            data = Some(Cow::Owned(before));
        }
    }
    frames
}

fn push<'t>(frames: &mut Vec<Frame<'t>>, data: Cow<'t, str>, failed: bool, status: Option<u16>) {
    if data.trim() != "[DONE]" && !data.trim().is_empty() {
        frames.push(Frame { data, failed, status });
    }
}

/// Where a second frame begins inside one that was cut off.
pub(super) fn glued(data: &str) -> Option<usize> {
    GLUED
        .iter()
        .filter_map(|mark| data.rfind(mark).filter(|at| *at > 0))
        .max()
        .map(|at| data.get(at..).and_then(|rest| rest.find('{')).map_or(at, |brace| at + brace))
}

const GLUED: [&str; 4] = ["data: {", "data:{", "{\"error\":", "{\"type\":\"error\""];
