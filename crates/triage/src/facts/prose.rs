//! What can be told from the form of prose: statuses, bracketed codes, error words; and what is no error
//! text at all.

/// The HTTP status that folded prose names as such: `status code 429`, `api error: 529`, `[503]`,
/// `429 too many requests`. A bare number is none.
pub(super) fn status(text: &str) -> Option<u16> {
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(found) = memchr::memchr2(b'4', b'5', bytes.get(at..)?) {
        let start = at + found;
        at = start + 1;
        let digits = bytes.get(start..start + 3)?;
        let bounded = !digit_or_letter(bytes, start.wrapping_sub(1)) && !digit_or_letter(bytes, start + 3);
        if !bounded || !digits.iter().all(u8::is_ascii_digit) {
            continue;
        }
        let before = text
            .get(..start)
            .unwrap_or_default()
            .trim_end_matches([' ', ':', '=', '(', '[', '\'', '-', '#', '<']);
        let after = text.get(start + 3..).unwrap_or_default();
        let bracketed = before.len() < start && bytes.get(start - 1) == Some(&b'[') && after.starts_with(']');
        let opened = before.is_empty() && (start == 0 || after.starts_with('>'));
        if bracketed
            || opened && after.starts_with([' ', ':', '>', ',', '-', '\n']) && !after.starts_with(", ")
            || STATUS_WORDS.iter().any(|word| before.ends_with(word))
            || REASON_PHRASES
                .iter()
                .any(|phrase| after.trim_start_matches([' ', ':', '-', '(']).starts_with(phrase))
        {
            return text.get(start..start + 3)?.parse().ok();
        }
    }
    None
}

fn digit_or_letter(bytes: &[u8], at: usize) -> bool {
    bytes.get(at).is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_' || *byte == b'.')
}

/// The codes that a folded message carries in brackets: a leading `[1310]`, a trailing `(1008)`.
pub(super) fn bracketed_codes(text: &str) -> impl Iterator<Item = &str> {
    let leading = text.strip_prefix('[').and_then(|rest| rest.split_once(']')).map(|(code, _)| code);
    let trailing = text
        .trim_end_matches(['.', ' '])
        .strip_suffix(')')
        .and_then(|rest| rest.rsplit_once('('))
        .map(|(_, code)| code);
    // An edge's whole body may be `error code: 1015`.
    let error_code = text.strip_prefix("error code: ").map(str::trim_end);
    leading.into_iter().chain(trailing).chain(error_code).filter(|code| is_code(code))
}

fn is_code(code: &str) -> bool {
    (3..=7).contains(&code.len()) && code.bytes().all(|byte| byte.is_ascii_digit())
}

/// A folded message that is one word: as good as a code.
pub(super) fn bare_word(text: &str) -> Option<&str> {
    let bare = text.trim_end_matches(['.', '!']);
    let word = (1..=80).contains(&bare.len())
        && bare.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.:/".contains(&byte));
    word.then_some(bare)
}

/// The words of unfolded plain text that are error names: `insufficient_quota`, `ThrottlingException`.
pub(super) fn error_words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).filter(|word| {
        let snake = word.len() >= 8
            && word.contains('_')
            && word.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
        let upper = word.len() >= 8
            && word.contains('_')
            && word.bytes().all(|b| b.is_ascii_uppercase() || b == b'_');
        let camel = word.len() >= 8
            && word.starts_with(|c: char| c.is_ascii_uppercase())
            && ERROR_ENDINGS.iter().any(|ending| word.ends_with(ending));
        let errno = matches!(word.len(), 4..=14) && word.starts_with('E') && ERRNO.contains(word);
        snake || upper || camel || errno
    })
}

/// Appends a code as words, one a line: `InsufficientG1Credits` and `insufficient_g1_credits` are both
/// `insufficient g1 credits`.
pub(super) fn spell_out(code: &str, words: &mut String) {
    let mut before = b' ';
    for (at, character) in code.char_indices() {
        let Ok(byte) = u8::try_from(character) else {
            words.extend(character.to_lowercase());
            continue;
        };
        if matches!(byte, b'_' | b'-' | b'.' | b'/' | b':') {
            words.push(' ');
        } else {
            let next_is_small = || code.as_bytes().get(at + 1).is_some_and(u8::is_ascii_lowercase);
            let ends_a_word = before.is_ascii_lowercase() || before.is_ascii_digit();
            if byte.is_ascii_uppercase() && (ends_a_word || before.is_ascii_uppercase() && next_is_small()) {
                words.push(' ');
            }
            words.push(char::from(byte.to_ascii_lowercase()));
        }
        before = byte;
    }
    words.push('\n');
}

/// Whether a text is a document (model output, a quoted page) rather than an error message.
pub(super) fn is_document(text: &str) -> bool {
    if text.len() < 800 {
        return false;
    }
    let headings = text.lines().filter(|line| line.starts_with("# ") || line.starts_with("## ")).count();
    let paragraphs = text.matches("\n\n").count();
    let listed = text.lines().filter(|line| line.starts_with("- ") || line.starts_with("* ")).count();
    headings >= 2 || (headings + listed >= 4 && paragraphs >= 2) || (text.len() > 3000 && paragraphs >= 4)
}

/// Whether a trimmed text is a web page.
pub(super) fn is_page(text: &str) -> bool {
    if !text.starts_with('<') {
        return false;
    }
    let start: String = text.chars().take(400).collect::<String>().to_ascii_lowercase();
    ["<!doctype", "<html", "<head", "<body", "<title", "<center", "<h1"].iter().any(|tag| start.contains(tag))
}

/// Where a web page begins that prose quotes: `unexpected status 403 Forbidden: <!DOCTYPE html>…`.
pub(super) fn page_within(text: &str) -> Option<usize> {
    let starts = memchr::memchr_iter(b'<', text.as_bytes());
    starts.take(64).find(|at| {
        let tag = text.as_bytes().get(at + 1..).unwrap_or_default();
        PAGE_STARTS
            .iter()
            .any(|start| tag.get(..start.len()).is_some_and(|tag| tag.eq_ignore_ascii_case(start)))
    })
}

const PAGE_STARTS: [&[u8]; 3] = [b"!doctype html", b"html>", b"html "];
const STATUS_WORDS: [&str; 10] = [
    "status",
    "status code",
    "error code",
    "api error",
    "http",
    "code",
    "error",
    "capierror",
    "failed",
    "http error",
];
const REASON_PHRASES: [&str; 20] = [
    "too many requests",
    "unauthorized",
    "forbidden",
    "bad request",
    "not found",
    "internal server error",
    "bad gateway",
    "service unavailable",
    "gateway timeout",
    "gateway time-out",
    "payment required",
    "request timeout",
    "payload too large",
    "request entity too large",
    "unprocessable",
    "status code",
    "method not allowed",
    "client error",
    "server error",
    "conflict",
];
const ERROR_ENDINGS: [&str; 5] = ["Error", "Exception", "Exceeded", "Exhausted", "Fault"];
const ERRNO: [&str; 14] = [
    "EAGAIN",
    "EMFILE",
    "ENFILE",
    "ENOSPC",
    "ENOENT",
    "ENOMEM",
    "EACCES",
    "EPERM",
    "ENOTFOUND",
    "ECONNREFUSED",
    "ECONNRESET",
    "ETIMEDOUT",
    "EPIPE",
    "ENETUNREACH",
];

#[cfg(test)]
mod tests {
    use super::{bracketed_codes, is_document, status};

    #[test]
    fn only_numbers_in_status_syntax_are_statuses() {
        for (text, expected) in [
            ("error code: 429 - ", Some(429)),
            ("api error: repeated 529 overloaded errors", None),
            ("unexpected status 403 forbidden: you", Some(403)),
            ("streaming response failed: [503] the queue", Some(503)),
            ("<400> internalerror.algo", Some(400)),
            ("line 403 of the file", None),
            ("limit 429 tokens", None),
            ("capierror: 400 the requested model", Some(400)),
            ("exceeded retry limit, last status: 429 too many requests", Some(429)),
        ] {
            assert_eq!(status(text), expected, "{text}");
        }
    }

    #[test]
    fn codes_stand_in_brackets_at_either_end() {
        assert_eq!(bracketed_codes("[1310][weekly limit][2026]").collect::<Vec<_>>(), ["1310"]);
        assert_eq!(bracketed_codes("invalid params (2013)").collect::<Vec<_>>(), ["2013"]);
        assert_eq!(bracketed_codes("tokens per minute (tpm)").count(), 0);
    }

    #[test]
    fn documents_are_told_from_messages() {
        assert!(!is_document("Rate limit reached. Please try again in 20s."));
        let document =
            format!("# Billing\n\n{}\n\n## Quota exceeded\n\n{}", "word ".repeat(100), "limit ".repeat(100));
        assert!(is_document(&document));
    }
}
