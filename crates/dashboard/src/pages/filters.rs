//! Filters of the templates.
#![expect(unreachable_pub, reason = "the attribute of askama makes what it wraps public")]

use std::fmt::Display;

use askama::{Result, Values, filters::Safe};

use super::times;
use crate::assets;

/// An icon by its name.
#[askama::filter_fn]
pub(crate) fn icon(name: impl Display, _: &dyn Values) -> Result<Safe<String>> {
    let sprite = assets::ICONS.path();
    Ok(Safe(format!("<svg class=\"i\" aria-hidden=\"true\"><use href=\"{sprite}#{name}\"/></svg>")))
}

/// A number with its thousands apart.
#[askama::filter_fn]
pub(crate) fn grouped(number: impl Display, _: &dyn Values) -> Result<String> {
    whole(&number).map(times::grouped)
}

/// Milliseconds for people.
#[askama::filter_fn]
pub(crate) fn took(ms: impl Display, _: &dyn Values) -> Result<String> {
    whole(&ms).map(times::took)
}

/// Millionths of a dollar for people.
#[askama::filter_fn]
pub(crate) fn dollars(micros: impl Display, _: &dyn Values) -> Result<String> {
    whole(&micros).map(times::dollars)
}

/// What a provider said, without the JSON around it.
#[askama::filter_fn]
pub(crate) fn said(text: impl Display, _: &dyn Values) -> Result<String> {
    Ok(crate::actions::testing::said(&text.to_string()))
}

/// A text as a segment of a path or a value of a query.
#[askama::filter_fn]
pub(crate) fn segment(text: impl Display, _: &dyn Values) -> Result<Safe<String>> {
    Ok(Safe(super::segment(&text.to_string())))
}

/// A whole number of any type, behind any reference.
fn whole(number: &impl Display) -> Result<u64> {
    number.to_string().parse().map_err(askama::Error::custom)
}
