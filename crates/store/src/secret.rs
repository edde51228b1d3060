//! Text that must not be shown.

use std::fmt;

use zeroize::Zeroizing;

/// A credential: prints as `***`, is wiped when dropped, and is read only by [`Secret::expose`].
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Takes a credential in, without surrounding white space.
    pub fn new(text: &str) -> Self {
        Self(Zeroizing::new(text.trim().to_owned()))
    }

    /// The credential in the clear, for the place that sends it.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// What people may see of it: its last four characters, and the first four too when it is long.
    pub fn hint(&self) -> String {
        let characters: Vec<char> = self.0.chars().collect();
        let last = |count: usize| characters[characters.len() - count..].iter().collect::<String>();
        match characters.len() {
            0..=11 => "…".to_owned(),
            12..=19 => format!("…{}", last(4)),
            20.. => format!("{}…{}", characters[..4].iter().collect::<String>(), last(4)),
        }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_never_prints_itself() {
        assert_eq!(format!("{:?}", Secret::new(" sk-very-secret\n")), "***");
    }

    #[test]
    fn a_hint_gives_away_little_of_a_short_secret() {
        assert_eq!(Secret::new("short").hint(), "…");
        assert_eq!(Secret::new("abcdefghijklmn").hint(), "…klmn");
        assert_eq!(Secret::new("sk-abcdefghijklmnopqrstuvwxyz").hint(), "sk-a…wxyz");
    }
}
