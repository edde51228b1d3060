//! The whole domain of statuses with an empty body, for every pack: nobody should be surprised by it.

use std::{collections::BTreeMap, fmt::Write as _};

use backstop_triage::{Catalog, Evidence, Kind, ProviderId};
use expect_test::expect_file;

use super::now;

#[test]
fn every_pack_reads_every_bare_status() {
    let catalog = Catalog::embedded();
    let packs: Vec<_> = catalog.packs().iter().map(|pack| pack.id.clone()).collect();
    let usual = ranges(&catalog, &ProviderId::from("unheard-of"));
    let mut table =
        String::from("# status with an empty body -> class · scope · reason · disables\n\nany provider\n");
    write(&mut table, &usual, &BTreeMap::new());
    for pack in packs {
        let own = ranges(&catalog, &pack);
        if own != usual {
            let _ = writeln!(table, "\n{}", pack.as_str());
            write(&mut table, &own, &usual);
        }
    }
    expect_file!["snapshots/domain.txt"].assert_eq(&table);
}

/// Ranges of statuses that are read alike, by their first status.
fn ranges(catalog: &Catalog, provider: &ProviderId) -> BTreeMap<u16, (u16, String)> {
    let mut ranges: BTreeMap<u16, (u16, String)> = BTreeMap::new();
    for status in 100..=599 {
        let evidence = Evidence { kind: Kind::Http { status }, ..Evidence::default() };
        let verdict = catalog.classify(provider, &evidence, now());
        let disables = if verdict.disable_key { " · disables" } else { "" };
        let read = format!("{} · {} · {}{disables}", verdict.class, verdict.scope, verdict.reason);
        match ranges.last_entry() {
            Some(mut last) if last.get().1 == read => last.get_mut().0 = status,
            _ => {
                ranges.insert(status, (status, read));
            }
        }
    }
    ranges
}

fn write(table: &mut String, ranges: &BTreeMap<u16, (u16, String)>, usual: &BTreeMap<u16, (u16, String)>) {
    for (first, (last, read)) in ranges {
        if usual.get(first) == Some(&(*last, read.clone())) {
            continue;
        }
        let span = if first == last { first.to_string() } else { format!("{first}-{last}") };
        let _ = writeln!(table, "  {span:<9} {read}");
    }
}
