//! What happens, as server-sent events.

use std::convert::Infallible;

use axum::{
    extract::State,
    response::sse::{Event as Sent, KeepAlive, Sse},
};
use http::HeaderMap;
use tokio_stream::{
    Stream, StreamExt as _, iter,
    wrappers::{BroadcastStream, errors::BroadcastStreamRecvError},
};
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    app::App,
    events::{Event, MOST_LISTENERS, watch},
    problem::{Answer, Problem},
};

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(follow))
}

/// What happens, as it happens. `Last-Event-ID` resumes; an event `resync` says that there is a gap.
#[utoipa::path(get, path = "/api/events", tag = "events", params(("last-event-id" = Option<u64>, Header)), responses((status = 200, body = Event, content_type = "text/event-stream")))]
async fn follow(
    State(app): State<App>,
    headers: HeaderMap,
) -> Answer<Sse<impl Stream<Item = Result<Sent, Infallible>>>> {
    if app.events.listeners() >= MOST_LISTENERS {
        return Err(Problem::too_many(20));
    }
    let last = headers.get("last-event-id").and_then(|id| id.to_str().ok()?.parse().ok());
    let (missed, receiver) = app.events.follow(last);
    watch(&app);
    let live = BroadcastStream::new(receiver).map(|received| match received {
        Ok(event) => event,
        Err(BroadcastStreamRecvError::Lagged(_)) => Event::resync(),
    });
    Ok(Sse::new(iter(missed).chain(live).map(sent)).keep_alive(KeepAlive::default()))
}

fn sent(event: Event) -> Result<Sent, Infallible> {
    let sent = Sent::default().id(event.id.to_string()).event(event.kind);
    Ok(sent.json_data(event.data).unwrap_or_default())
}
