//! The embedded packs, proven.

use backstop_triage::{Catalog, rules::Pack};

use super::now;

#[test]
fn a_users_pack_comes_first_and_mistakes_tell_line_and_fix() {
    let pack = |toml: &str| Catalog::with_user_packs(&[("openai.toml".to_owned(), toml.to_owned())]);
    let own = "provider = \"openai\"\n\n[[rule]]\nid = \"openai/ours\"\nall = [\"flux capacitor\"]\n\
               class = \"overloaded\"\nreason = \"overloaded\"\n";
    let catalog = pack(own).expect("a valid pack");
    let evidence = backstop_triage::Evidence {
        kind: backstop_triage::Kind::Http { status: 400 },
        text: "{\"error\":{\"message\":\"Flux capacitor; insufficient balance\"}}".to_owned(),
        ..backstop_triage::Evidence::default()
    };
    let verdict = catalog.classify(&"openai".into(), &evidence, now());
    assert_eq!(verdict.basis.to_string(), "openai/ours");

    let wrong = pack(
        "provider = \"openai\"\n\n[[rule]]\nid = \"openai/x\"\nstatus = [\"4xx\"]\nclas = \"unknown\"\n",
    );
    let message = wrong.expect_err("a misspelt field").to_string();
    assert!(message.starts_with("openai.toml:6: unknown field `clas`"), "{message}");
}

#[test]
fn a_rule_without_conditions_is_refused() {
    let toml = "provider = \"x\"\n[[rule]]\nid = \"x/all\"\nclass = \"unknown\"\nreason = \"any\"\n";
    let error = Pack::parse("x.toml", toml).expect_err("it would match everything");
    assert_eq!(
        error.to_string(),
        "x.toml:3: the rule has no condition and would match everything; add a code, a phrase, a status, a header, \
         a field, a fault or a body shape"
    );
}
