//! Moments as people write them, in folded text: `2026-09-14 10:00:00`, `4am (europe/berlin)`,
//! `apr 28th, 2026 4:13 pm`, `08-14 09:18:00 utc`, `次日 04:00`.

use jiff::{
    SignedDuration, Timestamp,
    civil::{Date, DateTime, Time},
    tz::{Offset, TimeZone},
};

use super::Frame;

/// Reads a moment from the beginning of folded text.
pub(super) fn moment(text: &str, frame: &Frame<'_>) -> Option<Timestamp> {
    let mut cursor = Cursor { text };
    let first = text.as_bytes().first()?;
    if first.is_ascii_alphabetic() && !WORDS.iter().any(|word| text.starts_with(word)) {
        return None;
    }
    iso(&mut cursor.clone(), frame)
        .or_else(|| short_date(&mut cursor.clone(), frame))
        .or_else(|| named_month(&mut cursor.clone(), frame))
        .or_else(|| tomorrow(&mut cursor.clone(), frame))
        .or_else(|| time_of_day(&mut cursor, frame))
}

/// `2026-09-14 10:00:00`, `2026-09-14t10:00z`, `2025-06-01 at 00:00 utc`, `2026-10-01`.
fn iso(cursor: &mut Cursor<'_>, frame: &Frame<'_>) -> Option<Timestamp> {
    let year = i16::try_from(cursor.digits(4)?).ok()?;
    let separator = cursor.any(&["-", "/", ".", "年"])?;
    let month = cursor.digits_up_to(2)?;
    cursor.any(if separator == "年" { &["月"] } else { std::slice::from_ref(&separator) })?;
    let day = cursor.digits_up_to(2)?;
    let _ = cursor.any(&["日"]);
    let day = Date::new(year, i8::try_from(month).ok()?, i8::try_from(day).ok()?).ok()?;
    let _ = cursor.any(&[" at ", ", ", "t", " "]);
    let time = time(cursor).unwrap_or(Time::midnight());
    place(day.to_datetime(time), &zone(cursor, frame))
}

/// `08-14 09:18:00 utc`.
fn short_date(cursor: &mut Cursor<'_>, frame: &Frame<'_>) -> Option<Timestamp> {
    let month = cursor.digits(2)?;
    let separator = cursor.any(&["-", "/", "月"])?;
    let day = cursor.digits(2)?;
    let _ = cursor.any(&["日"]);
    let _ = (separator == "月") || cursor.any(&[" "]).is_some();
    let time = time(cursor)?;
    let zone = zone(cursor, frame);
    nearest_year(i8::try_from(month).ok()?, i8::try_from(day).ok()?, time, &zone, frame)
}

/// `jul 26, 5:59am`, `apr 28th, 2026 4:13 pm`, `1 june 2026`.
fn named_month(cursor: &mut Cursor<'_>, frame: &Frame<'_>) -> Option<Timestamp> {
    let first = cursor.digits_up_to(2);
    if first.is_some() {
        let _ = cursor.any(&["st", "nd", "rd", "th"]);
        let _ = cursor.any(&[" of "]);
        cursor.skip_spaces();
    }
    let month = cursor.month()?;
    cursor.skip_spaces();
    let day = match first {
        Some(day) => day,
        None => {
            let day = cursor.digits_up_to(2)?;
            let _ = cursor.any(&["st", "nd", "rd", "th"]);
            day
        }
    };
    let _ = cursor.any(&[", ", " ", ","]);
    let year = cursor.clone().year().inspect(|_| {
        let _ = cursor.year();
        let _ = cursor.any(&[", ", ",", " at ", " "]);
    });
    let _ = cursor.any(&["at "]);
    let time = time(cursor).unwrap_or(Time::midnight());
    let zone = zone(cursor, frame);
    let (month, day) = (i8::try_from(month).ok()?, i8::try_from(day).ok()?);
    match year {
        Some(year) => place(Date::new(year, month, day).ok()?.to_datetime(time), &zone),
        None => nearest_year(month, day, time, &zone, frame),
    }
}

/// `tomorrow at 4am`, `次日 04:00`.
fn tomorrow(cursor: &mut Cursor<'_>, frame: &Frame<'_>) -> Option<Timestamp> {
    cursor.any(&["tomorrow", "次日", "明日", "明天"])?;
    let _ = cursor.any(&[" at ", " ", ", "]);
    let _ = cursor.any(&["凌晨", "早上", "上午"]);
    let time = time(cursor).unwrap_or(Time::midnight());
    let zone = zone(cursor, frame);
    let today = frame.now.to_zoned_datetime(zone.clone()).date();
    place(today.tomorrow().ok()?.to_datetime(time), &zone)
}

/// `4am (europe/berlin)`, `11:30pm`, `23:40 utc`, `midnight pt`: the next time the clock shows it.
fn time_of_day(cursor: &mut Cursor<'_>, frame: &Frame<'_>) -> Option<Timestamp> {
    let time = if cursor.any(&["midnight"]).is_some() { Time::midnight() } else { time(cursor)? };
    let zone = zone(cursor, frame);
    let today = frame.now.to_zoned_datetime(zone.clone()).date();
    let at = place(today.to_datetime(time), &zone)?;
    // An hour that has just passed is the one that was meant, not tomorrow's.
    if at.duration_since(frame.now) >= -JUST_PASSED {
        return Some(at);
    }
    place(today.tomorrow().ok()?.to_datetime(time), &zone)
}

fn place(local: DateTime, zone: &TimeZone) -> Option<Timestamp> {
    zone.to_ambiguous_zoned_datetime(local).compatible().ok().map(|zoned| zoned.timestamp())
}

/// The occurrence of a day without a year that lies nearest, with a preference for what is to come.
fn nearest_year(month: i8, day: i8, time: Time, zone: &TimeZone, frame: &Frame<'_>) -> Option<Timestamp> {
    let year = frame.now.to_zoned_datetime(zone.clone()).year();
    [year - 1, year, year + 1]
        .into_iter()
        .filter_map(|year| place(Date::new(year, month, day).ok()?.to_datetime(time), zone))
        .find(|at| at.duration_since(frame.now) >= -SignedDuration::from_hours(48))
}

/// `10:00`, `10:00:00`, `4:13 pm`, `4am`, `8点`. A bare number is no time.
fn time(cursor: &mut Cursor<'_>) -> Option<Time> {
    let hour = cursor.digits_up_to(2)?;
    let mut minute = 0;
    let mut second = 0;
    let mut told = false;
    if cursor.any(&[":"]).is_some() {
        minute = cursor.digits(2)?;
        told = true;
        if cursor.any(&[":"]).is_some() {
            second = cursor.digits(2)?;
            if cursor.any(&["."]).is_some() {
                let _ = cursor.digits_up_to(9);
            }
        }
    } else if cursor.any(&["点", "时"]).is_some() {
        told = true;
    }
    let half = cursor.any(&[" a.m.", " p.m.", " am", " pm", "am", "pm"]);
    let hour = match half.map(|half| half.contains('p')) {
        None if !told => return None,
        None => hour,
        Some(_) if hour == 0 || hour > 12 => return None,
        Some(afternoon) => hour % 12 + if afternoon { 12 } else { 0 },
    };
    Time::new(i8::try_from(hour).ok()?, i8::try_from(minute).ok()?, i8::try_from(second.min(59)).ok()?, 0)
        .ok()
}

/// The zone that follows a time, or the frame's.
fn zone(cursor: &mut Cursor<'_>, frame: &Frame<'_>) -> TimeZone {
    let _ = cursor.any(&[" "]);
    let bracketed = cursor.any(&["("]).is_some();
    let name: String =
        cursor.text.chars().take_while(|c| c.is_ascii_alphanumeric() || "/_+-:".contains(*c)).collect();
    let name = name.trim_end_matches(['-', ':']);
    if cursor.text.starts_with("北京时间") {
        return TimeZone::get("Asia/Shanghai").unwrap_or_else(|_| frame.zone());
    }
    let found = named_zone(name).or_else(|| offset(name));
    if found.is_none() && bracketed {
        return TimeZone::get(name).unwrap_or_else(|_| frame.zone());
    }
    found.unwrap_or_else(|| frame.zone())
}

fn named_zone(name: &str) -> Option<TimeZone> {
    match name {
        "utc" | "gmt" | "z" => Some(TimeZone::UTC),
        "pt" | "pst" | "pdt" | "pacific" => TimeZone::get("America/Los_Angeles").ok(),
        "et" | "est" | "edt" | "eastern" => TimeZone::get("America/New_York").ok(),
        "cet" | "cest" => TimeZone::get("Europe/Paris").ok(),
        "bst" => TimeZone::get("Europe/London").ok(),
        "jst" => TimeZone::get("Asia/Tokyo").ok(),
        "kst" => TimeZone::get("Asia/Seoul").ok(),
        "ist" => TimeZone::get("Asia/Kolkata").ok(),
        name if name.contains('/') => TimeZone::get(name).ok(),
        _ => None,
    }
}

/// `+08:00`, `utc+8`, `gmt-0700`.
fn offset(name: &str) -> Option<TimeZone> {
    let rest = name.strip_prefix("utc").or_else(|| name.strip_prefix("gmt")).unwrap_or(name);
    let (sign, rest) = match rest.split_at_checked(1)? {
        ("+", rest) => (1, rest),
        ("-", rest) => (-1, rest),
        _ => return None,
    };
    let digits: String = rest.chars().filter(char::is_ascii_digit).collect();
    let (hours, minutes) = match digits.len() {
        1 | 2 => (digits.parse::<i32>().ok()?, 0),
        4 => (digits.get(..2)?.parse::<i32>().ok()?, digits.get(2..)?.parse::<i32>().ok()?),
        _ => return None,
    };
    Offset::from_seconds(sign * (hours * 3600 + minutes * 60)).ok().map(TimeZone::fixed)
}

#[derive(Clone)]
struct Cursor<'t> {
    text: &'t str,
}

impl<'t> Cursor<'t> {
    fn any<'w>(&mut self, words: &[&'w str]) -> Option<&'w str> {
        let word = words.iter().find(|word| self.text.starts_with(**word))?;
        self.text = self.text.get(word.len()..)?;
        Some(word)
    }

    fn skip_spaces(&mut self) {
        self.text = self.text.trim_start();
    }

    fn digits(&mut self, count: usize) -> Option<i32> {
        let length = self.run();
        (length == count).then(|| self.number(length))?
    }

    fn digits_up_to(&mut self, most: usize) -> Option<i32> {
        let length = self.run();
        (1..=most).contains(&length).then(|| self.number(length))?
    }

    fn run(&self) -> usize {
        self.text.bytes().take_while(u8::is_ascii_digit).count()
    }

    fn number(&mut self, length: usize) -> Option<i32> {
        let number = self.text.get(..length)?.parse().ok()?;
        self.text = self.text.get(length..)?;
        Some(number)
    }

    fn year(&mut self) -> Option<i16> {
        self.digits(4).and_then(|year| i16::try_from(year).ok())
    }

    fn month(&mut self) -> Option<usize> {
        let length = self.text.bytes().take_while(u8::is_ascii_alphabetic).count();
        let word: &'t str = self.text.get(..length)?;
        let position =
            MONTHS.iter().position(|month| length >= 3 && (month.starts_with(word) || word == "sept"))?;
        let month = if word == "sept" { 9 } else { position + 1 };
        self.text = self.text.get(length..)?;
        let _ = self.any(&["."]);
        Some(month)
    }
}

/// How moments begin that do not begin with a digit.
const WORDS: [&str; 14] = [
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec", "tomorrow",
    "midnight",
];
const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];
const JUST_PASSED: SignedDuration = SignedDuration::from_secs(120);
