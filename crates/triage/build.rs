//! Embeds every `rules/*.toml` and `presets/*.toml`, so that a new provider is a new file and no new code.

#![expect(clippy::disallowed_methods, reason = "a build script reads and writes files")]

use std::{env, error::Error, fmt::Write as _, fs, path::Path};

fn main() -> Result<(), Box<dyn Error>> {
    let root = env::var("CARGO_MANIFEST_DIR")?;
    let mut source = String::new();
    for (folder, name, what) in [
        ("rules", "RULE_FILES", "Every embedded rule pack: file name and text, by name."),
        ("presets", "PRESET_FILES", "Every embedded file of presets: file name and text, by name."),
    ] {
        let folder = Path::new(&root).join(folder);
        println!("cargo::rerun-if-changed={}", folder.display());
        let mut files: Vec<_> = fs::read_dir(&folder)?.collect::<Result<Vec<_>, _>>()?;
        files.sort_by_key(fs::DirEntry::file_name);
        writeln!(source, "/// {what}\npub static {name}: &[(&str, &str)] = &[")?;
        for file in files {
            let path = file.path();
            if path.extension().is_none_or(|extension| extension != "toml") {
                continue;
            }
            println!("cargo::rerun-if-changed={}", path.display());
            writeln!(source, "    ({:?}, include_str!({:?})),", file.file_name().to_string_lossy(), path)?;
        }
        writeln!(source, "];")?;
    }
    fs::write(Path::new(&env::var("OUT_DIR")?).join("embedded.rs"), source)?;
    Ok(())
}
