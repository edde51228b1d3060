use std::{fmt::Write as _, fs, path::Path};

use expect_test::{Expect, expect};
use rusqlite::Connection;
use tempfile::TempDir;

use super::{database::Database, *};
use backstop_gateway::config::Environment;

/// A document as it would be exported, then what was left out. Keys are shown by what may be shown of them.
fn check(carried: &Carried, expected: &Expect) {
    let mut text = toml::to_string(&carried.document).unwrap();
    for item in &carried.left_out {
        writeln!(text, "# not carried over: {item}").unwrap();
    }
    assert!(!text.contains("secret"), "{text}");
    expected.assert_eq(&text);
}

fn secrets(provider: &Provider) -> Vec<&str> {
    provider.key.iter().filter_map(|key| Some(key.secret.as_ref()?.expose())).collect()
}

#[test]
fn litellm_deployments_become_providers_and_groups_of_models_a_combo() {
    let environment: Environment = [("KEY_A", "sk-secret-a-0123456789")].into_iter().collect();
    let carried = litellm::read(LITELLM, &Catalog::embedded(), &environment).unwrap();
    assert_eq!(secrets(&carried.document.provider[0]), ["sk-secret-a-0123456789", "sk-secret-b-0123456789"]);
    check(
        &carried,
        &expect![[r#"
            backstop = 1

            [[provider]]
            id = "openai"
            models = ["gpt-5"]

            [provider.definition]
            preset = "openai"

            [[provider.key]]
            label = ""
            hint = "sk-s…6789"

            [[provider.key]]
            label = ""
            hint = "sk-s…6789"

            [[provider]]
            id = "openai-2"
            models = ["gpt-5-mini"]

            [provider.definition]
            preset = "openai"

            [[provider]]
            id = "openai-3"
            models = ["glm"]

            [provider.definition]
            allow_private = true
            base_url = "http://10.0.0.5:8000/v1"
            format = "openai-chat"

            [provider.definition.context]
            glm = 65536

            [[provider.key]]
            label = ""
            hint = "…"

            [[provider]]
            id = "anthropic"
            models = ["claude-x"]

            [provider.definition]
            preset = "anthropic"

            [[provider.key]]
            label = ""
            hint = "sk-a…6789"

            [[provider]]
            id = "azure"
            models = ["mine"]

            [provider.definition]
            base_url = "https://me.openai.azure.com/openai/v1"
            preset = "azure"

            [[provider.key]]
            label = ""
            hint = "az-s…6789"

            [[combo]]
            id = "litellm"
            members = ["az=azure/mine", "best=openai/gpt-5", "best=openai-3/glm", "claude=anthropic/claude-x", "gpt=openai/gpt-5", "gpt=openai-3/glm", "house=openai-3/glm", "mini=openai-2/gpt-5-mini"]
            # not carried over: model gpt (openai/gpt-5): rpm
            # not carried over: model mini (gpt-5-mini): the environment here has no GONE; export it and import again
            # not carried over: model bed (bedrock/claude): its requests are signed, which Backstop does not do
            # not carried over: provider openai-3: credentials or a query in its address; add them as a key, a header or a query
            # not carried over: provider anthropic: translation from chat to messages; clients ask its models on /v1/messages
            # not carried over: client key master key: it has less than 16 characters and could be guessed; `backstop clients add "master key"` makes a new one
            # not carried over: router_settings: num_retries
            # not carried over: litellm_settings: callbacks
        "#]],
    );
}

#[test]
fn what_is_no_yaml_is_told_by_its_line_and_never_quoted() {
    let wrong = "model_list:\n  - api_key: sk-secret\n :: [\n";
    let told = litellm::read(wrong, &Catalog::embedded(), &Environment::default()).err().unwrap();
    let told = format!("{told:#}");
    assert!(told.contains("line ") && !told.contains("secret"), "{told}");
}

#[test]
fn channels_of_one_api_become_providers_and_tokens_go_on_working() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("one-api.db");
    let database = Connection::open(&file).unwrap();
    database.execute_batch(ONE_API).unwrap();
    let carried = one_api::read(&file, &Catalog::embedded()).unwrap();
    let hash = carried.document.client[0].hash.clone().unwrap();
    assert_eq!(hash, hash_text(&token_hash("sk-abcdefghijklmnopqrstuvwxyz")));
    check(
        &carried,
        &expect![[r#"
        backstop = 1

        [[provider]]
        id = "house"
        models = ["gpt-5"]

        [provider.definition]
        allow_private = true
        base_url = "http://10.0.0.5:8000"
        format = "openai-chat"

        [[provider.key]]
        label = ""
        hint = "secr…6789"

        [[provider]]
        id = "main-account"
        models = ["gpt-5-2026", "gpt-5-mini"]

        [provider.definition]
        preset = "openai"

        [[provider.key]]
        label = ""
        hint = "sk-s…6789"

        [[provider.key]]
        label = ""
        hint = "sk-s…6789"
        disabled = true

        [[provider]]
        id = "off"
        models = ["claude-x"]
        paused = true

        [provider.definition]
        preset = "anthropic"

        [[provider.key]]
        label = ""
        hint = "sk-a…6789"

        [[combo]]
        id = "channels"
        members = ["gpt-5=house/gpt-5", "gpt-5=main-account/gpt-5-2026", "gpt-5-mini=main-account/gpt-5-mini"]

        [[client]]
        name = "ci"
        prefix = "sk-abcde"

        [[client]]
        name = "guest"
        prefix = "sk-bcdef"
        expires_at = "2027-01-15T08:00:00Z"

        [client.limits]
        models = ["gpt-5"]
        # not carried over: channel 2 (house): setting
        # not carried over: channel 4 (aws): its type 33 has no API that Backstop speaks, or signs its requests
        # not carried over: client key guest: its quota; `backstop clients limits "guest" --usd-per-month …` sets one
        # not carried over: client key old: it is switched off
    "#]],
    );
}

#[test]
fn groups_of_gpt_load_become_providers_unless_their_keys_are_encrypted() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("gpt-load.db");
    let database = Connection::open(&file).unwrap();
    database
        .execute_batch(
            r#"CREATE TABLE groups (id INTEGER, name TEXT, channel_type TEXT, upstreams TEXT, proxy_keys TEXT,
                   test_model TEXT, header_rules TEXT, param_overrides TEXT, config TEXT);
               INSERT INTO groups VALUES
                   (1, 'gem', 'gemini', '[{"url":"https://generativelanguage.googleapis.com","weight":1}]',
                    'proxy-key-0123456789, short', 'g', '[{"key":"x-team","value":"a","action":"set"}]', '{}',
                    '{"max_retries":3}'),
                   (2, 'odd', 'other', '[]', '', '', '[]', '{}', '{}');
               CREATE TABLE api_keys (id INTEGER, key_value TEXT, group_id INTEGER, status TEXT);
               INSERT INTO api_keys VALUES (1, 'AIza-secret-0123456789', 1, 'active'),
                   (2, 'AIza-secret-9876543210', 1, 'invalid');"#,
        )
        .unwrap();
    check(
        &gpt_load::read(&file, &Catalog::embedded()).unwrap(),
        &expect![[r#"
            backstop = 1

            [[provider]]
            id = "gem"

            [provider.definition]
            preset = "gemini"

            [provider.definition.headers]
            x-team = "a"

            [[provider.key]]
            label = ""
            hint = "AIza…6789"

            [[provider.key]]
            label = ""
            hint = "AIza…3210"
            disabled = true

            [[client]]
            name = "gem 1"
            prefix = "proxy-ke"
            # not carried over: group gem: config
            # not carried over: client key gem 2: it has less than 16 characters and could be guessed; `backstop clients add "gem 2"` makes a new one
            # not carried over: group odd: its type other is none that Backstop speaks
        "#]],
    );
    database.execute("UPDATE api_keys SET key_value = lower(hex(randomblob(40)))", []).unwrap();
    let told = gpt_load::read(&file, &Catalog::embedded()).err().unwrap().to_string();
    assert!(told.contains("encrypted"), "{told}");
}

#[test]
fn keys_of_cliproxyapi_come_along_and_its_logins_are_listed() {
    let folder = TempDir::new().unwrap();
    fs::create_dir(folder.path().join("auth")).unwrap();
    let login = |name: &str, text: &str| fs::write(folder.path().join("auth").join(name), text).unwrap();
    login("a.json", r#"{"type":"claude","access_token":"secret"}"#);
    login("b.json", r#"{"type":"gemini","api_key":"AIza-secret-login-012345"}"#);
    let file = folder.path().join("config.yaml");
    fs::write(&file, CLIPROXYAPI).unwrap();
    let carried = cliproxyapi::read(&file, &Catalog::embedded(), &Environment::default()).unwrap();
    check(
        &carried,
        &expect![[r#"
            backstop = 1

            [[provider]]
            id = "gemini"
            models = ["gemini-2.5-flash"]

            [provider.definition]
            preset = "gemini"

            [[provider.key]]
            label = ""
            hint = "AIza…6789"

            [[provider]]
            id = "second"

            [provider.definition]
            preset = "gemini"

            [provider.definition.headers]
            x-a = "1"

            [[provider.key]]
            label = ""
            hint = "AIza…6789"

            [[provider]]
            id = "openrouter"
            models = ["z-ai/glm"]

            [provider.definition]
            preset = "openrouter"

            [[provider.key]]
            label = ""
            hint = "sk-o…6789"

            [[provider]]
            id = "gemini-2"

            [provider.definition]
            preset = "gemini"

            [[provider.key]]
            label = ""
            hint = "AIza…2345"

            [[combo]]
            id = "cliproxyapi"
            members = ["flash=gemini/gemini-2.5-flash", "glm=openrouter/z-ai/glm"]

            [[client]]
            name = "client 1"
            prefix = "client-k"
            # not carried over: second: headers that are copied from the client
            # not carried over: second: its proxy, which is none that speaks HTTP
            # not carried over: logins of claude in the auth folder (1): they have to be refreshed, which Backstop does not do; keep CLIProxyAPI for them and add it as a provider
            # not carried over: config.yaml: port
        "#]],
    );
}

#[test]
fn usual_names_of_an_env_file_become_providers() {
    let text = "# mine\nexport OPENAI_API_KEY_1='sk-secret-one-0123456789'\nOPENAI_API_KEY_2=sk-secret-two-0123456789 # spare\n\
                OPENAI_BASE_URL=http://127.0.0.1:8000/v1\nGROQ_API_KEY=\"gsk-secret-a-0123456789,gsk-secret-b-0123456789\"\nPATH=/bin\n";
    let carried = env::read(text, &Catalog::embedded());
    check(
        &carried,
        &expect![[r#"
            backstop = 1

            [[provider]]
            id = "groq"

            [provider.definition]
            preset = "groq"

            [[provider.key]]
            label = "GROQ_API_KEY #1"
            hint = "gsk-…6789"

            [[provider.key]]
            label = "GROQ_API_KEY #2"
            hint = "gsk-…6789"

            [[provider]]
            id = "openai"

            [provider.definition]
            base_url = "http://127.0.0.1:8000/v1"
            preset = "openai"

            [[provider.key]]
            label = "OPENAI_API_KEY_1"
            hint = "sk-s…6789"

            [[provider.key]]
            label = "OPENAI_API_KEY_2"
            hint = "sk-s…6789"
            # not carried over: names that say no key of a known provider: PATH
        "#]],
    );
}

#[test]
fn an_address_is_known_with_and_without_its_version() {
    for (url, known) in [
        ("https://api.groq.com/openai/v1/", "api.groq.com/openai"),
        ("https://API.groq.com/openai", "api.groq.com/openai"),
        ("https://a.test/api/paas/v4", "a.test/api/paas"),
        ("https://a.test/voice", "a.test/voice"),
    ] {
        assert_eq!(bare(url), known);
    }
    assert!(
        is_private("http://10.0.0.5:8000/v1")
            && !is_private("http://127.0.0.1:1")
            && !is_private("https://a.test")
    );
    assert!(Database::open(Path::new("/nowhere.db")).is_err());
}

/// A configuration of LiteLLM.
const LITELLM: &str = r#"
model_list:
  - model_name: gpt
    litellm_params: { model: openai/gpt-5, api_key: os.environ/KEY_A, rpm: 60 }
  - model_name: gpt
    litellm_params: { model: openai/gpt-5, api_key: sk-secret-b-0123456789 }
  - model_name: mini
    litellm_params: { model: gpt-5-mini, api_key: os.environ/GONE }
  - model_name: house
    litellm_params: { model: openai/glm, api_base: "http://me:secret@10.0.0.5:8000/v1?key=secret", api_key: none }
    model_info: { max_input_tokens: 65536 }
  - model_name: claude
    litellm_params: { model: anthropic/claude-x, api_key: sk-ant-secret-0123456789 }
  - model_name: bed
    litellm_params: { model: bedrock/claude, aws_region_name: eu }
  - model_name: az
    litellm_params: { model: azure/mine, api_base: "https://me.openai.azure.com/", api_key: az-secret-0123456789 }
router_settings: { num_retries: 3, fallbacks: [{ gpt: [house] }], model_group_alias: { best: gpt } }
litellm_settings: { callbacks: [langfuse] }
general_settings: { master_key: sk-1234 }
"#;

/// A database of one-api in small.
const ONE_API: &str = r#"CREATE TABLE channels (id INTEGER, type INTEGER, "key" TEXT, status INTEGER, name TEXT, weight INTEGER,
    base_url TEXT, models TEXT, "group" TEXT, model_mapping TEXT, priority INTEGER, channel_info TEXT,
    setting TEXT, created_time INTEGER);
INSERT INTO channels VALUES
    (1, 1, 'sk-secret-one-0123456789' || char(10) || 'sk-secret-two-0123456789', 1, 'Main account', 0, '',
     'gpt-5,gpt-5-mini', 'default', '{"gpt-5":"gpt-5-2026"}', 0,
     '{"is_multi_key":true,"multi_key_status_list":{"1":3}}', '{}', 1),
    (2, 8, 'secret-house-0123456789', 1, 'house', 0, 'http://10.0.0.5:8000', 'gpt-5', 'default', '', 9,
     '{}', '{"proxy":"x"}', 1),
    (3, 14, 'sk-ant-secret-0123456789', 2, 'off', 0, '', 'claude-x', 'default', '', 0, '{}', '', 1),
    (4, 33, 'ak|secret|region', 1, 'aws', 0, '', 'claude-x', 'default', '', 0, '{}', '', 1);
CREATE TABLE tokens (id INTEGER, "key" TEXT, status INTEGER, name TEXT, expired_time INTEGER,
    unlimited_quota INTEGER, models TEXT);
INSERT INTO tokens VALUES
    (1, 'abcdefghijklmnopqrstuvwxyz', 1, 'ci', -1, 1, ''),
    (2, 'bcdefghijklmnopqrstuvwxyza', 1, 'guest', 1800000000, 0, 'gpt-5'),
    (3, 'cdefghijklmnopqrstuvwxyzab', 2, 'old', -1, 1, '');"#;

/// A configuration of CLIProxyAPI.
const CLIPROXYAPI: &str = r#"
port: 8317
auth-dir: auth
api-keys: [client-key-0123456789]
gemini-api-key:
  - api-key: AIza-secret-one-0123456789
    models: [{ name: gemini-2.5-flash, alias: flash }]
  - api-key: AIza-secret-two-0123456789
    prefix: second
    headers: { x-a: "1", x-copy: $ABC }
    proxy-url: socks5://127.0.0.1:1080
openai-compatibility:
  - name: OpenRouter
    base-url: https://openrouter.ai/api/v1
    api-key-entries: [{ api-key: sk-or-secret-0123456789 }]
    models: [{ name: "z-ai/glm", alias: glm }]
"#;
