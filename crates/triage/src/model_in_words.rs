//! Whether the words of a failure speak of one model: then a limit or a lack of capacity is that model's, and
//! others behind the same key go on.

use crate::facts::fold::fold;

/// Whether folded words name the model that was asked, any other one, or say "this model".
pub(crate) fn names_one(words: &str, asked: Option<&str>) -> bool {
    PHRASES.iter().any(|phrase| words.contains(phrase))
        || asked.map(fold).is_some_and(|asked| names(words, &asked))
        || words.split([' ', '\'', '\n', '(', ')', ',', '[', ']']).any(looks_like_one)
}

/// Whether the words hold the asked model as a word of its own. Models that are called like ordinary words, `auto` or
/// `chat`, prove nothing.
fn names(words: &str, asked: &str) -> bool {
    let telling = asked.len() >= MODEL_LEAST && !ORDINARY.contains(&asked);
    let goes_on = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'-');
    telling
        && words.match_indices(asked).any(|(at, _)| {
            let bytes = words.as_bytes();
            let before = at.checked_sub(1).and_then(|at| bytes.get(at));
            !goes_on(before) && !goes_on(bytes.get(at + asked.len()))
        })
}

/// Names of models are letters, digits and dashes: `llama-3.1-8b-instant`. So are ids, but those say what they are.
fn looks_like_one(word: &str) -> bool {
    let name = word.rsplit('/').next().unwrap_or(word).trim_end_matches(['.', ':', ';']);
    let (Some(first), Some(dash)) = (name.bytes().next(), name.find('-')) else {
        return false;
    };
    first.is_ascii_lowercase()
        && (MODEL_LEAST..=48).contains(&name.len())
        && !word.contains("//")
        && !IDS.contains(&name.get(..dash).unwrap_or_default())
        && name.bytes().any(|byte| byte.is_ascii_digit())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b':'))
        && name.bytes().filter(u8::is_ascii_digit).count() * 2 < name.len()
}

const PHRASES: [&str; 12] = [
    "this model",
    "for model",
    "on model",
    "of model",
    "selected model",
    "base model",
    "model is at capacity",
    "model is overloaded",
    "the model '",
    "model's",
    "该模型",
    "このモデル",
];
/// How ids begin that are no models.
const IDS: [&str; 16] = [
    "org", "proj", "req", "request", "ak", "sk", "pk", "user", "acc", "account", "key", "team", "trace",
    "gen", "x", "cf",
];
/// Names that people give to models and that failures say of other things: "free tier", "chat completions".
const ORDINARY: [&str; 16] = [
    "auto", "best", "chat", "code", "default", "fast", "free", "large", "light", "model", "models",
    "premium", "small", "standard", "text", "turbo",
];
/// Shorter names are ordinary words.
const MODEL_LEAST: usize = 4;

#[cfg(test)]
mod tests {
    use super::names_one;

    #[test]
    fn models_are_told_from_ids_and_words() {
        for (words, named) in [
            ("rate limit reached for llama-3.1-8b-instant in organization org-1a2b3c", true),
            ("rate limit exceeded for 'vendor/some-model-7b'", true),
            ("you exhausted this model's rate limit", true),
            ("your account org-0123456789abcdef / proj-000000 reached its limit", false),
            ("5-hour limit reached, see https://x.example/docs-2/limits-3", false),
            ("too many requests", false),
        ] {
            assert_eq!(names_one(words, None), named, "{words}");
        }
        assert!(names_one("sonar is busy", Some("Sonar")));
    }

    #[test]
    fn a_model_called_like_a_word_is_not_found_in_every_sentence() {
        for (asked, words) in [
            ("free", "you reached the limit of the free tier"),
            ("auto", "requests are limited automatically"),
            ("chat", "too many requests to chat completions"),
            ("sonar", "too many requests from sonarqube"),
        ] {
            assert!(!names_one(words, Some(asked)), "{asked}: {words}");
        }
    }
}
