//! A rough count of a prompt's tokens, without a tokeniser: always to be shown as an estimate.
//!
//! Four bytes of text are a token. Chinese, Japanese and Korean characters take three bytes but about a token
//! each, so they are counted by themselves. Long runs of base64 are attachments, not text: each costs as much
//! as an image.

use serde::Serialize;

/// An estimate of a prompt's size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Estimate {
    /// Tokens, images included.
    pub tokens: u64,
    /// Attachments among them.
    pub images: u64,
}

impl Estimate {
    /// The estimate for plain text.
    pub fn of_text(text: &str) -> Self {
        Self { tokens: text_tokens(text.as_bytes()), images: 0 }
    }

    /// The estimate for a request's JSON body: tools and all count, attachments by a fixed cost.
    pub fn of_body(body: &[u8]) -> Self {
        let mut images = 0;
        let mut tokens = 0;
        let mut text_from = 0;
        for (start, end) in base64_runs(body) {
            tokens += text_tokens(&body[text_from..start]);
            text_from = end;
            images += 1;
        }
        tokens += text_tokens(&body[text_from..]);
        let linked = count(body, b"\"image_url\"", b':').max(count(body, b"\"fileData\"", b':'));
        let images = images.max(linked);
        Self { tokens: tokens + images * IMAGE_TOKENS, images }
    }
}

fn text_tokens(bytes: &[u8]) -> u64 {
    // The lead bytes of U+3000 to U+D7FF: kana, ideographs, hangul.
    let dense = bytes.iter().filter(|byte| (0xe3..=0xed).contains(*byte)).count();
    (bytes.len().saturating_sub(3 * dense).div_ceil(4) + dense) as u64
}

/// Runs of base64 that are too long to be words, as byte ranges.
fn base64_runs(body: &[u8]) -> Vec<(usize, usize)> {
    let mut runs = Vec::new();
    let mut start = 0;
    for (at, byte) in body.iter().chain([&b'"']).enumerate() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=' | b'-' | b'_') {
            continue;
        }
        if at - start >= ATTACHMENT_BYTES {
            runs.push((start, at));
        }
        start = at + 1;
    }
    runs
}

/// How often a quoted name stands before this byte.
fn count(body: &[u8], name: &[u8], before: u8) -> u64 {
    let finder = memchr::memmem::Finder::new(name);
    let followed = |at: &usize| {
        body[at + name.len()..]
            .iter()
            .find(|byte| !byte.is_ascii_whitespace())
            .is_some_and(|byte| *byte == before)
    };
    finder.find_iter(body).filter(followed).count() as u64
}

/// What an image costs, whatever its size.
pub const IMAGE_TOKENS: u64 = 1_500;
/// Base64 at least this long is an attachment; anything shorter costs less as text.
const ATTACHMENT_BYTES: usize = 4 * IMAGE_TOKENS as usize;
