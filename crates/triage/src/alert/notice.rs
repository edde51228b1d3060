//! One announcement: what the channels deliver and the bell shows.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use super::{Condition, Episode, Severity, Topic};
use crate::Timestamp;

/// One announcement of an episode.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    /// Unique and stable: the same announcement has the same id wherever it is made.
    pub id: String,
    /// First word, repetition, or all-clear.
    pub kind: NoticeKind,
    /// What is or was wrong.
    pub condition: Condition,
    /// Where.
    pub group: String,
    /// How grave; recoveries are `info`.
    pub severity: Severity,
    /// How many members it hits.
    pub count: usize,
    /// The first of them by name, at most ten.
    pub members: Vec<String>,
    /// What is wrong with the latest of them.
    pub detail: String,
    /// Narrower conditions of the same group that this notice speaks for, with their counts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<(Condition, usize)>,
    /// When the condition came on.
    pub opened: Timestamp,
    /// When this was announced.
    pub at: Timestamp,
    /// What an instance must win in a shared store before it delivers.
    #[serde(skip)]
    pub claim: Option<Claim>,
}

impl Notice {
    pub(super) fn of(kind: NoticeKind, episode: &Episode, claim: Claim, now: Timestamp) -> Self {
        let Topic { condition, group } = claim.topic.clone();
        let severity = match kind {
            NoticeKind::Raised | NoticeKind::Reminder => condition.severity(),
            NoticeKind::Recovered => Severity::Info,
        };
        Self {
            id: format!(
                "{condition}/{group}@{}/{}-{}",
                episode.opened.as_second(),
                kind.as_str(),
                episode.revision
            ),
            kind,
            condition,
            group,
            severity,
            count: episode.count(),
            members: episode.members.keys().take(MEMBERS_NAMED).cloned().collect(),
            detail: episode.detail.clone(),
            causes: Vec::new(),
            opened: episode.opened,
            at: now,
            claim: Some(claim),
        }
    }

    /// A message that shows that a channel works.
    pub fn test(now: Timestamp) -> Self {
        Self {
            id: format!("test@{}", now.as_millisecond()),
            kind: NoticeKind::Raised,
            condition: Condition::CrashLoop,
            group: "test".to_owned(),
            severity: Severity::Info,
            count: 1,
            members: Vec::new(),
            detail: "This is a test message. Nothing is wrong.".to_owned(),
            causes: Vec::new(),
            opened: now,
            at: now,
            claim: None,
        }
    }

    /// Whether it only tests a channel.
    pub fn is_test(&self) -> bool {
        self.id.starts_with("test@")
    }

    /// The topic of the episode.
    pub fn topic(&self) -> Topic {
        Topic::new(self.condition, &self.group)
    }

    /// One line: who, what, how many.
    pub fn title(&self) -> String {
        if self.is_test() {
            return "test message".to_owned();
        }
        let headline = self.condition.headline();
        let count = if self.count > 1 { format!(" ({})", self.count) } else { String::new() };
        match self.kind {
            NoticeKind::Raised => format!("{}: {headline}{count}", self.group),
            NoticeKind::Reminder => {
                format!("{}: still {headline}{count} after {}", self.group, self.lasted())
            }
            NoticeKind::Recovered => {
                format!("{}: recovered from {headline} after {}", self.group, self.lasted())
            }
        }
    }

    /// What stands below the title: details, members, what it speaks for.
    pub fn body(&self) -> String {
        let mut body = self.detail.clone();
        if self.kind == NoticeKind::Recovered || self.is_test() {
            return if self.is_test() { body } else { String::new() };
        }
        if !self.members.is_empty() && self.members.iter().any(|member| *member != self.group) {
            let more = self.count.saturating_sub(self.members.len());
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            let _ = write!(body, "\n{}{more}", self.members.join(", "));
        }
        for (condition, count) in &self.causes {
            let _ = write!(body, "\n{}: {count}", condition.headline());
        }
        body.trim_start().to_owned()
    }

    fn lasted(&self) -> String {
        let seconds = self.at.duration_since(self.opened).as_secs().max(0);
        match seconds {
            0..120 => format!("{seconds} s"),
            120..7_200 => format!("{} min", seconds / 60),
            7_200..172_800 => format!("{} h", seconds / 3_600),
            _ => format!("{} days", seconds / 86_400),
        }
    }
}

/// Which announcement of an episode it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoticeKind {
    /// It came on.
    Raised,
    /// It is still on.
    Reminder,
    /// It is off.
    Recovered,
}

impl NoticeKind {
    /// The public name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Raised => "raised",
            Self::Reminder => "reminder",
            Self::Recovered => "recovered",
        }
    }
}

/// A compare-and-set on the stamp in a shared store: the stamp of `topic` goes from revision `previous`
/// (`None`: no stamp) to `next` (`None`: deleted). The instance whose set succeeds delivers the notice;
/// the others call [`super::Book::adopt`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Whose stamp.
    pub topic: Topic,
    /// The revision that must be there.
    pub previous: Option<u64>,
    /// The revision that is written.
    pub next: Option<u64>,
}

/// Members that a notice names.
const MEMBERS_NAMED: usize = 10;
