//! A program of the user's own: the notice as JSON on its input and as variables in its environment.

use std::process::Stdio;

use rustix::process::{Pid, Signal};
use tokio::io::AsyncWriteExt as _;

use crate::{DeliveryError, Notice, message};

pub(crate) async fn run(command: &[String], notice: &Notice) -> Result<String, DeliveryError> {
    let [program, arguments @ ..] = command else {
        return Err(DeliveryError::Refused("no command".to_owned()));
    };
    let failed = |error: std::io::Error| DeliveryError::Refused(format!("{program}: {error}"));
    let mut child = tokio::process::Command::new(program)
        .args(arguments)
        .env("BACKSTOP_ALERT_ID", &notice.id)
        .env("BACKSTOP_ALERT_KIND", notice.kind.as_str())
        .env("BACKSTOP_ALERT_CONDITION", notice.condition.as_str())
        .env("BACKSTOP_ALERT_GROUP", &notice.group)
        .env("BACKSTOP_ALERT_SEVERITY", notice.severity.as_str())
        .env("BACKSTOP_ALERT_TITLE", notice.title())
        .env("BACKSTOP_ALERT_TEXT", notice.body())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(failed)?;
    let _group = Group(child.id().and_then(|id| Pid::from_raw(id.cast_signed())));
    if let Some(mut input) = child.stdin.take() {
        // A program that does not read its input is fine.
        let _ = input.write_all(message::json(notice).to_string().as_bytes()).await;
    }
    let status = child.wait().await.map_err(failed)?;
    if status.success() {
        return Ok(status.to_string());
    }
    Err(DeliveryError::Busy { status: 0, retry_after_s: None, text: format!("{program} failed: {status}") })
}

/// Kills what the program left behind, also when the delivery is given up.
struct Group(Option<Pid>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            let _ = rustix::process::kill_process_group(group, Signal::KILL);
        }
    }
}
