//! The first hour of somebody who has never seen this: a fresh home, a key, a request, a failure, its explanation, its
//! cure. Every step's output is what that person reads; what differs from run to run is folded.

use std::{
    fs::{self, File},
    net::TcpListener,
    process::Stdio,
    time::Duration,
};

use backstop_faultd::{Faultd, Reply, Script, key};
use expect_test::{Expect, expect};
use tempfile::TempDir;
use tokio::{
    process::{Child, Command},
    time::{sleep, timeout},
};

use crate::served::outcome;

/// A home that nothing has been done in, with a provider somewhere.
struct Newcomer {
    home: TempDir,
    address: String,
    upstream: Faultd,
    _gateway: Child,
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newcomer_starts_asks_breaks_reads_why_and_mends() {
    let newcomer = Newcomer::start().await;
    newcomer.sees_the_gateway_start().await;
    newcomer.adds_a_provider_and_a_key().await;
    newcomer.asks_with_curl().await;
    newcomer.breaks_it_and_reads_why().await;
    newcomer.mends_it().await;
    newcomer.takes_it_along().await;
    let canary = fs::read_to_string(newcomer.home.path().join("stderr")).unwrap();
    assert!(!canary.contains(KEY), "{canary}");
}

impl Newcomer {
    async fn start() -> Self {
        let upstream = Faultd::start(Script::new().models(["small"])).await.unwrap();
        let home = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        let gateway = Command::new(env!("CARGO_BIN_EXE_backstop"))
            .args(["serve", "--listen", &address])
            .env_clear()
            .env("HOME", home.path())
            .env("BACKSTOP_LOG", "error")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(home.path().join("stderr")).unwrap())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let newcomer = Self { home, address, upstream, _gateway: gateway };
        let ready = async {
            while newcomer.run(&["status", "--check"], "").await.1 != 0 {
                sleep(Duration::from_millis(50)).await;
            }
        };
        timeout(PATIENCE, ready).await.expect("the gateway becomes ready");
        newcomer
    }

    async fn sees_the_gateway_start(&self) {
        let told = until(|| {
            let told = fs::read_to_string(self.home.path().join("stderr")).unwrap();
            std::future::ready(told.contains("admin token").then_some(told))
        });
        expect![[r#"
            backstop listens on http://GATEWAY
              configuration  none; the environment names the providers
              providers      none yet: export OPENAI_API_KEY or the like, or write a configuration
                             (`backstop check --example` prints one to begin with)
              client key     CLIENT-KEY
                             shown this once; send it as `Authorization: Bearer`, `x-api-key` or `x-goog-api-key`
              admin token    in ~/.local/share/backstop/admin.token
        "#]].assert_eq(&self.folded(&told.await));
        self.reads(
            &["status"],
            "",
            &expect![[r#"
            ok: 0 of 0 providers can be asked
        "#]],
        )
        .await;
    }

    async fn adds_a_provider_and_a_key(&self) {
        let url = self.upstream.base_url();
        let add =
            ["providers", "add", "house", "--format", "openai-chat", "--base-url", &url, "--rules", "openai"];
        self.reads(&add, "", &expect![[r#"
            auth                  managed
            base_url              http://PROVIDER
            definition            {"base_url":"http://PROVIDER","format":"openai-chat","id":"house","rules":"openai"}
            favorite              false
            format                openai-chat
            id                    house
            keys                  {}
            models                []
            origin                added
            paused                false
            rules                 openai
            usable_keys           0
            version               1
        "#]]).await;
        self.reads(
            &["models", "set", "house", "small"],
            "",
            &expect![[r#"
            small
        "#]],
        )
        .await;
        self.reads(
            &["keys", "add", "house", "--label", "mine"],
            KEY,
            &expect![[r#"
            key 1 sk-n…cdef: added
        "#]],
        )
        .await;
        self.reads(
            &["keys", "test", "house"],
            "",
            &expect![[r#"
                1/1 mine valid in N ms
            "#]],
        )
        .await;
    }

    async fn asks_with_curl(&self) {
        self.reads(
            &["connect", "curl"],
            "",
            &expect![[r#"
            curl http://GATEWAY/v1/chat/completions \
              -H "authorization: Bearer $BACKSTOP_KEY" \
              -H "content-type: application/json" \
              -d '{"model": "house/small", "messages": [{"role": "user", "content": "Hello"}]}'
            The key: `backstop clients add NAME` makes one, or let --new-key NAME put it in here.
        "#]],
        )
        .await;
        let (key, code) = self.run(&["clients", "add", "me"], "").await;
        assert_eq!(code, 0, "{key}");
        let key = key.lines().find(|line| line.starts_with("bsk_")).unwrap().to_owned();
        fs::write(self.home.path().join("client-key"), key).unwrap();
        expect![[r#"
            {"id":"chatcmpl-faultd","object":"chat.completion","created":1750000000,"model":"small","choices":[{"index":0,"message":{"role":"assistant","content":"piece 0 piece 1 piece 2 piece 3 piece 4 ","refusal":null},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":11,"completion_tokens":7,"total_tokens":18}}
        "#]].assert_eq(&self.curl().await);
    }

    async fn breaks_it_and_reads_why(&self) {
        let dead = r#"{"error":{"message":"Incorrect API key provided.","type":"invalid_request_error","code":"invalid_api_key"}}"#;
        self.upstream.set_script(Script::new().on(key(KEY), Reply::json(401, dead)));
        expect![[r#"
            {"error":{"message":"No key of this route is accepted by its provider. The operator must look at the keys.","type":"server_error","param":null,"code":"no_usable_key"},"backstop":{"attempts":[{"class":"auth_error","key":"mine","model":"small","provider":"house","status":401,"took_ms":N,"waited_ms":0}],"class":"auth_error","request_id":"req_N","retry_at":null}}
        "#]].assert_eq(&self.curl().await);
        self.reads(&["status"], "", &expect![[r#"
            down: 0 of 1 providers can be asked
              critical  provider/house: none of its keys can be used; test them and enable what works
              warning   provider/house/keys/1: key mine is out of service (auth_error, invalid_key); replace it, or test and enable it
        "#]]).await;
        self.reads(
            &["keys", "list", "house"],
            "",
            &expect![[r#"
            ID  LABEL  KEY        STATE     UNTIL  OK/FAILED  WHY
            1   mine   sk-n…cdef  disabled         1/1        auth_error (invalid_key)
        "#]],
        )
        .await;
        // History is written when there is time.
        until(|| async {
            let (errors, _) = self.run(&["keys", "errors", "house", "1"], "").await;
            (errors.lines().count() > 1).then_some(())
        })
        .await;
        self.reads(&["keys", "errors", "house", "1"], "", &expect![[r#"
            AT                        STATUS  CLASS       REASON       ACTION   RULE                MESSAGE
            MOMENT  401     auth_error  invalid_key  disable  openai/key-invalid  {"error":{"message":"Incorrect API key provided.","type":"invalid_request_error","code":"invalid_api_key"}}
        "#]]).await;
        fs::write(self.home.path().join("answer.json"), dead).unwrap();
        let answer = self.home.path().join("answer.json").display().to_string();
        let explain =
            ["classify", "--provider", "openai", "--status", "401", "--body-file", &answer, "--explain"];
        let (explained, _) = self.run(&explain, "").await;
        let decided = explained.split("  tried").next().unwrap();
        expect![[r#"
            auth_error · key · invalid_key
              decided by  openai/key-invalid
              because     platform.openai.com, error codes
              matched     "invalid_api_key" at /error/code
              seen        Http 401, body Json
                layer 0: [invalid_request_error, invalid_api_key] incorrect api key provided.
        "#]]
        .assert_eq(&self.folded(decided));
    }

    async fn mends_it(&self) {
        self.upstream.set_script(Script::new().models(["small"]));
        self.reads(
            &["keys", "enable", "house", "1"],
            "",
            &expect![[r#"
            key 1: done
        "#]],
        )
        .await;
        self.reads(
            &["keys", "test", "house", "1"],
            "",
            &expect![[r#"
                1/1 mine valid in N ms
            "#]],
        )
        .await;
        let answered = self.curl().await;
        assert!(answered.contains("\"choices\""), "{answered}");
        self.reads(
            &["status"],
            "",
            &expect![[r#"
            ok: 1 of 1 providers can be asked
        "#]],
        )
        .await;
        let (looked, code) = self.run(&["doctor", "--online"], "").await;
        let own = |line: &&str| {
            !["database", "disk", "open files", "certificates", "port"].iter().any(|what| line.contains(what))
        };
        let own: Vec<&str> = looked.lines().filter(own).collect();
        expect![[r#"
            ok    configuration: none; the environment names the providers
            ok    data folder: ~/.local/share/backstop is this user's alone
            ok    key file: ~/.local/share/backstop/master.key is this user's alone
            ok    admin token: ~/.local/share/backstop/admin.token is this user's alone
            ok    clock: it stands behind nothing that was written; --online compares it with others
            ok    gateway: ready at http://GATEWAY
            ok    reach house: http://PROVIDER answers (200)

            N looked at, 0 to look into, 0 that must be mended
        "#]]
        .assert_eq(&self.folded(&own.join("\n")));
        assert_eq!(code, 0, "{looked}");
    }

    /// Everything can be taken along, and taking it in again changes nothing.
    async fn takes_it_along(&self) {
        let file = self.home.path().join("setup.toml").display().to_string();
        let export = ["export", "--with-secrets", "--output", &file];
        assert_eq!(self.run(&export, "correct horse battery\n").await.1, 0);
        assert!(!fs::read_to_string(&file).unwrap().contains(KEY));
        self.reads(
            &["import", &file],
            "correct horse battery\n",
            &expect![[r#"
            = provider house: as it is
            = keys of house: mine sk-n…cdef there already
            = client key first: there already
            = client key me: there already

            0 to add, 0 to change, 4 as they are, 0 that cannot be done. There is nothing to do.
        "#]],
        )
        .await;
        self.reads(
            &["import", &file, "--without-secrets"],
            "",
            &expect![[r#"
            = provider house: as it is
            = keys of house: mine sk-n…cdef there already
            = client key first: there already
            = client key me: there already

            0 to add, 0 to change, 4 as they are, 0 that cannot be done. There is nothing to do.
        "#]],
        )
        .await;
        self.reads(&["import", &file], "another phrase, wrong\n", &expect![[r#"
            backstop: nothing was changed: the passphrase is not the one that sealed it, or it was changed since
        "#]]).await;
    }

    /// Does what `backstop connect curl` says, with the key in the environment.
    async fn curl(&self) -> String {
        let (snippet, _) = self.run(&["connect", "curl"], "").await;
        let snippet = snippet.split("\nThe key:").next().unwrap().to_owned();
        let asked = Command::new("sh")
            .args(["-c", &snippet.replace("curl ", "curl --silent --show-error ")])
            .env("BACKSTOP_KEY", fs::read_to_string(self.home.path().join("client-key")).unwrap())
            .output()
            .await
            .unwrap();
        let text = String::from_utf8_lossy(&asked.stdout) + String::from_utf8_lossy(&asked.stderr);
        self.folded(&text)
    }

    async fn reads(&self, arguments: &[&str], stdin: &str, expected: &Expect) {
        let (text, _) = self.run(arguments, stdin).await;
        expected.assert_eq(&self.folded(&text));
    }

    /// Runs a command as this person; what it prints and its exit code.
    async fn run(&self, arguments: &[&str], stdin: &str) -> (String, i32) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_backstop"));
        command.args(arguments).env_clear().env("HOME", self.home.path());
        outcome(command.env("BACKSTOP_URL", format!("http://{}", self.address)), stdin).await
    }

    /// Puts names in the place of what differs from run to run.
    fn folded(&self, text: &str) -> String {
        let upstream = self.upstream.addr().to_string();
        let text = text
            .replace(&self.home.path().display().to_string(), "~")
            .replace(&upstream, "PROVIDER")
            .replace(&self.address, "GATEWAY");
        let lines = text.lines().map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            let next = |index: usize| words.get(index + 1).copied().unwrap_or_default();
            let words = words.iter().enumerate().map(|(index, word)| fold(word, next(index)));
            words.collect::<Vec<_>>().join(" ").trim_end().to_owned() + "\n"
        });
        let text: String = lines.collect();
        without(&without(&text, "\"took_ms\":"), "\"request_id\":\"req_")
    }
}

/// A text without the number, or the digits of an id, behind a mark.
fn without(text: &str, mark: &str) -> String {
    let mut parts = text.split(mark);
    let first = parts.next().unwrap_or_default().to_owned();
    let rest = parts
        .map(|part| format!("{mark}N{}", part.trim_start_matches(|letter: char| letter.is_ascii_hexdigit())));
    first + &rest.collect::<String>()
}

/// Waits until there is something to look at.
async fn until<T, F: Future<Output = Option<T>>>(look: impl Fn() -> F) -> T {
    let seen = async {
        loop {
            if let Some(seen) = look().await {
                return seen;
            }
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, seen).await.expect("it never comes")
}

/// A word without what differs: moments, keys, ids, counts of milliseconds and bytes.
fn fold(word: &str, next: &str) -> String {
    let core = word.trim_matches(|letter: char| !letter.is_ascii_alphanumeric());
    let is_moment =
        core.len() >= 19 && core.as_bytes()[4] == b'-' && core.contains('T') && core.contains(':');
    let name = if is_moment {
        "MOMENT"
    } else if core.starts_with("bsk_") {
        "CLIENT-KEY"
    } else if (core.len() > 1 || next == "ms")
        && core.bytes().all(|byte| byte.is_ascii_digit())
        && !KEPT.contains(&core)
    {
        "N"
    } else {
        return word.to_owned();
    };
    word.replace(core, name)
}

/// How long anything may take on a machine that does much else.
const PATIENCE: Duration = Duration::from_secs(180);
/// Numbers that say the same every time.
const KEPT: [&str; 4] = ["401", "502", "503", "200"];
const KEY: &str = "sk-newcomer-0123456789abcdef";
