//! Hours in which only critical alerts are delivered.

use backstop_triage::Timestamp;
use jiff::{civil::Time, tz::TimeZone};

/// A daily span such as `22:00-07:00 Europe/Berlin`.
#[derive(Clone, Debug, PartialEq)]
pub struct QuietHours {
    from: Time,
    to: Time,
    zone: TimeZone,
}

impl QuietHours {
    /// Reads `HH:MM-HH:MM`, with a time zone behind it unless `local` is meant. The problem comes as text.
    pub fn parse(text: &str, local: &TimeZone) -> Result<Self, String> {
        let usage =
            || format!("quiet = {text:?} must look like \"22:00-07:00\" or \"22:00-07:00 Europe/Berlin\"");
        let (span, zone) = match text.trim().split_once(' ') {
            Some((span, zone)) => {
                let zone = zone.trim();
                (span, TimeZone::get(zone).map_err(|_| format!("quiet = {text:?} names no known time zone"))?)
            }
            None => (text.trim(), local.clone()),
        };
        let (from, to) = span.split_once('-').ok_or_else(usage)?;
        let time = |text: &str| Time::strptime("%H:%M", text.trim()).map_err(|_| usage());
        let (from, to) = (time(from)?, time(to)?);
        if from == to { Err(usage()) } else { Ok(Self { from, to, zone }) }
    }

    /// When the quiet hours that `now` falls into are over; `None` outside of them.
    pub fn end(&self, now: Timestamp) -> Option<Timestamp> {
        let here = now.to_zoned_datetime(self.zone.clone());
        let time = here.time();
        let over_midnight = self.from > self.to;
        let inside = if over_midnight {
            time >= self.from || time < self.to
        } else {
            time >= self.from && time < self.to
        };
        if !inside {
            return None;
        }
        let day = if over_midnight && time >= self.from { here.date().tomorrow().ok()? } else { here.date() };
        Some(day.to_datetime(self.to).to_zoned_datetime(self.zone.clone()).ok()?.timestamp())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_over_midnight_ends_in_the_morning_of_its_zone() {
        let quiet = QuietHours::parse("22:00-07:00 Europe/Berlin", &TimeZone::UTC).unwrap();
        let end = |now: &str| quiet.end(now.parse().unwrap()).map(|end| end.to_string());
        assert_eq!(end("2026-11-30T20:59:00Z"), None);
        assert_eq!(end("2026-11-30T21:00:00Z").as_deref(), Some("2026-12-01T06:00:00Z"));
        assert_eq!(end("2026-12-01T05:59:59Z").as_deref(), Some("2026-12-01T06:00:00Z"));
        assert_eq!(end("2026-12-01T06:00:00Z"), None);
        // The night in which summer time begins.
        assert_eq!(end("2026-03-28T22:00:00Z").as_deref(), Some("2026-03-29T05:00:00Z"));
    }

    #[test]
    fn a_span_within_a_day_and_mistakes() {
        let quiet = QuietHours::parse("12:00-13:30", &TimeZone::UTC).unwrap();
        assert_eq!(
            quiet.end("2026-11-30T12:30:00Z".parse().unwrap()).unwrap().to_string(),
            "2026-11-30T13:30:00Z"
        );
        for wrong in ["", "22-7", "22:00", "22:00-22:00", "25:00-07:00", "22:00-07:00 Mars/Olympus"] {
            assert!(QuietHours::parse(wrong, &TimeZone::UTC).is_err(), "{wrong}");
        }
    }
}
