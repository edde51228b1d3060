//! What people are told: the bell's last hundred notifications, and alerts that wait to be delivered.

use backstop_triage::Timestamp;
use rusqlite::{Row, params};
use serde::Serialize;

use crate::{
    Pending, Store, StoreError,
    rows::{count, millis, moment, moment_or_none, signed},
    sequence::next_id,
};

/// A notification in the bell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NoticeRow {
    /// Its id.
    pub id: u64,
    /// When it came.
    pub at: Timestamp,
    /// The condition: `key_disabled`, `circuit_open` …
    pub kind: String,
    /// `critical`, `warning` or `info`.
    pub severity: String,
    /// What it is about, in the form that leads there.
    pub subject: String,
    /// What it says.
    pub text: String,
    /// When it was read.
    pub read_at: Option<Timestamp>,
}

/// A notification to add.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// When it came.
    pub at: Timestamp,
    /// The condition.
    pub kind: String,
    /// `critical`, `warning` or `info`.
    pub severity: String,
    /// What it is about.
    pub subject: String,
    /// What it says.
    pub text: String,
}

/// A message that waits to be delivered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OutboxRow {
    /// Its id.
    pub id: u64,
    /// The channel by its name.
    pub channel: String,
    /// What to deliver, as JSON.
    pub payload: String,
    /// Deliveries that failed.
    pub tries: u64,
    /// When to try next.
    pub due_at: Timestamp,
    /// When it was queued.
    pub queued_at: Timestamp,
    /// Why the last delivery failed.
    pub error: Option<String>,
}

impl Store {
    /// Adds a notification; the oldest beyond a hundred go.
    pub fn notify(&self, notice: Notice) -> Pending<u64> {
        self.write(move |transaction| {
            let id = next_id(transaction, "notification")?;
            transaction.execute(
                NOTIFY,
                params![
                    signed(id),
                    millis(notice.at),
                    notice.kind,
                    notice.severity,
                    notice.subject,
                    notice.text
                ],
            )?;
            transaction.execute(TRIM, [])?;
            Ok(id)
        })
    }

    /// The notifications, newest first.
    pub fn notices(&self) -> Result<Vec<NoticeRow>, StoreError> {
        self.read(|connection| {
            let mut statement = connection.prepare_cached(NOTICES)?;
            let rows = statement.query_map([], |row| {
                Ok(NoticeRow {
                    id: count(row, "id")?,
                    at: moment(row, "at")?,
                    kind: row.get("kind")?,
                    severity: row.get("severity")?,
                    subject: row.get("subject")?,
                    text: row.get("text")?,
                    read_at: moment_or_none(row, "read_at")?,
                })
            })?;
            Ok(rows.collect::<rusqlite::Result<_>>()?)
        })
    }

    /// Marks a notification as read, or all of them.
    pub fn read_notices(&self, id: Option<u64>) -> Pending<()> {
        self.write(move |transaction| {
            transaction.execute(READ, params![id.map(signed), millis(Timestamp::now())])?;
            Ok(())
        })
    }

    /// Removes a notification, or all of them.
    pub fn remove_notices(&self, id: Option<u64>) -> Pending<()> {
        self.write(move |transaction| {
            transaction.execute(REMOVE, [id.map(signed)])?;
            Ok(())
        })
    }

    /// Queues messages, one per channel; their ids.
    pub fn queue_messages(&self, messages: Vec<(String, String)>, due_at: Timestamp) -> Pending<Vec<u64>> {
        self.write(move |transaction| {
            let mut ids = Vec::with_capacity(messages.len());
            for (channel, payload) in messages {
                let id = next_id(transaction, "outbox")?;
                transaction.execute(QUEUE, params![signed(id), channel, payload, millis(due_at)])?;
                ids.push(id);
            }
            transaction.execute(TRIM_OUTBOX, [])?;
            Ok(ids)
        })
    }

    /// The messages that wait, the next due first; at most 500.
    pub fn outbox(&self) -> Result<Vec<OutboxRow>, StoreError> {
        self.read(|connection| {
            let mut statement = connection.prepare_cached(OUTBOX)?;
            let rows = statement.query_map([], read_message)?;
            Ok(rows.collect::<rusqlite::Result<_>>()?)
        })
    }

    /// Takes a delivered message out.
    pub fn message_delivered(&self, id: u64) -> Pending<()> {
        self.write(move |transaction| {
            transaction.execute("DELETE FROM outbox WHERE id = ?1", [signed(id)])?;
            Ok(())
        })
    }

    /// Keeps a message whose delivery failed for another try.
    pub fn message_failed(&self, id: u64, error: &str, due_at: Timestamp) -> Pending<()> {
        let error = error.to_owned();
        self.write(move |transaction| {
            transaction.execute(FAILED, params![signed(id), error, millis(due_at)])?;
            Ok(())
        })
    }
}

fn read_message(row: &Row<'_>) -> rusqlite::Result<OutboxRow> {
    Ok(OutboxRow {
        id: count(row, "id")?,
        channel: row.get("channel")?,
        payload: row.get("payload")?,
        tries: count(row, "tries")?,
        due_at: moment(row, "due_at")?,
        queued_at: moment(row, "queued_at")?,
        error: row.get("error")?,
    })
}

const NOTIFY: &str =
    "INSERT INTO notification (id, at, kind, severity, subject, text) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
const TRIM: &str = "DELETE FROM notification WHERE id <=
    (SELECT id FROM notification ORDER BY id DESC LIMIT 1 OFFSET 100)";
const NOTICES: &str = "SELECT * FROM notification ORDER BY id DESC";
const READ: &str = "UPDATE notification SET read_at = ?2 WHERE (?1 IS NULL OR id = ?1) AND read_at IS NULL";
const REMOVE: &str = "DELETE FROM notification WHERE ?1 IS NULL OR id = ?1";
const QUEUE: &str =
    "INSERT INTO outbox (id, channel, payload, tries, due_at, queued_at) VALUES (?1, ?2, ?3, 0, ?4, ?4)";
const TRIM_OUTBOX: &str =
    "DELETE FROM outbox WHERE id <= (SELECT id FROM outbox ORDER BY id DESC LIMIT 1 OFFSET 10000)";
const OUTBOX: &str = "SELECT * FROM outbox ORDER BY due_at, id LIMIT 500";
const FAILED: &str = "UPDATE outbox SET tries = tries + 1, error = ?2, due_at = ?3 WHERE id = ?1";
