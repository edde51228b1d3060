//! Connection tests: of one key, of all keys of a provider, and of what is not saved yet.
//!
//! A test asks for the free list of models where there is one and makes the smallest generation that the provider
//! takes: one token, or sixteen where models think first. It is never counted as traffic.

use std::time::Duration;

use backstop_dialect::{Dialect, has_embedded_error};
use backstop_store::{key_errors::KeyError, keys::KeyTest};
use backstop_triage::{
    Catalog, Evidence, KeyId, Kind, ProviderId, Timestamp, Verdict, preset::Preset, redact::redact,
    wire::written_down,
};
use bytes::Bytes;
use http::Method;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::mpsc;
use utoipa::ToSchema;

use crate::{
    actions::{
        definition::Definition,
        keys::{owned, subject},
        outcome::{Outcome, Seen, judge},
    },
    app::{Actor, App},
    live::{Configured, Credential, Question, Reply, Target, Unanswered},
    problem::{Answer, FieldError, Problem},
};

/// What a connection test found.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct TestReport {
    /// The key; none for one that is not saved.
    pub key: Option<u64>,
    /// Its label, or what may be shown of it.
    pub label: String,
    /// Whether the provider accepts the key; none when that could not be found out.
    pub valid: Option<bool>,
    /// How long the decisive call took.
    pub latency_ms: u64,
    /// The upstream's status, if there was one.
    pub status: Option<u16>,
    /// The class of the failure, if it failed.
    pub class: Option<String>,
    /// The rule that decided, or what else did.
    pub rule: Option<String>,
    /// What to know although the key is valid.
    pub warning: Option<String>,
    /// What went wrong.
    pub error: Option<String>,
    /// Whether the test took the key out of service.
    pub disabled: bool,
    /// The model that was asked; none if there is no model to ask.
    pub model: Option<String>,
    /// What it cost at most, in output tokens.
    pub tokens: u32,
}

/// What to test before it is saved.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Draft {
    /// The provider, where it is not saved yet.
    #[serde(default)]
    pub definition: Option<Definition>,
    /// The key.
    #[serde(default)]
    #[schema(value_type = Option<String>, write_only)]
    pub key: Option<String>,
    /// The model to ask.
    #[serde(default)]
    pub model: Option<String>,
}

/// How a test of many keys goes on.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Progress {
    /// Keys that have been tested.
    pub done: usize,
    /// Keys in all.
    pub total: usize,
    /// The newest result.
    pub report: TestReport,
}

/// Tests a key. One that is proved to be of no use is taken out of service.
pub async fn key(app: &App, actor: &Actor, provider: &str, id: KeyId) -> Answer<TestReport> {
    let configured = app.provider(provider)?;
    let row = owned(app, provider, id).await?;
    let subject_of_test = Subject::configured(app, &configured, None)?;
    let tested = subject_of_test.test(app, Credential::Key(id)).await;
    let disabled = tested.outcome.disable && refuse(app, &configured.id, id, &tested);
    save(app, id, &tested).await;
    app.note(actor, "keys.test", &subject(provider, id), "").await;
    let label = if row.label.is_empty() { row.hint } else { row.label };
    Ok(tested.report(Some(id), label, disabled))
}

/// Tests the keys of a provider one after the other. Ends when nobody takes the results any more.
pub fn all(app: &App, actor: &Actor, provider: &str) -> Answer<mpsc::Receiver<Answer<Progress>>> {
    let configured = app.provider(provider)?;
    let (sender, receiver) = mpsc::channel(1);
    let (app, actor) = (app.clone(), actor.clone());
    tokio::spawn(async move {
        let provider = configured.id.clone();
        let rows = match app.read(move |store| store.keys(&provider)).await {
            Ok(rows) => rows,
            Err(problem) => return drop(sender.send(Err(problem)).await),
        };
        let total = rows.len();
        for (done, row) in (1..).zip(rows) {
            let stopped = sender.closed();
            let test = key(&app, &actor, configured.id.as_str(), row.id);
            let report = tokio::select! {
                () = stopped => return,
                report = test => report,
            };
            let progress = report.map(|report| Progress { done, total, report });
            if sender.send(progress).await.is_err() {
                return;
            }
        }
    });
    Ok(receiver)
}

/// Tests a provider with an unsaved key or its first one, and takes nothing out of service.
pub async fn draft(app: &App, provider: Option<&str>, draft: Draft) -> Answer<TestReport> {
    let secret = draft.key.as_deref().map(backstop_store::Secret::new);
    let subject = match (&draft.definition, provider) {
        (Some(definition), _) => Subject::draft(app, definition, draft.model)?,
        (None, Some(provider)) => Subject::configured(app, &app.provider(provider)?, draft.model)?,
        (None, None) => return Err(Problem::invalid_field("definition", "say which provider to test")),
    };
    let label = secret.as_ref().map_or_else(String::new, backstop_store::Secret::hint);
    let credential = match (secret, &subject.target) {
        (Some(secret), _) => Credential::Unsaved(secret),
        (None, Target::Configured(provider)) => {
            let provider = provider.clone();
            let first = app.read(move |store| Ok(store.keys(&provider)?.first().map(|row| row.id))).await?;
            first.map_or(Credential::Nothing, Credential::Key)
        }
        (None, Target::Draft(_)) => Credential::Nothing,
    };
    Ok(subject.test(app, credential).await.report(None, label, false))
}

/// What is tested.
struct Subject {
    target: Target,
    format: Dialect,
    rules: ProviderId,
    list: Option<(String, bool)>,
    generation: Option<Generation>,
    catalog: std::sync::Arc<Catalog>,
}

struct Generation {
    url: String,
    body: Bytes,
    model: String,
    tokens: u32,
}

impl Subject {
    fn configured(app: &App, provider: &Configured, model: Option<String>) -> Answer<Self> {
        let catalog = app.live.catalog();
        let preset = provider.preset.as_deref().and_then(|id| catalog.preset(id)).cloned();
        let model = model.or_else(|| provider.models.first().map(ToString::to_string));
        let target = Target::Configured(provider.id.clone());
        let rules = provider.rules.clone();
        Ok(Self::new(catalog, target, (provider.format, rules), preset.as_ref(), model))
    }

    fn draft(app: &App, definition: &Definition, model: Option<String>) -> Answer<Self> {
        let table = definition.to_toml()?;
        app.live.check_provider(&table).map_err(|problems| {
            let error = |detail: String| FieldError { field: String::new(), detail };
            Problem::invalid(problems.into_iter().map(error).collect())
        })?;
        let catalog = app.live.catalog();
        let preset = definition.preset.as_deref().and_then(|id| catalog.preset(id)).cloned();
        let name = definition.format.as_deref();
        let name = name.or_else(|| preset.as_ref().map(|preset| preset.format.as_str()));
        let format = Dialect::ALL.into_iter().find(|dialect| Some(dialect.as_str()) == name);
        let format = format.ok_or_else(|| Problem::invalid_field("format", "name the API shape"))?;
        let rules = definition.rules.as_deref().map(ProviderId::from);
        let rules = rules.or_else(|| preset.as_ref().map(|preset| preset.rules.clone()));
        let rules = rules.unwrap_or_else(|| ProviderId::from(GENERIC_RULES));
        Ok(Self::new(catalog, Target::Draft(table), (format, rules), preset.as_ref(), model))
    }

    fn new(
        catalog: std::sync::Arc<Catalog>,
        target: Target,
        (format, rules): (Dialect, ProviderId),
        preset: Option<&Preset>,
        model: Option<String>,
    ) -> Self {
        let list = match preset {
            Some(preset) => {
                let endpoint = preset.free_test().or(preset.models.as_ref());
                endpoint.map(|endpoint| (endpoint.url.clone(), endpoint.needs_key))
            }
            None => Some((models_path(format).to_owned(), true)),
        };
        let model = model.or_else(|| preset.and_then(|preset| preset.generation.model.clone()));
        let model = model.or_else(|| preset.and_then(|preset| preset.default_models.first().cloned()));
        let generation = model.map(|model| generation(format, preset, model));
        Self { target, format, rules, list, generation, catalog }
    }

    async fn test(&self, app: &App, key: Credential) -> Tested {
        let now = app.live.now();
        let list = match &self.list {
            None => Look::default(),
            Some((url, needs_key)) => {
                let asked = app.live.ask(self.question(key.clone(), Method::GET, url, None)).await;
                self.seen(asked, *needs_key, now)
            }
        };
        let generation = match &self.generation {
            None => Look::default(),
            Some(generation) => {
                let body = Some(generation.body.clone());
                let asked = app.live.ask(self.question(key, Method::POST, &generation.url, body)).await;
                self.seen(asked, true, now)
            }
        };
        let outcome = judge(&list.seen, &generation.seen);
        let decisive = if generation.seen == Seen::NotAsked { list } else { generation };
        let (verdict, status, message) = match &decisive.seen {
            Seen::Failed { verdict, status, message } => {
                (Some((**verdict).clone()), *status, message.clone())
            }
            Seen::Good { .. } => (None, Some(200), String::new()),
            Seen::NotAsked => (None, None, String::new()),
        };
        let model = self.generation.as_ref();
        Tested {
            at: app.live.now(),
            outcome,
            took: decisive.took,
            evidence: decisive.evidence,
            verdict,
            status,
            message,
            model: model.map(|generation| generation.model.clone()),
            tokens: model.map_or(0, |generation| generation.tokens),
        }
    }

    fn question(&self, key: Credential, method: Method, url: &str, body: Option<Bytes>) -> Question {
        Question { target: self.target.clone(), key, method, url: url.to_owned(), body, timeout: TIMEOUT }
    }

    /// The body is read before the status is believed: a refusal can hide in a 200, a full window in a 403.
    fn seen(&self, asked: Result<Reply, Unanswered>, proves_key: bool, now: Timestamp) -> Look {
        let (evidence, took) = match asked {
            Ok(reply) => {
                let fine = (200..300).contains(&reply.status)
                    && !has_embedded_error(&reply.body)
                    && !self.catalog.success_looks_failed(&self.rules, reply.status, &reply.body);
                if fine {
                    let seen = Seen::Good { proves_key };
                    return Look { seen, took: reply.took, evidence: String::new() };
                }
                let text = String::from_utf8_lossy(&reply.body).into_owned();
                let kind = Kind::Http { status: reply.status };
                (Evidence { kind, headers: reply.headers, text, ..Evidence::default() }, reply.took)
            }
            Err(unanswered) => {
                let kind = Kind::Transport(unanswered.fault);
                (Evidence { kind, text: unanswered.detail, ..Evidence::default() }, unanswered.took)
            }
        };
        let verdict = self.catalog.classify(&self.rules, &evidence, now);
        let status = match evidence.kind {
            Kind::Http { status } => Some(status),
            Kind::Stream { .. } | Kind::Transport(_) | Kind::Process { .. } => None,
        };
        let message = said(&evidence.text);
        tracing::debug!(format = self.format.as_str(), class = %verdict.class, rule = %verdict.basis, "connection test");
        let evidence = written_down(&self.rules, &evidence, (KEPT_OF_ANSWER, now)).to_string();
        Look { seen: Seen::Failed { verdict: Box::new(verdict), status, message }, took, evidence }
    }
}

/// One of the two calls of a test.
struct Look {
    seen: Seen,
    took: Duration,
    /// What arrived, if it is a failure; empty otherwise.
    evidence: String,
}

impl Default for Look {
    fn default() -> Self {
        Self { seen: Seen::NotAsked, took: Duration::ZERO, evidence: String::new() }
    }
}

/// A test that is over.
struct Tested {
    at: Timestamp,
    outcome: Outcome,
    took: Duration,
    verdict: Option<Verdict>,
    status: Option<u16>,
    message: String,
    evidence: String,
    model: Option<String>,
    tokens: u32,
}

impl Tested {
    fn report(self, key: Option<KeyId>, label: String, disabled: bool) -> TestReport {
        TestReport {
            key: key.map(|id| id.0),
            label,
            valid: self.outcome.valid,
            latency_ms: u64::try_from(self.took.as_millis()).unwrap_or(u64::MAX),
            status: self.status,
            class: self.verdict.as_ref().map(|verdict| verdict.class.to_string()),
            rule: self.verdict.as_ref().map(|verdict| verdict.basis.to_string()),
            warning: self.outcome.warning,
            error: self.outcome.error,
            disabled,
            model: self.model,
            tokens: self.tokens,
        }
    }
}

/// Takes a refused key out of service, through the pool and its error history. False if it was out already.
fn refuse(app: &App, provider: &ProviderId, id: KeyId, tested: &Tested) -> bool {
    let Some(verdict) = &tested.verdict else { return false };
    let refuse = |pool: &mut backstop_triage::pool::Pool, now| {
        pool.refused_by_test(provider, id, (verdict, tested.status), now)
    };
    if !app.pool(refuse).unwrap_or(false) {
        return false;
    }
    app.live.store().record_error(KeyError {
        key: id,
        at: tested.at,
        request: None,
        model: tested.model.clone(),
        status: tested.status,
        class: verdict.class,
        scope: verdict.scope,
        reason: verdict.reason.to_string(),
        basis: verdict.basis.to_string(),
        action: "disable".to_owned(),
        message: tested.message.clone(),
        evidence: tested.evidence.clone(),
    });
    true
}

async fn save(app: &App, id: KeyId, tested: &Tested) {
    let test = KeyTest {
        at: tested.at,
        valid: tested.outcome.valid,
        latency_ms: u64::try_from(tested.took.as_millis()).unwrap_or(u64::MAX),
        status: tested.status,
        class: tested.verdict.as_ref().map(|verdict| verdict.class.to_string()),
        warning: tested.outcome.warning.clone(),
        error: tested.outcome.error.clone(),
    };
    if let Err(error) = app.live.store().save_key_test(id, test).await {
        tracing::warn!(%error, key = %id, "the result of a connection test could not be kept");
    }
}

/// The smallest generation in a provider's own shape.
fn generation(format: Dialect, preset: Option<&Preset>, model: String) -> Generation {
    let usual = preset.map(|preset| preset.generation.clone()).unwrap_or_default();
    let tokens = usual.min_tokens.max(1);
    let ask = "ping";
    let (path, field, mut body) = match format {
        Dialect::AnthropicMessages => (
            "/v1/messages".to_owned(),
            "max_tokens",
            json!({ "model": model, "messages": [{ "role": "user", "content": ask }] }),
        ),
        Dialect::OpenAiResponses => (
            "/v1/responses".to_owned(),
            "max_output_tokens",
            json!({ "model": model, "input": ask, "store": false }),
        ),
        Dialect::Gemini => (
            format!("/v1beta/models/{model}:generateContent"),
            "",
            json!({ "contents": [{ "role": "user", "parts": [{ "text": ask }] }],
                    "generationConfig": { "maxOutputTokens": tokens } }),
        ),
        Dialect::OpenAiChat => (
            "/v1/chat/completions".to_owned(),
            "max_tokens",
            json!({ "model": model, "messages": [{ "role": "user", "content": ask }] }),
        ),
    };
    let field = usual.token_field.as_deref().unwrap_or(field);
    if !field.is_empty() {
        body[field] = json!(tokens);
    }
    let url = usual.path.unwrap_or(path).replace("{model}", &model);
    Generation { url, body: Bytes::from(body.to_string()), model, tokens }
}

/// Where a dialect has its list of models. The version goes where the base URL has one already.
pub(crate) const fn models_path(format: Dialect) -> &'static str {
    match format {
        Dialect::OpenAiChat | Dialect::OpenAiResponses | Dialect::AnthropicMessages => "/v1/models",
        Dialect::Gemini => "/v1beta/models",
    }
}

/// The upstream's words for people: the message of the usual error shapes, else the beginning of the text.
pub(crate) fn said(text: &str) -> String {
    let message = serde_json::from_str::<serde_json::Value>(text).ok().and_then(|body| {
        let places = ["/error/message", "/message", "/error", "/msg", "/detail", "/base_resp/status_msg"];
        places.iter().find_map(|place| body.pointer(place)?.as_str().map(str::to_owned))
    });
    let message = redact(&message.unwrap_or_else(|| text.to_owned()));
    let message = message.split_whitespace().collect::<Vec<_>>().join(" ");
    message[..message.floor_char_boundary(SAID)].to_owned()
}

const TIMEOUT: Duration = Duration::from_secs(30);
const SAID: usize = 300;
/// Bytes kept of an answer that takes a key out of service.
const KEPT_OF_ANSWER: usize = 4096;
const GENERIC_RULES: &str = "generic";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_generation_speaks_each_shape() {
        let of = |format: Dialect| {
            let generation = generation(format, None, "m".into());
            format!("{} {}", generation.url, String::from_utf8_lossy(&generation.body))
        };
        expect_test::expect![[r#"
            /v1/chat/completions {"max_tokens":1,"messages":[{"content":"ping","role":"user"}],"model":"m"}
            /v1/responses {"input":"ping","max_output_tokens":1,"model":"m","store":false}
            /v1/messages {"max_tokens":1,"messages":[{"content":"ping","role":"user"}],"model":"m"}
            /v1beta/models/m:generateContent {"contents":[{"parts":[{"text":"ping"}],"role":"user"}],"generationConfig":{"maxOutputTokens":1}}"#]]
        .assert_eq(
            &Dialect::ALL.map(of).join("\n"),
        );
    }

    #[test]
    fn the_words_of_a_failure_are_found_and_redacted() {
        let body = r#"{"error": {"message": "Incorrect API key provided: sk-abcdefghijklmnopqrstuvwx1234"}}"#;
        assert!(!said(body).contains("abcdefgh"), "{}", said(body));
        assert!(said(body).starts_with("Incorrect API key provided"));
        assert_eq!(said("<html>\n bad   gateway"), "<html> bad gateway");
    }
}
