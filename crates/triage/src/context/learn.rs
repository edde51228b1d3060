//! What failures and answers teach about a window, and how long it is believed.

use std::{sync::LazyLock, time::Duration};

use jiff::Timestamp;
use regex::Regex;
use serde::{Deserialize, Serialize};

use super::{Limits, SANE};

/// A remembered window of one model at one base URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cached {
    /// The limits.
    #[serde(flatten)]
    pub limits: Limits,
    /// How they were found out.
    pub origin: Origin,
    /// When.
    pub at: Timestamp,
}

/// How a remembered window was found out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// An overflow error stated it.
    Learned,
    /// The provider's metadata stated it.
    Asked,
    /// A local server stated it: it may be loaded differently the next minute.
    AskedLocally,
}

impl Origin {
    /// The public name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Learned => "learned from an overflow",
            Self::Asked => "asked",
            Self::AskedLocally => "asked locally",
        }
    }

    /// How long it is believed.
    pub const fn time_to_live(self) -> Duration {
        match self {
            Self::Learned => Duration::from_secs(30 * 86_400),
            Self::Asked => Duration::from_secs(86_400),
            Self::AskedLocally => Duration::from_secs(300),
        }
    }
}

impl Cached {
    /// Whether it is still believed.
    pub fn fresh(&self, now: Timestamp) -> bool {
        now.duration_since(self.at)
            < jiff::SignedDuration::try_from(self.origin.time_to_live()).unwrap_or_default()
    }

    /// What remains of it after an overflow of a prompt of about this many tokens, whose error said `text`.
    /// A stated limit replaces it; a prompt far below it that overflows all the same disproves it.
    pub fn after_overflow(self, text: &str, prompt_tokens: Option<u64>, now: Timestamp) -> Option<Self> {
        if let Some(learned) = Self::learned(text, now) {
            let max_output = self.limits.max_output.filter(|limit| *limit <= learned.limits.context);
            return Some(Self { limits: Limits { max_output, ..learned.limits }, ..learned });
        }
        let disproved = prompt_tokens.is_some_and(|tokens| tokens.saturating_mul(2) < self.limits.context);
        (!disproved).then_some(self)
    }

    /// What remains of it after an answer to a prompt that the provider counted as this many tokens: a prompt
    /// larger than the window disproves it.
    pub fn after_answer(self, prompt_tokens: u64) -> Option<Self> {
        (prompt_tokens <= self.limits.context).then_some(self)
    }

    /// What an overflow error teaches, if it states the limit.
    pub fn learned(text: &str, now: Timestamp) -> Option<Self> {
        let context = stated_limit(text)?;
        Some(Self { limits: Limits { context, max_output: None }, origin: Origin::Learned, at: now })
    }
}

/// The window that the text of an overflow error states. Texts that only say that `max_tokens` does not fit
/// state none.
pub fn stated_limit(text: &str) -> Option<u64> {
    static PATTERNS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
        LIMIT_PATTERNS
            .iter()
            .map(|pattern| Regex::new(pattern).expect("the patterns are constants"))
            .collect()
    });
    let mut end = text.len().min(TEXT_READ);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let text = text[..end].to_ascii_lowercase();
    PATTERNS.iter().find_map(|pattern| {
        let digits = pattern.captures(&text)?.get(1)?.as_str().replace([',', '_'], "");
        digits.parse().ok().filter(|limit| SANE.contains(limit))
    })
}

/// Each captures the limit. They are about the window: none of them is satisfied by a limit on the answer.
const LIMIT_PATTERNS: [&str; 13] = [
    r"context (?:length|window|size|limit)[^.\d]{0,40}: ?\d[\d,_]* ?\+ ?\d[\d,_]* ?> ?(\d[\d,_]+)",
    r"(?:context (?:length|window|size|limit)|context_length|max(?:imum)? context)(?: (?:is|of|to))*(?: only)?[ :=]*\(?(\d[\d,_]+)(?: tokens|\b)",
    r"\d[\d,_]* tokens? ?> ?(\d[\d,_]+) ?max",
    r"exceeds? the max(?:imum)? number of tokens allowed \(?(\d[\d,_]+)",
    r"model token limit ?: ?(\d[\d,_]+)",
    r"n_ctx\\?[\x22']? ?[:=] ?(\d[\d,_]+)",
    r"`?inputs`? tokens \+ `?max_new_tokens`? must be <= ?(\d[\d,_]+)",
    r"range of input length should be \[\d+, ?(\d[\d,_]+)\]",
    r"max(?:imum)? size: ?(\d[\d,_]+) tokens",
    r"max(?:imum)? (?:input|prompt) (?:length|tokens)(?: is| of)? ?:?(?: only)? ?(\d[\d,_]+)",
    r"(?:prompt|input)[^.]{0,60}(?:maximum|at most|limit of|limited to|up to) (\d[\d,_]+) (?:input |prompt )?tokens",
    r"(\d[\d,_]+)[- ]token (?:context|window)",
    r"context window[^.\d]{0,30}(\d[\d,_]{3,}) tokens",
];
const TEXT_READ: usize = 8 * 1024;
