//! The end of a stream: bounded memory however much a process prints.

/// Keeps the last 64 KiB of what passes.
#[derive(Debug, Default)]
pub struct Tail {
    bytes: Vec<u8>,
}

impl Tail {
    /// Takes in what has just passed.
    pub fn push(&mut self, chunk: &[u8]) {
        let chunk = &chunk[chunk.len().saturating_sub(KEPT)..];
        if self.bytes.len() + chunk.len() > 2 * KEPT {
            self.bytes.drain(..self.bytes.len().saturating_sub(KEPT));
        }
        self.bytes.extend_from_slice(chunk);
    }

    /// The kept end as text: no terminal control sequences, broken UTF-8 replaced, a character that the cut
    /// went through left out.
    pub fn text(&self) -> String {
        let mut kept = &self.bytes[self.bytes.len().saturating_sub(KEPT)..];
        if kept.len() < self.bytes.len() {
            let whole = kept.iter().position(|byte| byte & 0xc0 != 0x80).unwrap_or(kept.len());
            kept = &kept[whole..];
        }
        without_control_sequences(&String::from_utf8_lossy(kept))
    }
}

/// Colours and cursor movements stand between the letters of messages on a terminal.
fn without_control_sequences(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\u{1b}' => match rest.next() {
                Some('[') => while rest.next().is_some_and(|c| !('@'..='~').contains(&c)) {},
                Some(']') => while rest.next().is_some_and(|c| c != '\u{7}' && c != '\u{1b}') {},
                Some(_) | None => {}
            },
            '\r' if rest.peek() == Some(&'\n') => {}
            '\r' => plain.push('\n'),
            '\u{8}' | '\u{7}' | '\0' => {}
            c => plain.push(c),
        }
    }
    plain
}

const KEPT: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_flood_is_kept_in_bounded_memory() {
        let mut tail = Tail::default();
        for line in 0..200_000 {
            tail.push(format!("line {line}\n").as_bytes());
        }
        tail.push(b"the last word");
        assert!(tail.bytes.capacity() <= 4 * KEPT);
        let text = tail.text();
        assert!(text.len() <= KEPT && text.ends_with("line 199999\nthe last word"));
    }

    #[test]
    fn a_cut_through_a_character_leaves_the_character_out() {
        let mut tail = Tail::default();
        tail.push("é".repeat(KEPT).as_bytes());
        tail.push(b"x");
        assert!(!tail.text().contains('\u{fffd}'));
        assert!(tail.text().ends_with("éx"));
    }

    #[test]
    fn colours_and_cursor_movements_do_not_stand_between_words() {
        let mut tail = Tail::default();
        tail.push(
            "\u{1b}[31mYou\u{1b}[0m've hit\u{1b}]0;title\u{7} your limit\r\nresets 4am\rdone".as_bytes(),
        );
        assert_eq!(tail.text(), "You've hit your limit\nresets 4am\ndone");
    }
}
