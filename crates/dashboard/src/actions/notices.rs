//! The bell: notifications, read and unread.

use backstop_store::notices::NoticeRow;

use crate::{
    app::{Actor, App},
    problem::Answer,
};

/// The last hundred notifications, newest first.
pub async fn list(app: &App) -> Answer<Vec<NoticeRow>> {
    app.read(|store| store.notices()).await
}

/// Marks one as read, or all.
pub async fn read(app: &App, id: Option<u64>) -> Answer<()> {
    Ok(app.live.store().read_notices(id).await?)
}

/// Removes one, or all.
pub async fn remove(app: &App, actor: &Actor, id: Option<u64>) -> Answer<()> {
    app.live.store().remove_notices(id).await?;
    app.note(actor, "notifications.remove", "notifications", "").await;
    Ok(())
}
