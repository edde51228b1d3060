//! A page of a long list, and the cursor that leads to the next one.

use serde::Serialize;

use crate::StoreError;

/// Some items and the cursor of those after them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Page<T> {
    /// The items, newest first unless the list says otherwise.
    pub items: Vec<T>,
    /// What to pass for the next page; none when this is the last.
    pub next: Option<String>,
}

/// Cuts a list that was fetched with one row more than `limit` into a page.
pub(crate) fn page<T>(mut items: Vec<T>, limit: usize, position: impl Fn(&T) -> i64) -> Page<T> {
    let more = items.len() > limit;
    items.truncate(limit);
    let next = if more { items.last().map(|item| format!("{:x}", position(item))) } else { None };
    Page { items, next }
}

/// The position in a cursor, or the beginning of the list (newest first).
pub(crate) fn before(cursor: Option<&str>) -> Result<i64, StoreError> {
    let Some(cursor) = cursor else { return Ok(i64::MAX) };
    i64::from_str_radix(cursor, 16).map_err(|_| StoreError::BadCursor)
}

/// How many rows a page may have.
pub(crate) const LIMIT: usize = 500;
