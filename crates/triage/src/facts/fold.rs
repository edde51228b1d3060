//! One spelling for words: what is compared with phrases and codes is folded first, on both sides.
//!
//! Lower case; every kind of quotation mark becomes `'`; full-width forms become ASCII; dashes become `-`;
//! runs of white space become one space; zero-width characters vanish.

/// The folded form of a text.
pub fn fold(text: &str) -> String {
    let mut folded = String::with_capacity(text.len());
    fold_into(text, &mut folded);
    folded
}

/// Appends the folded form of a text. White space at either end is dropped.
pub(crate) fn fold_into(text: &str, folded: &mut String) {
    let start = folded.len();
    let mut space = false;
    for character in text.chars() {
        if character.is_ascii() {
            match character {
                ' ' | '\n' | '\r' | '\t' | '\x0b' | '\x0c' => space = folded.len() > start,
                '"' | '`' => push(folded, &mut space, '\''),
                '\0'..='\x1f' | '\x7f' => {}
                _ => push(folded, &mut space, character.to_ascii_lowercase()),
            }
        } else {
            fold_wide(character, folded, &mut space, start);
        }
    }
}

fn push(folded: &mut String, space: &mut bool, character: char) {
    if std::mem::take(space) {
        folded.push(' ');
    }
    folded.push(character);
}

fn fold_wide(character: char, folded: &mut String, space: &mut bool, start: usize) {
    match character {
        '\u{200b}'..='\u{200f}' | '\u{2060}' | '\u{feff}' | '\u{ad}' => {}
        '‘' | '’' | '‚' | '‛' | '“' | '”' | '„' | '‟' | '«' | '»' | '′' | '″' | '´' => {
            push(folded, space, '\'');
        }
        '‐'..='―' | '−' => push(folded, space, '-'),
        '…' => "...".chars().for_each(|dot| push(folded, space, dot)),
        '\u{ff01}'..='\u{ff5e}' => {
            let narrow = char::from_u32(u32::from(character) - 0xfee0).unwrap_or(character);
            let narrow = if matches!(narrow, '"' | '`') { '\'' } else { narrow };
            push(folded, space, narrow.to_ascii_lowercase());
        }
        _ if character.is_whitespace() => *space = folded.len() > start,
        _ => character.to_lowercase().for_each(|lower| push(folded, space, lower)),
    }
}

#[cfg(test)]
mod tests {
    use super::fold;

    #[test]
    fn spelling_variants_fold_to_one_form() {
        assert_eq!(fold("  You’ve  hit\u{a0}your\n“limit” "), "you've hit your 'limit'");
        assert_eq!(fold("剩余额度：＄２.５，请稍后再试"), "剩余额度:$2.5,请稍后再试");
        assert_eq!(fold("`Model`—NOT\u{200b} found…"), "'model'-not found...");
    }
}
