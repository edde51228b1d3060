//! Answers that come packed, although no request asks for that.
//!
//! What is packed cannot be read, and an error that cannot be read is unknown to everybody. So it is unpacked for the
//! verdict, as far as that needs; the client gets it as it came.

use std::io::Read;

use brotli_decompressor::Decompressor;
use flate2::read::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};
use http::{HeaderMap, header};
use ruzstd::decoding::StreamingDecoder;

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
        "br" => read(Decompressor::new(packed, BUFFER), most),
        "zstd" => read(StreamingDecoder::new(packed).ok()?, most),
        _ => None,
    }
}

/// Reads up to the end, the limit, or where the body breaks off: half an error says something too.
fn read(unpacking: impl Read, most: usize) -> Option<Vec<u8>> {
    let mut plain = Vec::new();
    let _ = unpacking.take(most as u64).read_to_end(&mut plain);
    (!plain.is_empty()).then_some(plain)
}

const MOST_CODINGS: usize = 2;
const BUFFER: usize = 4096;

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
        let mut zlib = ZlibEncoder::new(Vec::new(), Compression::default());
        zlib.write_all(WORDS).unwrap();
        let mut bare = DeflateEncoder::new(Vec::new(), Compression::default());
        bare.write_all(WORDS).unwrap();
        let zstd = compress_to_vec(WORDS, CompressionLevel::Fastest);
        assert_eq!(said("gzip", &gzip(WORDS), 1000), words);
        assert_eq!(said("X-GZIP", &gzip(WORDS), 1000), words);
        assert_eq!(said("deflate", &zlib.finish().unwrap(), 1000), words);
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
    }

    #[test]
    fn what_breaks_off_is_read_as_far_as_it_goes() {
        let packed = gzip(&WORDS.repeat(1000));
        let half = said("gzip", &packed[..packed.len() - 20], 1 << 20).unwrap();
        assert!(half.starts_with("{\"error\""));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(
            coding in prop::sample::select(vec!["gzip", "deflate", "br", "zstd"]),
            bytes in prop::collection::vec(any::<u8>(), 0..300),
        ) {
            let headers = HeaderMap::from_iter([(header::CONTENT_ENCODING, coding.parse().unwrap())]);
            let plain = plain(&headers, &bytes, 1 << 16);
            prop_assert!(plain.is_none_or(|plain| plain.len() <= 1 << 16));
        }
    }
}
