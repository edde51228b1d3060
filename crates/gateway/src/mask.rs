//! Takes the key of an attempt out of what its provider says.
//!
//! Providers quote the key that they refuse, and some repeat whole requests. No shape tells every credential from an
//! ordinary word, so this looks for the very key that was sent; what it finds goes no further: not to the client, not
//! into the log, not into a file. An answer keeps its length, because that may have been announced.

use std::collections::VecDeque;

use backstop_store::Secret;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue};
use memchr::memmem;

use crate::evidence::joined;

/// The same text without the key.
pub(crate) fn text(text: String, secret: &Secret) -> String {
    let Some(secret) = looked_for(secret) else { return text };
    if text.contains(secret) { text.replace(secret, "***") } else { text }
}

/// Whether the key is in it.
pub(crate) fn is_in(bytes: &[u8], secret: &Secret) -> bool {
    looked_for(secret).is_some_and(|secret| memmem::find(bytes, secret.as_bytes()).is_some())
}

/// The same answer without the key, and as long as before.
pub(crate) fn pieces(pieces: VecDeque<Bytes>, secret: &Secret) -> VecDeque<Bytes> {
    let Some(secret) = looked_for(secret) else { return pieces };
    let whole = joined(&pieces);
    let mut found = memmem::find_iter(&whole, secret).peekable();
    if found.peek().is_none() {
        return pieces;
    }
    let mut masked = whole.to_vec();
    for at in found {
        masked[at..at + secret.len()].fill(b'*');
    }
    VecDeque::from([Bytes::from(masked)])
}

/// Blanks the headers that carry the key.
pub(crate) fn headers(headers: &mut HeaderMap, secret: &Secret) {
    let Some(secret) = looked_for(secret) else { return };
    for value in headers.values_mut() {
        if memmem::find(value.as_bytes(), secret.as_bytes()).is_some() {
            *value = HeaderValue::from_static("***");
        }
    }
}

/// What is looked for. Stand-ins such as `x` or `none`, which local servers are given, are words and no secrets.
fn looked_for(secret: &Secret) -> Option<&str> {
    Some(secret.expose()).filter(|secret| secret.len() >= SHORTEST)
}

const SHORTEST: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_found_across_pieces_and_the_length_stays() {
        let secret = Secret::new("key-of-the-attempt");
        let said = VecDeque::from([Bytes::from("refused: key-of-"), Bytes::from("the-attempt!")]);
        assert_eq!(joined(&pieces(said, &secret)), "refused: ******************!");
        let clean = VecDeque::from([Bytes::from("fine"), Bytes::from(" so")]);
        assert_eq!(pieces(clean.clone(), &secret), clean);
    }

    #[test]
    fn a_word_that_stands_in_for_a_key_is_no_secret() {
        assert_eq!(text("none of it".into(), &Secret::new("none")), "none of it");
        assert_eq!(text("not secret-1 here".into(), &Secret::new("secret-1")), "not *** here");
    }
}
