//! Times in headers. A window's reset counts only if that window is the exhausted one.

use jiff::{Timestamp, civil::DateTime, fmt, tz::TimeZone};

use super::{Frame, Stated, duration};

pub(super) fn stated(headers: &[(String, String)], frame: &Frame<'_>) -> Stated {
    let retry = retry_after(headers, frame);
    let resets = headers
        .iter()
        .filter(|(name, _)| name.contains("reset") && exhausted(headers, name))
        .filter_map(|(_, value)| reset(value.trim(), frame))
        .reduce(Stated::later)
        .unwrap_or_default();
    match retry {
        Some(retry) => Stated { after: retry.after.or(resets.after), at: retry.at.or(resets.at) },
        None => resets,
    }
}

fn retry_after(headers: &[(String, String)], frame: &Frame<'_>) -> Option<Stated> {
    let value = |wanted: &str| headers.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.trim());
    for name in MILLISECONDS {
        if let Some(number) = value(name).and_then(|value| value.parse::<f64>().ok())
            && let Some(stated) = Stated::wait(number / 1000.0)
        {
            return Some(stated);
        }
    }
    let text = value("retry-after")?;
    if let Ok(number) = text.parse::<f64>() {
        return Stated::number(number, frame);
    }
    if let Some((seconds, _)) = duration::parse(&text.to_ascii_lowercase()) {
        return Stated::wait(seconds);
    }
    let at = http_date(text)?;
    // The sender's clock may be off: its own `date` says by how much.
    let sent = value("date").and_then(http_date);
    let wait = Stated::wait(at.duration_since(sent.unwrap_or(frame.now)).as_secs_f64().max(0.0))?;
    let at = Some(at).filter(|at| sent.is_none() && *at > frame.now);
    Some(Stated { at, ..wait })
}

pub(super) fn reset(value: &str, frame: &Frame<'_>) -> Option<Stated> {
    if let Ok(number) = value.parse::<f64>() {
        return Stated::number(number, frame);
    }
    if let Ok(at) = value.parse::<Timestamp>() {
        return Stated::moment(at, frame);
    }
    if let Some((seconds, length)) = duration::parse(&value.to_ascii_lowercase())
        && length == value.len()
    {
        return Stated::wait(seconds);
    }
    Stated::moment(http_date(value)?, frame)
}

/// Whether the window that a reset header belongs to is the exhausted one, as its sibling headers tell.
fn exhausted(headers: &[(String, String)], reset: &str) -> bool {
    let value = |name: &str| headers.iter().find(|(header, _)| header == name).map(|(_, value)| value.trim());
    let Some((stem, tail)) = reset.split_once("reset") else {
        return false;
    };
    let dimension = tail.strip_prefix("-at").or_else(|| tail.strip_prefix("-after-seconds")).unwrap_or(tail);
    if let Some(remaining) = value(&format!("{stem}remaining{dimension}")) {
        return remaining.parse::<f64>().is_ok_and(|remaining| remaining <= 0.0);
    }
    if let Some(status) = value(&format!("{stem}status{dimension}")) {
        return status.eq_ignore_ascii_case("rejected");
    }
    if let Some(used) = value(&format!("{stem}used-percent{dimension}")) {
        return used.parse::<f64>().is_ok_and(|used| used >= 100.0);
    }
    // A single window without siblings can only mean itself.
    let windows = headers.iter().filter(|(name, _)| name.contains("reset")).count();
    windows == 1 && reset.contains("limit")
}

/// The three forms of an HTTP date.
fn http_date(text: &str) -> Option<Timestamp> {
    if let Ok(zoned) = fmt::rfc2822::parse(text) {
        return Some(zoned.timestamp());
    }
    ["%A, %d-%b-%y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y"]
        .iter()
        .find_map(|form| DateTime::strptime(form, text).ok())
        .and_then(|date| date.to_zoned_datetime(TimeZone::UTC).ok())
        .map(|zoned| zoned.timestamp())
}

const MILLISECONDS: [&str; 4] =
    ["retry-after-ms", "x-ms-retry-after-ms", "x-amz-retry-after", "grpc-retry-pushback-ms"];
