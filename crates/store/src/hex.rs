//! 256 bits as 64 hexadecimal digits, which is how keys and hashes are written down.
//!
//! Both ways go through memory that is wiped, since what is written may be a key.

use zeroize::Zeroizing;

/// The digits, in lower case.
pub(crate) fn write(bytes: &[u8; 32]) -> Zeroizing<String> {
    let digit = |nibble: u8| char::from(DIGITS[usize::from(nibble)]);
    let mut text = Zeroizing::new(String::with_capacity(64));
    text.extend(bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]));
    text
}

/// What exactly 64 digits say.
pub(crate) fn read(text: &str) -> Option<Zeroizing<[u8; 32]>> {
    if text.len() != 64 {
        return None;
    }
    let nibble = |digit: u8| char::from(digit).to_digit(16);
    let mut bytes = Zeroizing::new([0; 32]);
    for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        *byte = u8::try_from(nibble(pair[0])? * 16 + nibble(pair[1])?).ok()?;
    }
    Some(bytes)
}

const DIGITS: &[u8; 16] = b"0123456789abcdef";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_come_back_and_nothing_else_is_read() {
        let bytes: [u8; 32] = std::array::from_fn(|index| u8::try_from(index * 8 + 7).unwrap());
        let text = write(&bytes);
        assert_eq!(*text, "070f171f272f373f474f575f676f777f878f979fa7afb7bfc7cfd7dfe7eff7ff");
        assert_eq!(read(&text).as_deref(), Some(&bytes));
        assert_eq!(read(&text.to_uppercase()).as_deref(), Some(&bytes));
        for wrong in ["", &text[1..], &format!("{}0", *text), &text.replace('f', "g"), &"é".repeat(32)] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
