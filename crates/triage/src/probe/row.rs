//! A place in a document that facts are read from.

use serde_json::Value;

use super::{Conditions, Pointers};

/// A place in the document that facts are read from.
#[derive(Clone, Copy)]
pub(super) struct Row<'a> {
    document: &'a Value,
    value: &'a Value,
}

impl<'a> Row<'a> {
    /// The document itself.
    pub(super) fn of(document: &'a Value) -> Self {
        Self { document, value: document }
    }

    /// Whether nothing stands here.
    pub(super) fn is_null(self) -> bool {
        self.value.is_null()
    }

    /// What stands at a pointer.
    pub(super) fn get(self, pointer: &str) -> Option<&'a Value> {
        match pointer.strip_prefix('$') {
            Some(absolute) => self.document.pointer(absolute),
            None => self.value.pointer(pointer),
        }
    }

    /// The row at a pointer.
    pub(super) fn at(self, pointer: &str) -> Option<Self> {
        Some(Self { document: self.document, value: self.get(pointer)? })
    }

    /// The entries of the list or map at a pointer.
    pub(super) fn rows(self, pointer: &str) -> Vec<Self> {
        let of = |value| Self { document: self.document, value };
        match self.get(pointer) {
            Some(Value::Array(list)) => list.iter().map(of).collect(),
            Some(Value::Object(map)) => map.values().map(of).collect(),
            _ => Vec::new(),
        }
    }

    /// What stands at the first pointer where anything does.
    pub(super) fn first(self, pointers: &Pointers) -> Option<&'a Value> {
        pointers.iter().find_map(|pointer| self.get(pointer).filter(|value| !value.is_null()))
    }

    /// Whether every condition holds.
    pub(super) fn all(self, conditions: &Conditions) -> bool {
        conditions.iter().all(|(pointer, accepted)| accepted.passes(self.get(pointer)))
    }

    /// Whether a condition holds.
    pub(super) fn any(self, conditions: &Conditions) -> bool {
        conditions.iter().any(|(pointer, accepted)| accepted.passes(self.get(pointer)))
    }
}
