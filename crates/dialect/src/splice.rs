//! Renames the model of a request without touching another byte of it.

use bytes::{Bytes, BytesMut};

use crate::head::{Slot, model_ranges};

/// Puts `model` in the place of the body's model; everything else stays byte for byte.
///
/// A member that is missing is added in front, one that appears several times is renamed everywhere, and a
/// value that is no string is replaced. A body that is no object comes back as it was.
pub fn splice_model(body: &Bytes, slot: &Slot, model: &str) -> Bytes {
    let name = serde_json::Value::from(model).to_string();
    match slot {
        Slot::Nowhere => body.clone(),
        Slot::Value(range) => replace(body, std::iter::once(range.clone()), &name),
        Slot::Repeated => replace(body, model_ranges(body), &name),
        Slot::Absent { at, empty } => {
            let comma = if *empty { "" } else { "," };
            replace(body, std::iter::once(*at..*at), &format!("\"model\":{name}{comma}"))
        }
    }
}

/// Splits `provider/model` at the first slash; a bare model has no provider.
pub fn split_model(name: &str) -> (Option<&str>, &str) {
    match name.split_once('/') {
        Some((provider, model)) if !provider.is_empty() && !model.is_empty() => (Some(provider), model),
        Some(_) | None => (None, name),
    }
}

fn replace(body: &Bytes, ranges: impl Iterator<Item = std::ops::Range<usize>>, with: &str) -> Bytes {
    let mut spliced = BytesMut::with_capacity(body.len() + with.len());
    let mut copied = 0;
    for range in ranges {
        let Some(before) = body.get(copied..range.start).filter(|_| range.end <= body.len()) else {
            continue;
        };
        spliced.extend_from_slice(before);
        spliced.extend_from_slice(with.as_bytes());
        copied = range.end;
    }
    spliced.extend_from_slice(&body[copied..]);
    spliced.freeze()
}
