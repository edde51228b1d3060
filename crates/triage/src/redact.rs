//! Takes secrets out of text that people will see.
//!
//! A word that looks like a credential keeps its first characters, so that people can tell keys apart, and
//! loses the rest. Looking like one is a matter of shape, never of a provider's name: long, without spaces,
//! letters and digits mixed; or any long word after a word that announces a secret. Mail addresses go too.

use std::borrow::Cow;

/// A text without the secrets in it.
pub fn redact(text: &str) -> String {
    if !text.bytes().any(|byte| byte.is_ascii_digit() || byte == b'@') && text.len() < 24 {
        return text.to_owned();
    }
    let mut redacted = String::with_capacity(text.len());
    let mut announced = false;
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let word_end = rest.find(|c: char| !in_word(c)).unwrap_or(rest.len());
        if word_end == 0 {
            redacted.push(first);
            announced &= matches!(first, ' ' | ':' | '=' | '"' | '\'' | '\\');
            rest = rest.get(first.len_utf8()..).unwrap_or_default();
            continue;
        }
        let word = rest.get(..word_end).unwrap_or_default();
        if is_secret(word, announced) {
            let shown: String = word.chars().take(SHOWN).collect();
            redacted.push_str(&shown);
            redacted.push_str("***");
            announced = false;
        } else {
            redacted.push_str(word);
            announced = announces(word);
        }
        rest = rest.get(word_end..).unwrap_or_default();
    }
    redacted
}

/// A text in which what has the beginning and the length of a credential is masked, and nothing else; for lines whose
/// own words must survive.
pub fn mask_shapes(text: &str) -> Cow<'_, str> {
    if !PREFIXES.iter().any(|prefix| text.contains(prefix)) {
        return Cow::Borrowed(text);
    }
    let mut masked = String::with_capacity(text.len());
    for word in text.split_inclusive(|c: char| !in_word(c)) {
        let end = word.trim_end_matches(|c: char| !in_word(c)).len();
        let (word, after) = word.split_at(end);
        if is_prefixed(word) && word.len() >= SHORTEST_SHAPE {
            masked.extend(word.chars().take(SHOWN));
            masked.push_str("***");
        } else {
            masked.push_str(word);
        }
        masked.push_str(after);
    }
    Cow::Owned(masked)
}

fn is_prefixed(word: &str) -> bool {
    PREFIXES.iter().any(|prefix| word.starts_with(prefix))
}

fn in_word(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '-' | '_' | '.' | '+' | '@' | '~' | '*')
}

fn is_secret(word: &str, announced: bool) -> bool {
    let count = |belongs: fn(&u8) -> bool| word.bytes().filter(belongs).count();
    let digits = count(u8::is_ascii_digit);
    let letters = count(u8::is_ascii_alphabetic);
    if word.contains('@') && word.rsplit('@').next().is_some_and(|host| host.contains('.')) {
        return true;
    }
    if announced && word.len() >= 8 && digits > 0 && letters > 0 {
        return true;
    }
    if is_uuid(word) || is_model_like(word) {
        return false;
    }
    (is_prefixed(word) && word.len() >= 12)
        || (word.len() >= 24 && digits >= 4 && letters >= 4 && changes(word) >= 6)
}

fn announces(word: &str) -> bool {
    let word = word.to_ascii_lowercase();
    [
        "bearer",
        "apikey",
        "api_key",
        "api-key",
        "x-api-key",
        "token",
        "secret",
        "password",
        "authorization",
        "key",
    ]
    .contains(&word.as_str())
}

fn is_uuid(word: &str) -> bool {
    word.len() == 36 && word.bytes().filter(|byte| *byte == b'-').count() == 4
}

/// Names of models and versions have short parts; credentials have a long one.
fn is_model_like(word: &str) -> bool {
    word.split(['-', '.', '_']).all(|part| part.len() < 16)
}

/// How often letters and digits change places.
fn changes(word: &str) -> usize {
    let kinds: Vec<_> = word.bytes().map(|byte| byte.is_ascii_digit()).collect();
    kinds.windows(2).filter(|pair| pair.first() != pair.last()).count()
}

/// Characters of a secret that stay.
const SHOWN: usize = 4;
const PREFIXES: [&str; 9] = ["sk-", "pk-", "eyJ", "AIza", "ghp_", "gho_", "key-", "bsk_", "bsa_"];
/// Short words with such a beginning are names.
const SHORTEST_SHAPE: usize = 20;

#[cfg(test)]
mod tests {
    use super::{mask_shapes, redact};

    #[test]
    fn credentials_lose_all_but_their_beginning() {
        for (text, expected) in [
            (
                "Incorrect API key provided: sk-proj-abc123DEF456ghi789.",
                "Incorrect API key provided: sk-p***",
            ),
            ("Authorization: Bearer 0a1b2c3d4e5f", "Authorization: Bearer 0a1b***"),
            ("key=AIzaSyA1b2C3d4E5f6G7h8I9j0K1l2", "key=AIza***"),
            ("mail jane@example.com", "mail jane***"),
            ("model claude-3-5-sonnet-20241022 not found", "model claude-3-5-sonnet-20241022 not found"),
            ("tokens per minute: limit 30000", "tokens per minute: limit 30000"),
        ] {
            assert_eq!(redact(text), expected);
        }
    }

    #[test]
    fn shapes_are_masked_and_every_other_word_survives() {
        let line = r#"{"key":"key-7","request":"01JD5Y0Z7Q3X9V8W2T4R6P1N0M","said":"sk-abcdefghijklmnopqrst, bsk_0123456789abcdef"}"#;
        let masked = r#"{"key":"key-7","request":"01JD5Y0Z7Q3X9V8W2T4R6P1N0M","said":"sk-a***, bsk_***"}"#;
        assert_eq!(mask_shapes(line), masked);
    }
}
