//! Keeps the part of an event that earlier chunks brought, within bounds.
//!
//! Up to [`Carry::CAP`] bytes are kept whole. Of a longer event only the beginning stays, which tells what it
//! is, and the last bytes, where the counts of tokens stand; what lies between goes by unseen.

/// The bytes of an event whose end has not arrived.
#[derive(Clone, Debug, Default)]
pub(crate) struct Carry {
    head: Vec<u8>,
    tail: Vec<u8>,
    overflowed: bool,
}

impl Carry {
    /// The most bytes of an event that are kept.
    pub(crate) const CAP: usize = 64 * 1024;
    /// The last bytes that are kept of an event longer than that.
    pub(crate) const TAIL: usize = 4 * 1024;

    pub(crate) fn is_empty(&self) -> bool {
        self.head.is_empty()
    }

    /// The first bytes of the event, at most [`Carry::CAP`].
    pub(crate) fn head(&self) -> &[u8] {
        &self.head
    }

    /// The last bytes of an event that is longer than [`Carry::CAP`].
    pub(crate) fn tail(&self) -> &[u8] {
        &self.tail[self.tail.len().saturating_sub(Self::TAIL)..]
    }

    pub(crate) fn has_overflowed(&self) -> bool {
        self.overflowed
    }

    /// Takes more of the event; tells whether it outgrew the cap by these bytes.
    pub(crate) fn extend(&mut self, bytes: &[u8]) -> bool {
        if self.overflowed {
            self.keep_tail(bytes);
            return false;
        }
        let room = Self::CAP - self.head.len();
        if bytes.len() <= room {
            self.head.extend_from_slice(bytes);
            return false;
        }
        self.head.extend_from_slice(&bytes[..room]);
        self.overflowed = true;
        self.tail.extend_from_slice(&self.head[Self::CAP - Self::TAIL..]);
        self.keep_tail(&bytes[room..]);
        true
    }

    /// Forgets the event; a stream that waits holds no large buffer.
    pub(crate) fn clear(&mut self) {
        self.head.clear();
        self.head.shrink_to(Self::TAIL);
        self.tail = Vec::new();
        self.overflowed = false;
    }

    fn keep_tail(&mut self, bytes: &[u8]) {
        let last = &bytes[bytes.len().saturating_sub(Self::TAIL)..];
        if self.tail.len() + last.len() > 2 * Self::TAIL {
            let kept = Self::TAIL.saturating_sub(last.len());
            self.tail.drain(..self.tail.len() - kept);
        }
        self.tail.extend_from_slice(last);
    }
}
