//! What pages load: one stylesheet, one script, the icons; part of the binary.
//!
//! Every file has the hash of its content in its name and so may be kept for ever by a browser. Files are packed
//! once, at the first use.

use std::{io::Write as _, sync::LazyLock};

use axum::{
    extract::Path,
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use sha2::{Digest as _, Sha256};

/// One file.
pub(crate) struct Asset {
    path: String,
    kind: &'static str,
    plain: &'static str,
    packed: Bytes,
}

impl Asset {
    fn new(name: &str, ending: &str, kind: &'static str, plain: &'static str) -> Self {
        let hash = Sha256::digest(plain);
        let hash = hash.iter().take(6).map(|byte| format!("{byte:02x}")).collect::<String>();
        let path = format!("/assets/{name}-{hash}.{ending}");
        Self { path, kind, plain, packed: packed(plain.as_bytes()) }
    }

    /// The path under which pages load it.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }
}

/// The stylesheet.
pub(crate) static STYLE: LazyLock<Asset> = LazyLock::new(|| {
    let style = concat!(include_str!("assets/backstop.css"), include_str!("assets/pages.css"));
    Asset::new("backstop", "css", "text/css; charset=utf-8", style)
});

/// The script: its parts share one module.
pub(crate) static SCRIPT: LazyLock<Asset> = LazyLock::new(|| {
    let script = concat!(
        include_str!("assets/frame.js"),
        include_str!("assets/live.js"),
        include_str!("assets/actions.js"),
        include_str!("assets/keys.js"),
        include_str!("assets/lists.js"),
        include_str!("assets/forms.js"),
        include_str!("assets/sign-in.js"),
    );
    Asset::new("backstop", "js", "text/javascript; charset=utf-8", script)
});

/// The icons.
pub(crate) static ICONS: LazyLock<Asset> =
    LazyLock::new(|| Asset::new("icons", "svg", "image/svg+xml", include_str!("assets/icons.svg")));

/// The mark in the browser's tab.
pub(crate) static MARK: LazyLock<Asset> =
    LazyLock::new(|| Asset::new("mark", "svg", "image/svg+xml", include_str!("assets/mark.svg")));

/// Serves a file by its name.
pub(crate) async fn serve(Path(name): Path<String>, headers: HeaderMap) -> Response {
    let known = [&*STYLE, &*SCRIPT, &*ICONS, &*MARK];
    let asset = known.into_iter().find(|asset| asset.path.strip_prefix("/assets/") == Some(&name));
    let Some(asset) = asset else { return StatusCode::NOT_FOUND.into_response() };
    let kept = [
        (header::CONTENT_TYPE, HeaderValue::from_static(asset.kind)),
        (header::CACHE_CONTROL, HeaderValue::from_static("public, max-age=31536000, immutable")),
        (header::VARY, HeaderValue::from_static("accept-encoding")),
    ];
    if takes_gzip(&headers) {
        let encoding = [(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"))];
        return (kept, encoding, asset.packed.clone()).into_response();
    }
    (kept, asset.plain).into_response()
}

/// Whether whoever asks can unpack.
pub(crate) fn takes_gzip(headers: &HeaderMap) -> bool {
    let accepted = headers.get(header::ACCEPT_ENCODING).and_then(|value| value.to_str().ok());
    accepted.is_some_and(|accepted| {
        accepted.split(',').any(|part| {
            let (name, weight) = part.split_once(';').unwrap_or((part, ""));
            name.trim() == "gzip" && !weight.contains("q=0")
        })
    })
}

/// Packs a text.
pub(crate) fn packed(plain: &[u8]) -> Bytes {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::new(6));
    // Writing to memory does not fail.
    let _written = encoder.write_all(plain);
    encoder.finish().unwrap_or_default().into()
}
