//! Any text as a rule pack: it parses, or says where and why not; what parses compiles and classifies.

use backstop_triage::{Catalog, Evidence, Kind, Timestamp, rules::Pack};

/// One input.
pub(crate) fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match Pack::parse("draft.toml", &text) {
        Err(error) => assert!(error.line >= 1 && !error.fix.is_empty(), "{error}"),
        Ok(pack) => {
            let Ok(catalog) = Catalog::of(vec![pack], 1) else {
                return;
            };
            let evidence = Evidence {
                kind: Kind::Http { status: 429 },
                text: text.chars().take(4096).collect(),
                ..Evidence::default()
            };
            let _ = catalog.classify(&"draft".into(), &evidence, Timestamp::UNIX_EPOCH);
            let _ = catalog.lint(0..1, Timestamp::UNIX_EPOCH);
        }
    }
}
