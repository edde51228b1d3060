//! The rule packs and presets that are part of the binary, as the build script found them.

include!(concat!(env!("OUT_DIR"), "/embedded.rs"));
