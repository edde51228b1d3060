//! Reads keys out of what people paste: one per line, with or without a label before it.

use backstop_store::{Secret, keys::NewKey};
use backstop_triage::AccountId;

/// The keys in a text. Empty lines and lines that begin with `#` are left out.
///
/// A line is a key; or a label and a key, apart by a tab, a comma or blanks; or `NAME=key` as in an `.env` file.
pub fn keys(text: &str, account: Option<&AccountId>) -> Vec<NewKey> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .filter_map(|line| {
            let (label, secret) = split(line);
            let secret = Secret::new(unquoted(secret));
            let label = label.trim().trim_end_matches([':', ',']).to_owned();
            (!secret.expose().is_empty()).then(|| NewKey { label, account: account.cloned(), secret })
        })
        .collect()
}

fn split(line: &str) -> (&str, &str) {
    let line = line.strip_prefix("export ").unwrap_or(line).trim_start();
    if let Some((name, secret)) = line.split_once('=')
        && !secret.trim_matches('=').is_empty()
        && name.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
    {
        return (name, secret);
    }
    line.rsplit_once(['\t', ',', ' ']).unwrap_or(("", line))
}

fn unquoted(text: &str) -> &str {
    let text = text.trim();
    let inner = |quote| text.strip_prefix(quote).and_then(|text| text.strip_suffix(quote));
    inner('"').or_else(|| inner('\'')).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_usual_form_of_a_list_is_read() {
        let text = "\n# mine\nsk-plain\nwork, sk-comma\nmy free tier\tsk-tab\nhome: sk-colon\n\
                    OPENAI_API_KEY=sk-env\nexport B_2='sk-quoted'\nYWJj==\n";
        let read: Vec<_> =
            keys(text, None).into_iter().map(|key| (key.label, key.secret.expose().to_owned())).collect();
        let expected = [
            ("", "sk-plain"),
            ("work", "sk-comma"),
            ("my free tier", "sk-tab"),
            ("home", "sk-colon"),
            ("OPENAI_API_KEY", "sk-env"),
            ("B_2", "sk-quoted"),
            ("", "YWJj=="),
        ];
        assert_eq!(read, expected.map(|(label, secret)| (label.to_owned(), secret.to_owned())));
    }
}
