//! What makes a client program use the gateway: ready snippets, one a client, kept as data in `connect/clients.toml`.
//!
//! A client speaks one dialect. Where it is told a provider, it asks `/proxy/{provider}` with that provider's own names
//! of models; where it is not, it asks the unified routes with `provider/model`.

use std::sync::LazyLock;

use backstop_dialect::Dialect;
use serde::Deserialize;

/// A client program.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Client {
    /// What it is called here.
    pub id: String,
    /// What people call it.
    pub name: String,
    speaks: String,
    path: String,
    unified: Option<String>,
    /// The file that the snippet belongs into; none where it is typed.
    pub file: Option<String>,
    /// The language of the snippet, as in a fenced block.
    pub language: String,
    snippet: String,
    note: Option<String>,
}

/// What fills the marks of a snippet.
#[derive(Clone, Debug)]
pub struct Place<'a> {
    /// The gateway's address, without a slash at its end.
    pub url: &'a str,
    /// The client key, or what stands for it.
    pub key: &'a str,
    /// The provider to go through; none lets the model name it.
    pub provider: Option<&'a str>,
    /// The model, as the provider names it.
    pub model: Option<&'a str>,
}

/// A snippet that is ready to use.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Ready {
    /// The client's id.
    pub client: String,
    /// What people call it.
    pub name: String,
    /// Where the snippet belongs.
    pub file: Option<String>,
    /// The language of the snippet.
    pub language: String,
    /// The base URL that the client is given.
    pub base_url: String,
    /// The snippet.
    pub snippet: String,
    /// What else to know.
    pub note: Option<String>,
}

/// The clients that are known, in their order.
pub fn clients() -> &'static [Client] {
    static CLIENTS: LazyLock<Vec<Client>> = LazyLock::new(|| {
        toml::from_str::<File>(include_str!("connect/clients.toml")).expect("a test reads this file").client
    });
    &CLIENTS
}

/// A client by its id.
pub fn client(id: &str) -> Option<&'static Client> {
    clients().iter().find(|client| client.id == id)
}

impl Client {
    /// The dialect that it speaks.
    pub fn dialect(&self) -> Option<Dialect> {
        Dialect::ALL.into_iter().find(|dialect| dialect.as_str() == self.speaks)
    }

    /// Whether it has to be told a provider, because it chooses names of models by itself.
    pub fn needs_provider(&self) -> bool {
        self.unified.is_none()
    }

    /// Whether the snippet is for a shell, which puts variables in.
    pub fn is_shell(&self) -> bool {
        self.language == "sh"
    }

    /// The snippet for a gateway. What is not known stays a word in capitals.
    pub fn ready(&self, place: &Place<'_>) -> Ready {
        let provider = place.provider.unwrap_or("PROVIDER");
        let through = place.provider.is_some() || self.needs_provider();
        let path = self.unified.as_deref().filter(|_| !through).unwrap_or(&self.path);
        let base_url = format!("{}{path}", place.url).replace("@PROVIDER@", provider);
        let model = place.model.unwrap_or("MODEL");
        let model = if through { model.to_owned() } else { unified_model(model) };
        let filled = |text: &str| {
            let marks = [
                ("@BASE@", base_url.as_str()),
                ("@URL@", place.url),
                ("@KEY@", place.key),
                ("@MODEL@", &model),
                ("@PROVIDER@", provider),
            ];
            marks.iter().fold(text.to_owned(), |text, (mark, value)| text.replace(mark, value))
        };
        Ready {
            client: self.id.clone(),
            name: self.name.clone(),
            file: self.file.clone(),
            language: self.language.clone(),
            snippet: filled(self.snippet.trim_start()),
            note: self.note.as_deref().map(filled),
            base_url,
        }
    }
}

impl Ready {
    /// A task for an AI agent that is to set the client up.
    pub fn prompt(&self) -> String {
        let place = self.file.as_deref().map_or_else(
            || "Set it up as follows".to_owned(),
            |file| format!("Merge this into {file}, keeping everything that is there already"),
        );
        let note = self.note.as_deref().map(|note| format!("\n{note}\n")).unwrap_or_default();
        format!(
            "Set up {name} on this machine so that it uses the LLM gateway Backstop.\n\n\
             The gateway speaks the client's own API at {base}. It is not a provider: it holds the providers' keys, \
             rests, rotates and replaces them, and answers with the provider's own answers. The key below is a client \
             key of the gateway; keep it out of version control and out of your answers.\n\n\
             {place}:\n\n```{language}\n{snippet}```\n{note}\n\
             Then make one small request with {name} and tell me the answer. If it fails, read the error's message: \
             the gateway says there what is wrong and what to do. `backstop status` and `backstop logs` on the \
             gateway's machine tell more.\n",
            name = self.name,
            base = self.base_url,
            language = self.language,
            snippet = self.snippet,
        )
    }
}

/// The model of a unified route names its provider.
fn unified_model(model: &str) -> String {
    if model.contains('/') { model.to_owned() } else { format!("PROVIDER/{model}") }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    client: Vec<Client>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place() -> Place<'static> {
        Place { url: "http://127.0.0.1:3030", key: "bsk_test", provider: Some("house"), model: Some("small") }
    }

    #[test]
    fn every_snippet_is_filled_in_and_can_be_read_by_its_client() {
        assert!(clients().len() >= 12);
        for client in clients() {
            let ready = client.ready(&place());
            let whole = format!("{}{}", ready.snippet, ready.note.clone().unwrap_or_default());
            for mark in ["@BASE@", "@URL@", "@KEY@", "@MODEL@", "@PROVIDER@"] {
                assert!(!whole.contains(mark), "{}: {whole}", client.id);
            }
            assert!(whole.contains("http://127.0.0.1:3030/proxy/house"), "{}: {whole}", client.id);
            assert!(whole.contains("bsk_test"), "{}: {whole}", client.id);
            assert!(client.dialect().is_some(), "{}", client.id);
            match client.language.as_str() {
                "json" => drop(serde_json::from_str::<serde_json::Value>(&ready.snippet).unwrap()),
                "toml" => drop(ready.snippet.parse::<toml::Table>().unwrap()),
                _ => {}
            }
        }
    }

    #[test]
    fn without_a_provider_the_model_names_it_where_the_client_lets_us_choose() {
        let open = Place { provider: None, model: Some("house/small"), ..place() };
        let codex = client("codex").unwrap().ready(&open);
        assert_eq!(codex.base_url, "http://127.0.0.1:3030/v1");
        assert!(codex.snippet.contains("model = \"house/small\""), "{}", codex.snippet);
        let claude = client("claude-code").unwrap();
        assert!(claude.needs_provider());
        assert_eq!(claude.ready(&open).base_url, "http://127.0.0.1:3030/proxy/PROVIDER");
    }
}
