//! Configurations as people write them, right and wrong.

use expect_test::{Expect, expect};

use super::*;

fn environment() -> Environment {
    let variables = [
        ("HOME", "/home/me"),
        ("ZAI_KEY", "sk-zai-one,sk-zai-two"),
        ("ZAI_KEY_1", "sk-zai-three"),
        ("INHOUSE_KEY", "sk-inhouse"),
        ("BACKSTOP_CLIENT_KEY", "client-key-0123456789"),
        ("BACKSTOP_HOOK_SECRET", "hook-secret"),
    ];
    variables.into_iter().collect()
}

fn load(text: &str) -> Result<Config, ConfigError> {
    Config::parse(text, Path::new("backstop.toml"), &environment(), &Catalog::embedded())
}

fn wrong(text: &str, expected: &Expect) {
    let error = load(text).expect_err("it is wrong");
    expected.assert_eq(&format!("{error}\n"));
}

#[test]
fn the_example_loads_and_means_what_it_says() {
    let config = load(Config::EXAMPLE).unwrap_or_else(|error| panic!("{error}"));
    let labels: Vec<&str> = config.providers[0].keys.iter().map(|key| key.label.as_str()).collect();
    assert_eq!(labels, ["main #1", "main #2", "main #3", "spare"]);
    assert_eq!(config.server.data_dir, Path::new("/home/me/.local/share/backstop"));
    assert_eq!(config.providers[1].settings.timeout_ms, 300_000);
    assert!(config.providers[1].timeout_is_own && !config.providers[0].timeout_is_own);
    assert_eq!(config.clients[0].limits.spend_micros, Some(50_000_000));
    assert_eq!(config.warnings, []);
}

#[test]
fn two_clients_with_one_key_are_refused() {
    let clients = "[[client]]\nname = \"a\"\nvalue = \"one-key-0123456789\"\n[[client]]\nname = \"b\"\nvalue = \"one-key-0123456789\"\n";
    wrong(
        clients,
        &expect![[r#"
            backstop.toml:4: the clients "a" and "b" have the same key
              fix: make a key for each: whoever sends it is known by it alone
        "#]],
    );
}

#[test]
fn the_settings_of_the_example_are_the_defaults() {
    let config = load(Config::EXAMPLE).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(*config.settings, Settings::default());
}

#[test]
fn every_setting_that_is_read_stands_in_the_example() {
    let (environment, catalog) = (environment(), Catalog::embedded());
    let source = Source::new(Config::EXAMPLE, Path::new(""), &environment);
    let document = DeTable::parse(Config::EXAMPLE).unwrap();
    read(&Section::root(&source, &document), Path::new("backstop.toml"), &catalog);
    let missing: Vec<String> = source
        .asked()
        .into_iter()
        .filter(|path| {
            let field = path.rsplit('.').next().unwrap_or_default();
            let spellings = [format!("{field} "), format!("{field}]")];
            !spellings.iter().any(|spelling| Config::EXAMPLE.contains(spelling.as_str()))
        })
        // Refused with a reason, so that nobody finds it in the example and tries it.
        .filter(|path| path != "server.database")
        .collect();
    assert_eq!(missing, Vec::<String>::new());
}

#[test]
fn nothing_configured_takes_the_usual_environment_keys() {
    let environment: Environment =
        [("OPENAI_API_KEY", "sk-a"), ("ANTHROPIC_API_KEY_1", "sk-b"), ("ANTHROPIC_API_KEY_2", "sk-c")]
            .into_iter()
            .collect();
    let config = Config::load(None, &environment, &Catalog::embedded()).unwrap();
    let found: Vec<String> = config
        .providers
        .iter()
        .map(|provider| format!("{} {} {}", provider.id, provider.format, provider.keys.len()))
        .collect();
    assert_eq!(found, ["openai openai-chat 1", "anthropic anthropic-messages 2"]);
    assert_eq!(config.file, None);
}

#[test]
fn own_settings_lie_over_the_global_ones() {
    let text = "[settings]\npatience_s = 7\nmax_attempts = 9\n[[provider]]\nid = \"a\"\npreset = \"openai\"\nmax_attempts = 3\n";
    let config = load(text).unwrap();
    let settings = &config.providers[0].settings;
    assert_eq!((settings.patience_s, settings.max_attempts), (7, 3));
    assert_eq!(config.settings.max_attempts, 9);
}

#[test]
fn secrets_never_print_themselves() {
    let config = load(Config::EXAMPLE).unwrap();
    let printed = format!("{config:?}");
    for secret in ["sk-zai-one", "sk-inhouse", "client-key-0123456789", "hook-secret", "research"] {
        assert!(!printed.contains(secret), "{secret}");
    }
}

#[test]
fn a_fallback_that_cannot_be_used_is_a_warning() {
    let text = "[[provider]]\nid = \"a\"\npreset = \"openai\"\n[[provider.fallback]]\nprovider = \"b\"\n[[provider]]\nid = \"b\"\npreset = \"anthropic\"\n";
    let warnings = load(text).unwrap().warnings;
    expect![[r#"
        5: the fallback "b" speaks anthropic-messages and "a" speaks openai-chat: it will be skipped
          fix: choose a fallback of the same format
    "#]]
    .assert_eq(
        &warnings
            .iter()
            .map(|warning| format!("{}: {}\n  fix: {}\n", warning.line, warning.what, warning.fix))
            .collect::<String>(),
    );
}

#[test]
fn unknown_names_are_told_with_the_nearest_one() {
    wrong(
        "[sever]\nlisten = \"127.0.0.1:1\"\n[[provider]]\nid = \"a\"\npreset = \"opnai\"\nrotaton = \"on-error\"\n[settings]\nmax_atempts = 3\n",
        &expect![[r#"
            backstop.toml:1: unknown table or setting `sever` at the top of the file
              fix: did you mean `server`?
            backstop.toml:5: there is no preset "opnai"
              fix: did you mean "openai"? Or leave it out and set `format` and `base_url`
            backstop.toml:6: unknown setting `rotaton` in [[provider]]
              fix: did you mean `rotation`?
            backstop.toml:8: unknown setting `max_atempts` in [settings]
              fix: did you mean `max_attempts`?
        "#]],
    );
}

#[test]
fn wrong_values_are_told_with_the_right_form() {
    wrong(
        "[server]\nlisten = \"3030\"\ndrain_s = \"long\"\nbody_limit = \"32 parsecs\"\n[settings]\nquota_backoff_s = 5\nrotation = \"random\"\nmax_attempts = -1\nlast_key_ladder_s = [\"a\"]\n",
        &expect![[r#"
            backstop.toml:2: `listen` cannot be "3030"
              fix: write an address and a port, such as "127.0.0.1:3030"
            backstop.toml:3: `drain_s` is a string
              fix: it must be a whole number of zero or more
            backstop.toml:4: `body_limit` is a string
              fix: it must be a size such as "32MiB"
            backstop.toml:6: `quota_backoff_s` cannot be 5: it must lie between 60 and 86400
              fix: write for example `quota_backoff_s = 1800`, the default
            backstop.toml:7: `rotation` cannot be "random": unknown variant `random`, expected `on-error` or `round-robin`
              fix: write for example `rotation = "on-error"`, the default
            backstop.toml:8: `max_attempts` cannot be -1: invalid value: integer `-1`, expected u32
              fix: write for example `max_attempts = 32`, the default
            backstop.toml:9: `last_key_ladder_s` cannot be ["a"]: invalid type: string "a", expected u64
              fix: write for example `last_key_ladder_s = [1, 2, 4]`, the default
        "#]],
    );
}

#[test]
fn a_provider_says_where_it_is_and_how_it_speaks() {
    wrong(
        "[[provider]]\nid = \"a\"\n[[provider]]\nid = \"b c\"\nformat = \"openai\"\nbase_url = \"api.example.com/v1\"\n[[provider]]\nid = \"d\"\nformat = \"gemini\"\nbase_url = \"http://api.example.com\"\nrules = \"vlmm\"\nkey_header = \"token\"\n",
        &expect![[r#"
            backstop.toml:1: [[provider]] has neither `base_url` nor `preset`
              fix: add `base_url = "https://…"` and `format`, or choose a `preset`
            backstop.toml:1: [[provider]] needs `format`
              fix: one of openai-chat, openai-responses, anthropic-messages, gemini
            backstop.toml:4: `id` cannot be "b c": it stands in paths
              fix: use letters, digits, `-`, `_` and `.`, beginning with a letter or digit
            backstop.toml:5: `format` cannot be "openai"
              fix: did you mean "openai-chat"? Possible are "openai-chat", "openai-responses", "anthropic-messages", "gemini"
            backstop.toml:6: `base_url` cannot be used: a base URL begins with http:// or https://
              fix: write it as the provider's documentation does, for example "https://api.example.com/v1"
            backstop.toml:10: `base_url` would send keys and prompts to api.example.com without encryption
              fix: use https://, or set `allow_private = true` for a host in your own network
            backstop.toml:11: there is no rule pack "vlmm"
              fix: did you mean "vllm"? `backstop rules list` shows them all
            backstop.toml:12: `key_header` cannot be "token": unknown auth header: use bearer, x-api-key, x-goog-api-key, header:NAME or query:NAME
              fix: one of "bearer", "x-api-key", "x-goog-api-key", "header:NAME", "query:NAME"
        "#]],
    );
}

#[test]
fn keys_come_from_exactly_one_place() {
    wrong(
        "[[provider]]\nid = \"a\"\npreset = \"openai\"\n[[provider.key]]\nlabel = \"x\"\n[[provider.key]]\nenv = \"NOT_SET\"\nlabel = \"y\"\n[[provider.key]]\nfile = \"/nowhere/key\"\n[[provider.key]]\nvalue = \"sk one\"\n[[provider.key]]\nvalue = \"${ALSO_NOT_SET}\"\n",
        &expect![[r#"
            backstop.toml:4: [[provider.key]] needs exactly one of `env`, `file` and `value`, and has 0
              fix: name one source of the secret, for example `env = "MY_KEY"`
            backstop.toml:7: the environment variable NOT_SET is not set
              fix: export NOT_SET, or use `file` or `value`
            backstop.toml:10: the key file /nowhere/key cannot be read: No such file or directory (os error 2)
              fix: check the path (it starts at the folder of this file) and its permissions
            backstop.toml:12: the key contains characters that no header can carry
              fix: copy the key again, without blanks and quotes
            backstop.toml:14: the environment variable ALSO_NOT_SET is not set
              fix: export ALSO_NOT_SET, or give a default: ${ALSO_NOT_SET:-…}
        "#]],
    );
}

#[test]
fn what_is_named_must_be_there() {
    wrong(
        "[aliases]\nfast = \"grok/mini\"\nslow = \"nothing\"\n[[provider]]\nid = \"groq\"\npreset = \"groq\"\n[[provider.fallback]]\nprovider = \"grq\"\n[[provider.fallback]]\nprovider = \"groq\"\n[[combo]]\nid = \"groq\"\nmembers = []\n",
        &expect![[r#"
            backstop.toml:2: the alias `fast` names the provider "grok", which is not configured
              fix: did you mean "groq"?
            backstop.toml:3: the alias `slow` names no provider
              fix: write `slow = "provider/model"`
            backstop.toml:8: a fallback names the provider "grq", which is not configured
              fix: did you mean "groq"?
            backstop.toml:10: a provider cannot be its own fallback
              fix: list further models under `models` and set `model_fallback = true`
            backstop.toml:11: [[combo]] has no members
              fix: add `members = [{ provider = "…", model = "…", alias = "…" }]`
            backstop.toml:11: "groq" is already a provider or combo
              fix: give the combo its own `id`
        "#]],
    );
}

#[test]
fn what_is_not_built_is_refused_with_a_way_round() {
    wrong(
        "[server]\ndatabase = \"postgres://x\"\n[[provider]]\nid = \"a\"\nformat = \"anthropic-messages\"\nbase_url = \"https://x.example\"\nauth = \"sigv4\"\n",
        &expect![[r#"
            backstop.toml:2: this build keeps its state in SQLite only
              fix: remove `database`; SQLite in data_dir holds the state
            backstop.toml:7: `auth = "sigv4"` needs request signing or token refresh, which is not built yet
              fix: reach the provider through a relay that takes plain keys, and configure the relay
        "#]],
    );
}

#[test]
fn an_open_door_is_refused() {
    wrong(
        "[server]\nlisten = \"0.0.0.0:3030\"\nclient_auth = false\n[[client]]\nname = \"a\"\nvalue = \"short\"\n",
        &expect![[r#"
            backstop.toml:1: listening on 0.0.0.0:3030 without client keys lets anybody in reach spend your keys
              fix: set `client_auth = true`, or listen on 127.0.0.1
            backstop.toml:4: the key of client "a" is shorter than 16 characters
              fix: make a long random one, for example with `openssl rand -hex 32`
        "#]],
    );
}

#[test]
fn what_is_no_toml_is_told_with_its_line() {
    wrong(
        "[server]\nlisten = \"127.0.0.1:3030\n",
        &expect![[r#"
            backstop.toml:2: this is no TOML: invalid basic string, expected `"`
              fix: see `backstop check --example` for a complete file
        "#]],
    );
}
