//! Which keys may be picked at this moment: a bitmap with a summary above it, so that finding the next one
//! costs the same with one key as with ten thousand of which all but one rest.

/// A set of small numbers with a fast "next member from here on".
#[derive(Clone, Debug, Default)]
pub(super) struct ReadySet {
    words: Vec<u64>,
    /// One bit for every word that is not empty.
    summary: Vec<u64>,
}

impl ReadySet {
    pub(super) fn with_len(len: usize) -> Self {
        let words = len.div_ceil(64);
        Self { words: vec![0; words], summary: vec![0; words.div_ceil(64)] }
    }

    pub(super) fn put(&mut self, member: usize, is_in: bool) {
        let (word, bit) = (member / 64, 1 << (member % 64));
        if is_in {
            self.words[word] |= bit;
            self.summary[word / 64] |= 1 << (word % 64);
        } else {
            self.words[word] &= !bit;
            if self.words[word] == 0 {
                self.summary[word / 64] &= !(1 << (word % 64));
            }
        }
    }

    pub(super) fn contains(&self, member: usize) -> bool {
        self.words.get(member / 64).is_some_and(|word| word & (1 << (member % 64)) != 0)
    }

    /// The first member at or after `from`.
    pub(super) fn next(&self, from: usize) -> Option<usize> {
        let word = from / 64;
        let rest = self.words.get(word)? & (u64::MAX << (from % 64));
        if rest != 0 {
            return Some(word * 64 + rest.trailing_zeros() as usize);
        }
        let word = self.next_word(word + 1)?;
        Some(word * 64 + self.words[word].trailing_zeros() as usize)
    }

    fn next_word(&self, from: usize) -> Option<usize> {
        let first = from / 64;
        let rest = self.summary.get(first)? & (u64::MAX << (from % 64));
        if rest != 0 {
            return Some(first * 64 + rest.trailing_zeros() as usize);
        }
        let (index, summary) =
            self.summary.iter().enumerate().skip(first + 1).find(|(_, word)| **word != 0)?;
        Some(index * 64 + summary.trailing_zeros() as usize)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_finds_what_a_plain_set_finds(
            moves in prop::collection::vec((0_usize..9000, any::<bool>()), 0..200),
            from in 0_usize..9100,
        ) {
            let mut ready = ReadySet::with_len(9000);
            let mut plain = BTreeSet::new();
            for (member, is_in) in moves {
                ready.put(member, is_in);
                if is_in { plain.insert(member); } else { plain.remove(&member); }
            }
            prop_assert_eq!(ready.next(from), plain.range(from..).next().copied());
            prop_assert_eq!(ready.contains(from), plain.contains(&from));
        }
    }
}
