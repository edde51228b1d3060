//! How full a key's windows are: asked of the provider at once.

use backstop_gateway::QuotaTold;
use backstop_triage::KeyId;

use crate::{
    actions::keys::{self, KeyView, owned, subject},
    app::{Actor, App},
    problem::{Answer, Problem},
};

/// Asks the provider's usage endpoint; the key with what it said.
pub async fn ask(app: &App, actor: &Actor, provider: &str, id: KeyId) -> Answer<KeyView> {
    let configured = app.provider(provider)?;
    owned(app, provider, id).await?;
    match app.live.ask_quota(&configured.id, id).await {
        QuotaTold::Windows(_) => {
            app.note(actor, "keys.quota", &subject(provider, id), "").await;
            keys::show(app, provider, id).await
        }
        QuotaTold::Refused => {
            Err(Problem::conflict("refused", "the usage endpoint refuses the key; test the key"))
        }
        QuotaTold::Unreadable => {
            let detail = "the usage endpoint gave no answer that can be read; try again later";
            Err(Problem::conflict("unreadable", detail))
        }
        QuotaTold::NoEndpoint => {
            let detail =
                format!("{provider} has no usage endpoint that is known; its answers may tell instead");
            Err(Problem::conflict("no_usage", detail))
        }
    }
}
