//! Times in prose. A number means a time only beside a word that says so: `try again in 20s`, `wait 46
//! seconds`, `resets 4am`, `您的限额将在 … 重置`.

use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, MatchKind};

use super::{Frame, Stated, clock, duration};

pub(super) fn stated(text: &str, frame: &Frame<'_>) -> Stated {
    let mut stated = Stated::default();
    if !text.bytes().any(|byte| byte.is_ascii_digit()) && !text.contains("midnight") {
        return stated;
    }
    for line in text.split('\n') {
        if !SCANNERS.anchors.is_match(line) {
            continue;
        }
        if let Some(seconds) = wait(line)
            && let Some(found) = Stated::wait(seconds)
        {
            stated = stated.later(found);
        }
        if let Some(found) = moment(line, frame) {
            stated = stated.later(found);
        }
    }
    stated
}

/// The wait of the first number that a word of waiting stands before (or after).
fn wait(line: &str) -> Option<f64> {
    SCANNERS.waits.find_iter(line).find_map(|found| wait_after(line, found.start()..found.end())).or_else(
        || {
            let stands_after = SCANNERS.afters.find_iter(line).map(|found| found.start());
            stands_after.filter_map(|at| wait_before(line.get(..at)?)).next()
        },
    )
}

/// `in 20s`, `after about 9 seconds`; after some words a bare number is seconds.
fn wait_after(line: &str, word: std::ops::Range<usize>) -> Option<f64> {
    let rest = line.get(word.end..)?.trim_start_matches([' ', ':']);
    let rest = FILLERS.iter().find_map(|filler| rest.strip_prefix(filler)).unwrap_or(rest).trim_start();
    if let Some((seconds, _)) = duration::parse(rest) {
        return Some(seconds);
    }
    let bare = line.get(word)?;
    if let Some(seconds) = duration::span(rest).filter(|_| bare.ends_with(" in")) {
        return Some(seconds);
    }
    let (seconds, length) = duration::number(rest).filter(|_| bare.ends_with("after"))?;
    let after = rest.get(length..)?;
    let counts = after.trim_start().starts_with(char::is_alphabetic);
    let longer = after.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '-' || c == '/');
    (!counts && !longer).then_some(seconds)
}

/// `46 seconds before retrying`, `30 秒后重试`.
fn wait_before(before: &str) -> Option<f64> {
    let before = before.trim_end();
    let digits = before.char_indices().rev().take(24).filter(|(_, c)| c.is_ascii_digit()).map(|(at, _)| at);
    let starts = digits.filter(|at| next_number(before, *at) == Some(*at));
    // The longest duration that reaches up to the word: `2小时15分钟后`, not its last part.
    starts.fold(None, |longest, start| {
        let read = duration::parse(before.get(start..)?).filter(|(_, length)| start + length == before.len());
        read.map(|(seconds, _)| seconds).or(longest)
    })
}

fn moment(line: &str, frame: &Frame<'_>) -> Option<Stated> {
    if let Some(stated) = line.rsplit_once('|').and_then(|(_, epoch)| epoch_at(epoch.trim_start(), frame)) {
        return Some(stated);
    }
    // A full date may stand on either side of its word.
    for start in
        SCANNERS.years.find_iter(line.as_bytes()).filter(|start| next_number(line, *start) == Some(*start))
    {
        let rest = line.get(start..)?;
        if rest.get(4..).is_some_and(|rest| rest.starts_with(['-', '/', '年']))
            && let Some(stated) = clock::moment(rest, frame).and_then(|moment| Stated::moment(moment, frame))
        {
            return Some(stated);
        }
    }
    let next_day =
        SCANNERS.days.find(line).and_then(|found| clock::moment(line.get(found.start()..)?, frame));
    if let Some(stated) = next_day.and_then(|moment| Stated::moment(moment, frame)) {
        return Some(stated);
    }
    SCANNERS.moments.find_iter(line).find_map(|found| after_anchor(line.get(found.end()..)?, frame))
}

fn after_anchor(rest: &str, frame: &Frame<'_>) -> Option<Stated> {
    let mut end = rest.len().min(REACH);
    while !rest.is_char_boundary(end) {
        end -= 1;
    }
    let starts = rest.get(..end)?.char_indices().filter(|(at, character)| {
        let before = rest.get(..*at).and_then(|text| text.chars().next_back());
        (character.is_alphanumeric())
            && before.is_none_or(|before| !before.is_alphanumeric() || !before.is_ascii())
    });
    for (start, _) in starts {
        let candidate = rest.get(start..)?;
        if let Some(stated) = epoch_at(candidate, frame) {
            return Some(stated);
        }
        if let Some(stated) = clock::moment(candidate, frame).and_then(|moment| Stated::moment(moment, frame))
        {
            return Some(stated);
        }
        if is_dated(candidate) {
            return None;
        }
    }
    None
}

/// Whether a text begins with a full date, valid or not: the time of day behind an invalid one means nothing.
fn is_dated(text: &str) -> bool {
    text.bytes().take(4).all(|byte| byte.is_ascii_digit()) && text.get(4..5) == Some("-")
}

/// Ten or thirteen digits.
fn epoch_at(text: &str, frame: &Frame<'_>) -> Option<Stated> {
    let length = text.bytes().take_while(u8::is_ascii_digit).count();
    if length != 10 && length != 13 {
        return None;
    }
    Stated::number(text.get(..length)?.parse().ok()?, frame)
}

fn next_number(line: &str, from: usize) -> Option<usize> {
    let bytes = line.as_bytes();
    (from..bytes.len()).find(|at| {
        let digit = bytes.get(*at).is_some_and(u8::is_ascii_digit);
        let inside = at
            .checked_sub(1)
            .and_then(|before| bytes.get(before))
            .is_some_and(|before| before.is_ascii_alphanumeric() || *before == b'.');
        digit && !inside
    })
}

/// The words of this file, ready to be found in one pass.
struct Scanners {
    anchors: AhoCorasick,
    waits: AhoCorasick,
    afters: AhoCorasick,
    moments: AhoCorasick,
    days: AhoCorasick,
    years: memchr::memmem::Finder<'static>,
}

static SCANNERS: LazyLock<Scanners> = LazyLock::new(|| {
    let scanner = |words: &[&str]| {
        AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(words)
            .expect("a handful of words is far below the automaton's limits")
    };
    Scanners {
        anchors: scanner(&ANCHORS),
        waits: scanner(&WAITS),
        afters: scanner(&AFTERS),
        moments: scanner(&MOMENTS),
        days: scanner(&DAYS),
        years: memchr::memmem::Finder::new("20"),
    }
});

/// A line without any of these states no time.
const ANCHORS: [&str; 40] = [
    "reset",
    "again",
    "retry",
    "wait",
    "available",
    "access",
    "until",
    "refresh",
    "renew",
    "resume",
    "cool",
    "limit reached|",
    "重置",
    "恢复",
    "重试",
    "再试",
    "可继续",
    "刷新",
    "等待",
    "解除",
    "后可",
    "次日",
    "replenish",
    "try after",
    "restable",
    "réinitialis",
    "リセット",
    "再試行",
    "お試し",
    "후",
    "다시",
    "erneut",
    "warten",
    "zurück",
    "nuevo",
    "espere",
    "réessay",
    "novamente",
    "через",
    "riprova",
];
/// Words that a wait follows.
const WAITS: [&str; 43] = [
    "again in",
    "again after",
    "again within",
    "retry in",
    "retry after",
    "retry-after",
    "retrying in",
    "retry_after",
    "wait",
    "wait for",
    "waiting",
    "reset in",
    "resets in",
    "reset after",
    "resets after",
    "reset time",
    "refresh in",
    "refreshes in",
    "renews in",
    "available in",
    "resume in",
    "back in",
    "cooldown for",
    "cool down for",
    "请在",
    "请等待",
    "等待",
    "将在",
    "请于",
    "replenished in",
    "restablece en",
    "restablecerá en",
    "replenish in",
    "erneut in",
    "warten sie",
    "nuevo en",
    "espere",
    "réessayez dans",
    "réessayer dans",
    "novamente em",
    "через",
    "riprova tra",
    "attendez",
];
/// Words that follow a wait.
const AFTERS: [&str; 16] = [
    "before retrying",
    "before trying",
    "before making",
    "后重试",
    "后再试",
    "后恢复",
    "后重置",
    "后可",
    "之后",
    "後に",
    "後再",
    "후에",
    "후 다시",
    "뒤에",
    "erneut",
    "warten",
];
const FILLERS: [&str; 9] =
    ["about", "approximately", "around", "at least", "up to", "another", "~", "约", ":"];
/// Words that a moment follows.
const MOMENTS: [&str; 17] = [
    "resets",
    "reset",
    "again",
    "regain access",
    "access",
    "available",
    "until",
    "retry",
    "refresh",
    "renew",
    "resume",
    "try after",
    "重置",
    "恢复",
    "重试",
    "刷新",
    "将于",
];
/// Words that are a day by themselves.
const DAYS: [&str; 4] = ["次日", "明日", "明天", "tomorrow"];
/// How far behind its word a moment may begin.
const REACH: usize = 40;
