//! Any bytes, as any kind of failure of any provider: one verdict, the same twice, no panic.

use backstop_triage::{Catalog, Evidence, Fault, Kind, ProviderId, Timestamp};

/// One input.
pub(crate) fn run(data: &[u8]) {
    let Some(([kind, provider], body)) = data.split_first_chunk::<2>() else {
        return;
    };
    let catalog = Catalog::embedded();
    let text = String::from_utf8_lossy(body).into_owned();
    let status = 200 + u16::from(*kind);
    let kind = match kind % 4 {
        0 => Kind::Http { status },
        1 => Kind::Stream { status: 200 },
        2 => Kind::Transport(Fault::ALL[usize::from(*kind) % Fault::ALL.len()]),
        _ => Kind::Process { exit_code: Some(i32::from(*kind)), signal: None },
    };
    let packs = catalog.packs();
    let provider =
        packs.get(usize::from(*provider)).map_or_else(|| ProviderId::from("x"), |pack| pack.id.clone());
    let evidence = Evidence { kind, stderr: text.clone(), text, ..Evidence::default() };
    let verdict = catalog.classify(&provider, &evidence, Timestamp::UNIX_EPOCH);
    assert_eq!(verdict, catalog.classify(&provider, &evidence, Timestamp::UNIX_EPOCH));
    let explained = catalog.explain(&provider, &evidence, Timestamp::UNIX_EPOCH);
    assert_eq!(verdict.class, explained.class);
}
