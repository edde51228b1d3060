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
    if text.is_ascii() {
        return fold_ascii(text.as_bytes(), folded);
    }
    let start = folded.len();
    let mut space = false;
    for character in text.chars() {
        if character.is_ascii() {
            match u8::try_from(character).map_or(DROPPED, |byte| ASCII[usize::from(byte)]) {
                SPACE => space = folded.len() > start,
                DROPPED => {}
                byte => push(folded, &mut space, char::from(byte)),
            }
        } else {
            fold_wide(character, folded, &mut space, start);
        }
    }
}

/// Most text is ASCII: it is folded in blocks through a table.
fn fold_ascii(text: &[u8], folded: &mut String) {
    let mut block = [0u8; 256];
    let mut filled = 0;
    let mut begun = false;
    let mut space = false;
    for byte in text {
        let byte = ASCII[usize::from(*byte & 0x7f)];
        if byte == SPACE {
            space = begun;
            continue;
        }
        if byte == DROPPED {
            continue;
        }
        if filled + 2 > block.len() {
            flush(&block, &mut filled, folded);
        }
        if std::mem::take(&mut space) {
            block[filled] = b' ';
            filled += 1;
        }
        block[filled] = byte;
        filled += 1;
        begun = true;
    }
    flush(&block, &mut filled, folded);
}

fn flush(block: &[u8], filled: &mut usize, folded: &mut String) {
    let ready = block.get(..*filled).and_then(|ready| std::str::from_utf8(ready).ok());
    folded.push_str(ready.unwrap_or_default());
    *filled = 0;
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

/// Marks white space in [`ASCII`].
const SPACE: u8 = 1;
/// Marks what vanishes in [`ASCII`].
const DROPPED: u8 = 0;

/// What every ASCII character folds to.
const ASCII: [u8; 128] = {
    let mut table = [DROPPED; 128];
    let mut byte = 0u8;
    while byte < 128 {
        table[byte as usize] = match byte {
            b' ' | b'\n' | b'\r' | b'\t' | 0x0b | 0x0c => SPACE,
            b'"' | b'`' => b'\'',
            0..=0x1f | 0x7f => DROPPED,
            other => other.to_ascii_lowercase(),
        };
        byte += 1;
    }
    table
};

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
