//! What the compiler and the lints cannot see: the tree's own invariants.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

#[test]
fn pure_crates_depend_on_nothing_that_can_do_io() {
    let allowed: [(&str, &[&str]); 2] = [
        ("triage", &["aho-corasick", "jiff", "memchr", "regex", "serde", "serde_json", "thiserror", "toml"]),
        (
            "dialect",
            &["bytes", "http", "jiff", "memchr", "percent-encoding", "serde", "serde_json", "thiserror"],
        ),
    ];
    for (name, allowed) in allowed {
        let manifest = read(&root().join("crates").join(name).join("Cargo.toml"));
        let manifest: toml::Table = manifest.parse().unwrap();
        let table = manifest["dependencies"].as_table().unwrap();
        let foreign: Vec<_> =
            table.keys().filter(|dependency| !allowed.contains(&dependency.as_str())).collect();
        assert!(foreign.is_empty(), "crates/{name} gained {foreign:?}; a pure crate may use {allowed:?}");
    }
}

#[test]
fn no_provider_is_named_in_rust_code_outside_tests() {
    let names = provider_names();
    let mut found = Vec::new();
    for file in rust_sources() {
        for (number, literal) in string_literals(&without_tests(&read(&file))) {
            for word in
                literal.split(|c: char| !c.is_ascii_alphanumeric() && c != '-' && c != '_' && c != '.')
            {
                let word = word.to_ascii_lowercase();
                if names.contains(word.as_str()) && !excepted(&file, &word) {
                    found.push(format!("{}:{number}: {word:?} in {literal:?}", short(&file)));
                }
            }
        }
    }
    assert!(
        found.is_empty(),
        "provider knowledge belongs into rules/*.toml or presets:\n{}",
        found.join("\n")
    );
}

#[test]
fn only_the_upstream_module_of_the_gateway_opens_connections() {
    let openers = ["TcpStream::connect", "TcpSocket::new", "client::legacy", "client::conn", "HttpConnector"];
    let mut found = Vec::new();
    for file in rust_sources() {
        let path = short(&file);
        if !path.starts_with("crates/gateway/src") || path.contains("/upstream") {
            continue;
        }
        let source = without_tests(&read(&file));
        found
            .extend(openers.iter().filter(|opener| source.contains(*opener)).map(|o| format!("{path}: {o}")));
    }
    assert!(found.is_empty(), "providers are called from upstream.rs alone:\n{}", found.join("\n"));
}

#[test]
fn nothing_is_silenced_skipped_or_left_for_later() {
    let marks = [
        ["#[all", "ow("].concat(),
        ["#[ign", "ore"].concat(),
        ["should_", "panic"].concat(),
        ["TO", "DO"].concat(),
    ];
    let mut found = Vec::new();
    for file in rust_files(&root().join("crates")) {
        for (number, line) in read(&file).lines().enumerate() {
            if marks.iter().any(|mark| line.contains(mark.as_str())) {
                found.push(format!("{}:{}: {}", short(&file), number + 1, line.trim()));
            }
        }
    }
    assert!(
        found.is_empty(),
        "use #[expect(lint, reason)], run every test, finish the work:\n{}",
        found.join("\n")
    );
}

#[test]
fn every_module_says_what_it_is_for() {
    let silent: Vec<_> = rust_sources()
        .into_iter()
        .filter(|file| !read(file).trim_start().starts_with("//!"))
        .map(|file| short(&file))
        .collect();
    assert!(silent.is_empty(), "begin with a //! doc: {silent:?}");
}

#[test]
fn every_page_that_a_page_links_to_is_there() {
    let pages =
        ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md"].map(|page| root().join(page));
    let docs = fs::read_dir(root().join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let mut missing = Vec::new();
    for page in pages.into_iter().chain(docs).filter(|page| page.extension().is_some_and(|e| e == "md")) {
        let text = read(&page);
        for link in text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next()) {
            let is_local = !link.is_empty() && !link.contains("://") && !link.contains(' ');
            if is_local && !page.parent().is_some_and(|folder| folder.join(link).exists()) {
                missing.push(format!("{}: {link}", short(&page)));
            }
        }
    }
    assert!(missing.is_empty(), "links that lead nowhere: {missing:?}");
}

/// Ids of the rule packs, less those that are plain English or no provider.
fn provider_names() -> BTreeSet<String> {
    const NOT_NAMES: [&str; 12] = [
        "generic",
        "edges",
        "agents",
        "relays",
        "writer",
        "jan",
        "amp",
        "lambda",
        "trae",
        "cursor",
        "replicate",
        "together",
    ];
    let folder = root().join("crates/triage/rules");
    let packs = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let ids = packs.filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()));
    ids.filter(|id| !NOT_NAMES.contains(&id.as_str())).collect()
}

/// The dialects' own names.
fn excepted(file: &Path, word: &str) -> bool {
    let path = short(file);
    let dialects = ["openai", "anthropic", "gemini"];
    let names_dialects = path.starts_with("crates/dialect/") || path == "crates/triage/src/preset.rs";
    names_dialects && dialects.contains(&word)
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn short(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).display().to_string()
}

/// The sources of the product: no tests, no test tools, no benchmarks.
fn rust_sources() -> Vec<PathBuf> {
    let tools = ["crates/faultd/", "crates/bench/", "/tests/", "/benches/", "/examples/"];
    let mut files = rust_files(&root().join("crates"));
    files.retain(|file| {
        let path = short(file);
        !tools.iter().any(|tool| path.contains(tool))
            && !path.ends_with("/tests.rs")
            && !path.ends_with("build.rs")
    });
    files
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.ends_with("target") {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}

/// The source up to its test module: tests stand at the bottom of a file.
fn without_tests(source: &str) -> String {
    source.split("\n#[cfg(test)]").next().unwrap_or_default().to_owned()
}

/// The string literals of a source with their line numbers, comments left out.
fn string_literals(source: &str) -> Vec<(usize, String)> {
    let mut literals = Vec::new();
    for (number, line) in source.lines().enumerate() {
        if line.trim_start().starts_with("//") {
            continue;
        }
        let unescaped = line.replace("\\\"", "'");
        literals
            .extend(unescaped.split('"').skip(1).step_by(2).map(|literal| (number + 1, literal.to_owned())));
    }
    literals
}
