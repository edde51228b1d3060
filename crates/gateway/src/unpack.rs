//! Answers that come packed, although no request asks for that.
//!
//! What is packed cannot be read, and an error that cannot be read is unknown to everybody. So it is unpacked for the
//! verdict, as far as that needs; the client gets it as it came.

use std::io::Read;

use brotli_decompressor::{BrotliDecoderParameter, Decompressor};
use flate2::read::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};
use http::{HeaderMap, header};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

/// The first `most` bytes of what a packed body says; `None` if it is not packed, or in a way that nobody here knows.
pub(crate) fn plain(headers: &HeaderMap, body: &[u8], most: usize) -> Option<Vec<u8>> {
    let codings =
        headers.get_all(header::CONTENT_ENCODING).into_iter().filter_map(|value| value.to_str().ok());
    let codings = codings.flat_map(|list| list.split(',')).map(str::trim);
    let codings: Vec<&str> =
        codings.filter(|coding| !coding.is_empty() && !coding.eq_ignore_ascii_case("identity")).collect();
    if codings.len() > MOST_CODINGS {
        return None;
    }
    let mut outermost_first = codings.into_iter().rev();
    let mut plain = unpacked(outermost_first.next()?, body, most)?;
    for coding in outermost_first {
        plain = unpacked(coding, &plain, most)?;
    }
    Some(plain)
}

fn unpacked(coding: &str, packed: &[u8], most: usize) -> Option<Vec<u8>> {
    match coding.to_ascii_lowercase().as_str() {
        "gzip" | "x-gzip" => read(MultiGzDecoder::new(packed), most),
        // Some servers mean the bare form, without the header that the name stands for.
        "deflate" => read(ZlibDecoder::new(packed), most).or_else(|| read(DeflateDecoder::new(packed), most)),
        "br" => brotli(packed, most),
        "zstd" => zstd(packed, most),
        _ => None,
    }
}

/// Up to the 16 MiB of the coding's own window are held; its large form, a gigabyte of window, is no coding of HTTP.
fn brotli(packed: &[u8], most: usize) -> Option<Vec<u8>> {
    let mut unpacking = Decompressor::new(packed, BUFFER);
    unpacking.set_parameter(BrotliDecoderParameter::BROTLI_DECODER_PARAM_LARGE_WINDOW, 0);
    read(unpacking, most)
}

/// No more than the block that goes beyond `most` is held, whatever window the frame asks for: the decoder keeps a whole
/// window back until the frame is over, so the frame is ended by hand.
fn zstd(mut packed: &[u8], most: usize) -> Option<Vec<u8>> {
    let mut frame = FrameDecoder::new();
    frame.init(&mut packed).ok()?;
    // Where it breaks off, what came before says something too.
    let _ = frame.decode_blocks(&mut packed, BlockDecodingStrategy::UptoBytes(most));
    if !frame.is_finished() {
        frame.decode_blocks(EMPTY_LAST_BLOCK, BlockDecodingStrategy::All).ok()?;
    }
    read(frame, most)
}

/// Reads up to the end, the limit, or where the body breaks off: half an error says something too.
fn read(unpacking: impl Read, most: usize) -> Option<Vec<u8>> {
    let mut plain = Vec::new();
    let _ = unpacking.take(most as u64).read_to_end(&mut plain);
    (!plain.is_empty()).then_some(plain)
}

const MOST_CODINGS: usize = 2;
const BUFFER: usize = 4096;
/// The header of a raw block without content, and room for the checksum that some frames end with.
const EMPTY_LAST_BLOCK: &[u8] = &[1, 0, 0, 0, 0, 0, 0];

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::{
        Compression,
        write::{DeflateEncoder, GzEncoder, ZlibEncoder},
    };
    use proptest::prelude::*;
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    use super::*;

    const WORDS: &[u8] = br#"{"error":{"message":"the words of an error, the words of an error"}}"#;
    /// [`WORDS`] as the reference implementation of brotli packs them.
    const BROTLI: &[u8] = &[
        27, 67, 0, 224, 44, 14, 236, 134, 111, 207, 72, 167, 134, 6, 156, 181, 226, 232, 107, 17, 57, 144,
        189, 25, 134, 230, 86, 101, 116, 165, 211, 215, 34, 101, 111, 114, 96, 3, 14, 88, 3, 110, 194, 1,
        103, 190, 55, 158, 86, 204, 59, 93, 56, 208, 152, 43, 8, 226, 133, 136, 201, 208, 28,
    ];

    fn said(coding: &str, packed: &[u8], most: usize) -> Option<String> {
        let headers = HeaderMap::from_iter([(header::CONTENT_ENCODING, coding.parse().unwrap())]);
        plain(&headers, packed, most).map(|plain| String::from_utf8(plain).unwrap())
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut packing = GzEncoder::new(Vec::new(), Compression::default());
        packing.write_all(bytes).unwrap();
        packing.finish().unwrap()
    }

    #[test]
    fn every_usual_coding_is_read() {
        let words = Some(String::from_utf8(WORDS.to_vec()).unwrap());
        let mut bare = DeflateEncoder::new(Vec::new(), Compression::default());
        bare.write_all(WORDS).unwrap();
        let zstd = packed("zstd");
        assert_eq!(said("gzip", &gzip(WORDS), 1000), words);
        assert_eq!(said("X-GZIP", &gzip(WORDS), 1000), words);
        assert_eq!(said("deflate", &packed("deflate"), 1000), words);
        assert_eq!(said("deflate", &bare.finish().unwrap(), 1000), words);
        assert_eq!(said("br", BROTLI, 1000), words);
        assert_eq!(said("zstd", &zstd, 1000), words);
        assert_eq!(said("identity, zstd, gzip", &gzip(&zstd), 1000), words);
    }

    #[test]
    fn what_is_not_packed_or_not_known_stays_as_it_is() {
        assert_eq!(said("identity", WORDS, 1000), None);
        assert_eq!(said("compress", WORDS, 1000), None);
        assert_eq!(said("gzip", WORDS, 1000), None, "no gzip at all");
        assert_eq!(plain(&HeaderMap::new(), WORDS, 1000), None);
    }

    #[test]
    fn no_more_is_unpacked_than_asked_for() {
        let bomb = gzip(&gzip(&vec![b'x'; 10 << 20]));
        assert_eq!(said("gzip, gzip", &bomb, 100).unwrap().len(), 100);
        // A frame with a window of 128 MiB: twice 128 KiB of one letter, and then what nobody can read.
        let block = [0b010, 0, 0x10, b'x'];
        let bomb = [&[0x28, 0xb5, 0x2f, 0xfd, 0, 17 << 3], &block[..], &block, &[0b110, 0, 0]].concat();
        assert_eq!(said("zstd", &bomb, 100), Some("x".repeat(100)));
        assert_eq!(said("zstd", &bomb, 1 << 20), Some("x".repeat(256 << 10)));
        // One letter in a window of 1 GiB, and in one of 64 KiB.
        let large = [0x11, 30, 0, 0, 2, b'x', 3];
        assert_eq!(said("br", &large, 100), None);
        let usual = [0, 0, 16, b'x', 3];
        assert_eq!(said("br", &usual, 100).as_deref(), Some("x"));
    }

    #[test]
    fn what_breaks_off_is_read_as_far_as_it_goes() {
        let packed = gzip(&WORDS.repeat(1000));
        let half = said("gzip", &packed[..packed.len() - 20], 1 << 20).unwrap();
        assert!(half.starts_with("{\"error\""));
        let packed = compress_to_vec(&WORDS.repeat(5000)[..], CompressionLevel::Fastest);
        let half = said("zstd", &packed[..packed.len() - 20], 1 << 20).unwrap();
        assert!(half.starts_with("{\"error\""));
    }

    fn packed(coding: &str) -> Vec<u8> {
        match coding {
            "gzip" => gzip(WORDS),
            "deflate" => {
                let mut packing = ZlibEncoder::new(Vec::new(), Compression::default());
                packing.write_all(WORDS).unwrap();
                packing.finish().unwrap()
            }
            "br" => BROTLI.to_vec(),
            _ => compress_to_vec(WORDS, CompressionLevel::Fastest),
        }
    }

    proptest! {
        #[test]
        fn broken_bodies_are_read_without_panic(
            coding in prop::sample::select(vec!["gzip", "deflate", "br", "zstd"]),
            changes in prop::collection::vec(any::<(prop::sample::Index, u8)>(), 0..6),
            end in any::<prop::sample::Index>(),
            more in prop::collection::vec(any::<u8>(), 0..300),
        ) {
            let mut bytes = packed(coding);
            for (place, byte) in changes {
                let place = place.index(bytes.len());
                bytes[place] = byte;
            }
            bytes.truncate(end.index(bytes.len() + 1));
            bytes.extend(more);
            let headers = HeaderMap::from_iter([(header::CONTENT_ENCODING, coding.parse().unwrap())]);
            let plain = plain(&headers, &bytes, 1 << 16);
            prop_assert!(plain.is_none_or(|plain| plain.len() <= 1 << 16));
        }
    }
}
