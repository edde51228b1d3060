//! How our types stand in columns.

use backstop_triage::Timestamp;
use rusqlite::Row;

/// A moment as milliseconds since 1970, the form of every time column.
pub(crate) fn millis(at: Timestamp) -> i64 {
    at.as_millisecond()
}

/// This moment, as exactly as a column can hold it.
pub(crate) fn now() -> Timestamp {
    timestamp(millis(Timestamp::now()))
}

/// Reads a time column; a value out of range reads as 1970.
pub(crate) fn moment(row: &Row<'_>, column: &str) -> rusqlite::Result<Timestamp> {
    row.get(column).map(timestamp)
}

/// Reads a time column that may be empty.
pub(crate) fn moment_or_none(row: &Row<'_>, column: &str) -> rusqlite::Result<Option<Timestamp>> {
    row.get::<_, Option<i64>>(column).map(|millis| millis.map(timestamp))
}

/// Reads a count; negative values read as 0.
pub(crate) fn count(row: &Row<'_>, column: &str) -> rusqlite::Result<u64> {
    row.get::<_, i64>(column).map(unsigned)
}

/// Reads a count that may be empty.
pub(crate) fn count_or_none(row: &Row<'_>, column: &str) -> rusqlite::Result<Option<u64>> {
    row.get::<_, Option<i64>>(column).map(|count| count.map(unsigned))
}

/// A count as the database holds it.
pub(crate) fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Text for LIKE that matches only itself; to be used with `ESCAPE '\'`.
pub(crate) fn containing(text: &str) -> String {
    let mut pattern = String::with_capacity(text.len() + 2);
    pattern.push('%');
    for character in text.chars().take(SEARCH_CAP) {
        if matches!(character, '%' | '_' | '\\') {
            pattern.push('\\');
        }
        pattern.push(character);
    }
    pattern.push('%');
    pattern
}

/// Takes at most `cap` bytes of a text, ending at a character.
pub(crate) fn cut(text: &str, cap: usize) -> &str {
    &text[..text.floor_char_boundary(cap)]
}

fn timestamp(millis: i64) -> Timestamp {
    Timestamp::from_millisecond(millis).unwrap_or_default()
}

fn unsigned(count: i64) -> u64 {
    u64::try_from(count).unwrap_or(0)
}

const SEARCH_CAP: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_in_a_search_match_themselves() {
        assert_eq!(containing("50%_a\\b"), r"%50\%\_a\\b%");
    }
}
