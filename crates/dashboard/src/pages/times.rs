//! Times and numbers for people: clock time first, then how long; another day gets its date.

use std::fmt::Write as _;

use askama::filters::Safe;
use jiff::Timestamp;

use super::frame::Frame;

impl Frame {
    /// Clock time to the minute; with the date if it is another day.
    pub(crate) fn clock(&self, at: &Timestamp) -> String {
        self.written(at, "%H:%M")
    }

    /// Clock time to the second; with the date if it is another day.
    pub(crate) fn clock_s(&self, at: &Timestamp) -> String {
        self.written(at, "%H:%M:%S")
    }

    /// Clock time alone, to the second.
    pub(crate) fn second(&self, at: &Timestamp) -> String {
        at.to_zoned_datetime(self.zone.clone()).strftime("%H:%M:%S").to_string()
    }

    /// The day, unless it is today.
    pub(crate) fn day(&self, at: &Timestamp) -> Option<String> {
        let (at, now) =
            (at.to_zoned_datetime(self.zone.clone()), self.now.to_zoned_datetime(self.zone.clone()));
        (at.date() != now.date()).then(|| at.strftime("%a %-d %b").to_string())
    }

    /// The day as fields of forms write it: `2026-03-12`.
    pub(crate) fn date(&self, at: &Timestamp) -> String {
        at.to_zoned_datetime(self.zone.clone()).strftime("%Y-%m-%d").to_string()
    }

    /// Day, month, year and clock time.
    pub(crate) fn full(&self, at: &Timestamp) -> String {
        at.to_zoned_datetime(self.zone.clone()).strftime("%a %-d %b %Y, %H:%M:%S").to_string()
    }

    /// How long ago, in the largest unit.
    pub(crate) fn ago(&self, at: &Timestamp) -> String {
        let seconds = self.now.duration_since(*at).as_secs().max(0);
        match seconds {
            0..=1 => "just now".to_owned(),
            2..=59 => format!("{seconds} s ago"),
            60..=3599 => format!("{} min ago", seconds / 60),
            3600..=86_399 => format!("{} h ago", seconds / 3600),
            _ => format!("{} d ago", seconds / 86_400),
        }
    }

    /// A countdown that runs on in the page.
    pub(crate) fn left(&self, until: &Timestamp) -> Safe<String> {
        let seconds = until.duration_since(self.now).as_secs().max(0);
        Safe(format!("<b class=\"live w5\" data-until=\"{until}\">{}</b>", countdown(seconds)))
    }

    /// A text of ours as a sentence, with its moments as people write them.
    pub(crate) fn sentence(&self, text: &str) -> String {
        let word = |word: &str| {
            let bare = word.trim_end_matches([';', ',', '.', ':']);
            match bare.parse::<Timestamp>() {
                Ok(at) => format!("{}{}", self.clock(&at), &word[bare.len()..]),
                Err(_) => word.to_owned(),
            }
        };
        let text = text.split(' ').map(word).collect::<Vec<_>>().join(" ");
        let mut letters = text.chars();
        let first = letters.next().map(char::to_uppercase).into_iter().flatten();
        let end = if text.ends_with('.') { "" } else { "." };
        first.chain(letters).chain(end.chars()).collect()
    }

    fn written(&self, at: &Timestamp, clock: &str) -> String {
        let (at, now) =
            (at.to_zoned_datetime(self.zone.clone()), self.now.to_zoned_datetime(self.zone.clone()));
        let date = match (at.date() == now.date(), at.year() == now.year()) {
            (true, _) => String::new(),
            (false, true) => "%a %-d %b, ".to_owned(),
            (false, false) => "%-d %b %Y, ".to_owned(),
        };
        at.strftime(&format!("{date}{clock}")).to_string()
    }
}

/// `41:40`, `1:16:40`, `3 d 18 h`.
pub(crate) fn countdown(seconds: i64) -> String {
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    if days > 0 {
        format!("{days} d {hours} h")
    } else if hours > 0 {
        format!("{hours}:{minutes:02}:{:02}", seconds % 60)
    } else {
        format!("{minutes:02}:{:02}", seconds % 60)
    }
}

/// `640 ms`, `1.8 s`, `2 min 5 s`, `7 h 3 min`.
pub(crate) fn took(ms: u64) -> String {
    match ms {
        0..=999 => format!("{ms} ms"),
        1000..=119_999 if ms % 1000 < 100 => format!("{} s", ms / 1000),
        1000..=119_999 => format!("{}.{} s", ms / 1000, ms % 1000 / 100),
        120_000..=7_199_999 => format!("{} min {} s", ms / 60_000, ms / 1000 % 60),
        _ => format!("{} h {} min", ms / 3_600_000, ms / 60_000 % 60),
    }
}

/// A number with its thousands apart.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + 4);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Millionths of a dollar.
pub(crate) fn dollars(micros: u64) -> String {
    let mut text = format!("$ {}", grouped(micros / 1_000_000));
    let rest = micros % 1_000_000;
    let result = if micros == 0 || micros >= 1_000_000 {
        write!(text, ".{:02}", rest / 10_000)
    } else {
        write!(text, ".{:04}", rest / 100)
    };
    debug_assert!(result.is_ok(), "writing to a string does not fail");
    text
}

/// A share of a whole with one place behind the point.
#[expect(clippy::cast_precision_loss, reason = "a share for people")]
pub(crate) fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "not known".to_owned();
    }
    let share = 100.0 * part as f64 / whole as f64;
    if share > 99.9 && part < whole { "99.9".to_owned() } else { format!("{share:.1}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_times_read_as_people_write_them() {
        assert_eq!(
            ["0", "17,180", "1,000,000"],
            [0, 17_180, 1_000_000].map(grouped).each_ref().map(String::as_str)
        );
        assert_eq!([640, 1812, 125_000, 25_374_000].map(took), ["640 ms", "1.8 s", "2 min 5 s", "7 h 2 min"]);
        assert_eq!([59, 2500, 4600, 324_000].map(countdown), ["00:59", "41:40", "1:16:40", "3 d 18 h"]);
        assert_eq!([0, 18_400, 41_270_000].map(dollars), ["$ 0.00", "$ 0.0184", "$ 41.27"]);
        assert_eq!(percent(9999, 10_000), "99.9");
        assert_eq!(percent(1, 0), "not known");
    }
}
