//! The rule files and presets of the repository.

use std::{fs, path::Path};

use backstop_triage::{Timestamp, catalog::Catalog, preset, rules::Pack};

#[test]
fn every_rule_file_parses() {
    let mut wrong = Vec::new();
    for (name, text) in files("rules") {
        if let Err(error) = Pack::parse(&name, &text) {
            wrong.push(error.to_string());
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_rule_matches_its_own_example_before_any_other() {
    let catalog = Catalog::embedded();
    let findings: Vec<_> = catalog
        .lint(0..catalog.packs().len(), Timestamp::UNIX_EPOCH)
        .iter()
        .map(ToString::to_string)
        .collect();
    assert!(findings.is_empty(), "{}", findings.join("\n"));
}

#[test]
fn every_preset_parses_and_names_a_pack_that_exists() {
    let packs: Vec<_> = files("rules").into_iter().map(|(name, _)| name).collect();
    let mut wrong = Vec::new();
    for (name, text) in files("presets") {
        match preset::parse(&name, &text) {
            Err(error) => wrong.push(error.to_string()),
            Ok(presets) => wrong.extend(
                presets.iter().filter(|preset| !packs.contains(&format!("{}.toml", preset.rules))).map(
                    |preset| format!("{name}: {}: there is no pack {:?}", preset.id, preset.rules.as_str()),
                ),
            ),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn files(folder: &str) -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut files: Vec<_> = fs::read_dir(folder)
        .expect("the folder is part of the repository")
        .map(|entry| entry.expect("a readable entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .map(|path| {
            let name = path.file_name().expect("a file has a name").to_string_lossy().into_owned();
            (name, fs::read_to_string(&path).expect("rule files are UTF-8"))
        })
        .collect();
    files.sort();
    files
}
