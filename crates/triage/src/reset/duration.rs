//! Durations as people and programs write them: `6m0s`, `1h2m3.5s`, `120ms`, `in 3 days`, `2小时`.

/// Reads a duration from the beginning of folded text; returns its seconds and its length in bytes.
pub fn parse(text: &str) -> Option<(f64, usize)> {
    let mut at = 0;
    let mut seconds = 0.0;
    let mut found = false;
    while let Some((value, unit, length)) = text.get(at..).and_then(part) {
        seconds += value * unit;
        at += length;
        found = true;
        let rest = text.get(at..).unwrap_or_default();
        let joint = JOINTS.iter().find(|joint| rest.starts_with(**joint)).map_or("", |joint| joint);
        let next = rest.get(joint.len()..).unwrap_or_default();
        if !next.starts_with(|c: char| c.is_ascii_digit()) || part(next).is_none() {
            break;
        }
        at += joint.len();
    }
    found.then_some((seconds, at))
}

/// A number and its unit.
fn part(text: &str) -> Option<(f64, f64, usize)> {
    let (number, digits) = number(text)?;
    let rest = text.get(digits..)?;
    let spaces = rest.len() - rest.trim_start_matches([' ', '-']).len();
    let unit_text = rest.get(spaces..)?;
    for (names, unit) in UNITS {
        for name in names {
            let Some(after) = unit_text.strip_prefix(name) else {
                continue;
            };
            if name.is_ascii() && after.starts_with(|c: char| c.is_ascii_alphabetic()) {
                continue;
            }
            return Some((number, unit, digits + spaces + name.len()));
        }
    }
    None
}

/// Reads `07:01:20` or `1.07:01:20`, as .NET prints a span, from the beginning of a text.
pub(super) fn span(text: &str) -> Option<f64> {
    let length = text.bytes().take_while(|byte| byte.is_ascii_digit() || matches!(byte, b':' | b'.')).count();
    let text = text.get(..length)?.trim_end_matches('.');
    let (days, clock) = match text.split_once('.').filter(|(days, _)| !days.contains(':')) {
        Some((days, clock)) => (days.parse::<u16>().ok()?, clock),
        None => (0, text),
    };
    let mut parts = clock.splitn(3, ':');
    let mut part = || parts.next().filter(|part| part.len() >= 2)?.parse::<f64>().ok();
    let (hours, minutes, seconds) = (part()?, part()?, part()?);
    (minutes < 60.0 && seconds < 60.0)
        .then_some(f64::from(days) * 86400.0 + hours * 3600.0 + minutes * 60.0 + seconds)
}

/// A decimal number at the beginning of a text, and its length.
pub(super) fn number(text: &str) -> Option<(f64, usize)> {
    let length = text.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'.').count();
    let digits = text.get(..length)?.trim_end_matches('.');
    if !digits.starts_with(|c: char| c.is_ascii_digit()) || digits.len() > 20 {
        return None;
    }
    Some((digits.parse().ok()?, digits.len()))
}

const JOINTS: [&str; 5] = [" and ", ", and ", ", ", " ", ":"];
/// Units with their names, the longest names first.
const UNITS: [(&[&str], f64); 7] = [
    (&["milliseconds", "millisecond", "msecs", "ms", "毫秒", "ミリ秒", "밀리초"], 0.001),
    (
        &[
            "seconds",
            "second",
            "secs",
            "sec",
            "s",
            "秒钟",
            "秒",
            "초",
            "sekunden",
            "sekunde",
            "sek",
            "segundos",
            "segundo",
            "secondes",
            "seconde",
            "secondi",
            "секунд",
            "сек",
            "giây",
        ],
        1.0,
    ),
    (
        &[
            "minutes",
            "minute",
            "mins",
            "min",
            "m",
            "分钟",
            "分",
            "분",
            "minuten",
            "minutos",
            "minuto",
            "minuti",
            "минут",
            "мин",
            "phút",
        ],
        60.0,
    ),
    (
        &[
            "hours",
            "hour",
            "hrs",
            "hr",
            "h",
            "个小时",
            "小时",
            "時間",
            "시간",
            "stunden",
            "stunde",
            "std",
            "horas",
            "hora",
            "heures",
            "heure",
            "ore",
            "час",
            "giờ",
        ],
        3600.0,
    ),
    (
        &[
            "days", "day", "d", "天", "日", "일", "tagen", "tage", "tag", "días", "dias", "día", "dia",
            "jours", "jour", "giorni", "дней", "дня", "день", "ngày",
        ],
        86400.0,
    ),
    (&["weeks", "week", "wk", "w", "个星期", "星期", "周"], 604_800.0),
    (&["months", "month", "个月"], 2_592_000.0),
];

#[cfg(test)]
mod tests {
    use super::{parse, span};

    #[test]
    fn every_spelling_of_a_duration() {
        for (text, seconds) in [
            ("6m0s", 360.0),
            ("1h2m3.5s", 3723.5),
            ("120ms", 0.12),
            ("7.66s", 7.66),
            ("21h53m56s.", 78836.0),
            ("3 days", 259_200.0),
            ("2 hours and 30 minutes", 9000.0),
            ("1 hour, 5 minutes", 3900.0),
            ("58 hours. please", 208_800.0),
            ("2小时", 7200.0),
            ("30 秒后重试", 30.0),
            ("20 seconds.", 20.0),
        ] {
            assert_eq!(parse(text).map(|(seconds, _)| seconds), Some(seconds), "{text}");
        }
        for (text, seconds) in [
            ("07:01:20.", Some(25280.0)),
            ("1.00:00:05", Some(86405.0)),
            ("10:57 pm", None),
            ("12:99:00", None),
        ] {
            assert_eq!(span(text), seconds, "{text}");
        }
        for text in ["20", "5 models", "10 messages", "", "1e9 s", ".5.5.5s"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
