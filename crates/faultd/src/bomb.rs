//! A gzip body that unpacks to far more than it weighs: one literal, then the longest match over and over.

/// Builds a gzip body of `bytes` zero bytes, about 160 times smaller.
pub(crate) fn gzip_zeros(bytes: u64) -> Vec<u8> {
    let mut bits = Bits { out: GZIP_HEADER.to_vec(), held: 0, count: 0 };
    bits.push(0b1, 1);
    bits.push(0b01, 2);
    let matches = bytes.saturating_sub(1) / LONGEST_MATCH;
    let literals = bytes - matches * LONGEST_MATCH;
    (0..literals).for_each(|_| bits.push_code(LITERAL_ZERO.0, LITERAL_ZERO.1));
    for _ in 0..matches {
        bits.push_code(LONGEST.0, LONGEST.1);
        bits.push_code(0, DISTANCE_BITS);
    }
    bits.push_code(0, END_BITS);
    let mut out = bits.finish();
    out.extend_from_slice(&crc_of_zeros(bytes).to_le_bytes());
    out.extend_from_slice(&u32::try_from(bytes & 0xffff_ffff).expect("32 bits").to_le_bytes());
    out
}

struct Bits {
    out: Vec<u8>,
    held: u32,
    count: u32,
}

impl Bits {
    /// Appends bits, the lowest first.
    fn push(&mut self, bits: u32, count: u32) {
        self.held |= bits << self.count;
        self.count += count;
        while self.count >= 8 {
            self.out.push(u8::try_from(self.held & 0xff).expect("eight bits"));
            self.held >>= 8;
            self.count -= 8;
        }
    }

    /// Appends a Huffman code, the highest bit first.
    fn push_code(&mut self, code: u32, count: u32) {
        self.push(code.reverse_bits() >> (32 - count), count);
    }

    fn finish(mut self) -> Vec<u8> {
        if self.count > 0 {
            self.push(0, 8 - self.count);
        }
        self.out
    }
}

fn crc_of_zeros(bytes: u64) -> u32 {
    let mut table = [0_u32; 256];
    for (entry, slot) in (0_u32..).zip(table.iter_mut()) {
        *slot = (0..8).fold(entry, |crc, _| if crc & 1 == 1 { 0xedb8_8320 ^ (crc >> 1) } else { crc >> 1 });
    }
    let crc = (0..bytes).fold(u32::MAX, |crc, _| table[(crc & 0xff) as usize] ^ (crc >> 8));
    !crc
}

const GZIP_HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];

/// The fixed Huffman code of the literal 0, and its length.
const LITERAL_ZERO: (u32, u32) = (0b0011_0000, 8);

/// The fixed Huffman code of the match length 258, and its length.
const LONGEST: (u32, u32) = (0b1100_0101, 8);

const LONGEST_MATCH: u64 = 258;

/// Distance code 0 says "the byte before".
const DISTANCE_BITS: u32 = 5;

const END_BITS: u32 = 7;
