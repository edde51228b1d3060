//! Guesses how many tokens a request holds, from its bytes alone.
//!
//! Four bytes of Latin text make about one token, and so does one ideograph, kana or hangul syllable, whether
//! it stands as three bytes of UTF-8 or as a `\u` escape. Long base64 (images, audio, documents) is no text:
//! each piece counts as one picture, and so does a picture that is only linked.

use memchr::{memchr, memchr_iter, memmem};

/// Estimates the tokens of a request body.
pub fn estimate_tokens(body: &[u8]) -> u64 {
    let mut tokens = Tally::default();
    let mut at = 0;
    while let Some(open) = memchr(b'"', &body[at..]) {
        let start = at + open + 1;
        tokens.text(&body[at..start]);
        let end = string_end(body, start);
        if is_media(&body[start..end]) {
            tokens.media += 1;
        } else {
            tokens.text(&body[start..end]);
        }
        at = end;
    }
    tokens.text(&body[at..]);
    tokens.media = tokens.media.max(LINKS.iter().map(|link| fields(body, link)).sum());
    tokens.total()
}

#[derive(Default)]
struct Tally {
    bytes: u64,
    wide: u64,
    media: u64,
}

impl Tally {
    fn text(&mut self, text: &[u8]) {
        // Counted in bytes, which the compiler does sixteen at a time; no piece is longer than a byte counts.
        let is_wide = |byte: &u8| u8::from((0xe3..=0xed).contains(byte));
        let wide =
            text.chunks(255).map(|piece| u64::from(piece.iter().map(is_wide).sum::<u8>())).sum::<u64>();
        let escaped = memchr_iter(b'\\', text)
            .filter(|at| text.get(at + 1) == Some(&b'u') && is_wide_escape(&text[at + 2..]))
            .count() as u64;
        self.wide += wide + escaped;
        self.bytes += (text.len() as u64).saturating_sub(3 * wide + 6 * escaped);
    }

    fn total(&self) -> u64 {
        self.bytes.div_ceil(4) + self.wide + self.media * TOKENS_PER_MEDIA
    }
}

/// `\u3000` to `\ud7ff`: the ideographs, kana and hangul of the basic plane.
fn is_wide_escape(digits: &[u8]) -> bool {
    match digits {
        [b'3'..=b'9' | b'a'..=b'c' | b'A'..=b'C', ..] => true,
        [b'd' | b'D', second, ..] => (b'0'..=b'7').contains(second),
        _ => false,
    }
}

/// How often a quoted name stands as a field.
fn fields(body: &[u8], name: &[u8]) -> u64 {
    let is_field = |at: &usize| {
        let mut rest = body[at + name.len()..].iter();
        rest.find(|byte| !byte.is_ascii_whitespace()) == Some(&b':')
    };
    memmem::find_iter(body, name).filter(is_field).count() as u64
}

fn string_end(body: &[u8], start: usize) -> usize {
    let mut at = start;
    while let Some(found) = memchr::memchr2(b'"', b'\\', body.get(at..).unwrap_or_default()) {
        if body[at + found] == b'"' {
            return at + found;
        }
        at += found + 2;
    }
    body.len()
}

fn is_media(text: &[u8]) -> bool {
    if text.len() < MEDIA_FROM {
        return false;
    }
    let head = &text[..MEDIA_FROM];
    let data = if head.starts_with(b"data:") {
        memchr(b',', head).map_or(head, |comma| &head[comma + 1..])
    } else {
        head
    };
    data.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=' | b'-' | b'_'))
}

/// What a picture of a megapixel costs with the large providers; no attachment is guessed to cost less.
const TOKENS_PER_MEDIA: u64 = 1_500;

/// Base64 shorter than this costs less as text: signatures and sealed thoughts are no pictures.
const MEDIA_FROM: usize = 4 * TOKENS_PER_MEDIA as usize;

/// The fields that link or hold a picture.
const LINKS: [&[u8]; 2] = [b"\"image_url\"", b"\"fileData\""];
