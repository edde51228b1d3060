//! Alerts with hysteresis: what is said once, repeated seldom, and taken back once.
//!
//! A [`Condition`] is a thing that can be on or off for a *group* (a provider, a seat, the store). Inside a
//! group it may hit many *members* (keys, models): one episode covers them all, so that an outage which takes
//! forty keys is one alert with a count. An episode lives like this:
//!
//! ```text
//!            raise                gather over                    quiet for `clear`
//!   (none) --------> gathering ---------------> announced ---------------------------> (none), recovered
//!                        |          "raised"      |    ^
//!                        |                        +----+ "reminder", at most every `repeat`
//!                        +--- a wider condition of the group is on: folded into its announcement
//! ```
//!
//! The [`Book`] holds the episodes. It is fed with [`Book::raise`] and [`Book::settle`] (or whole sets with
//! [`Book::reconcile`]), asked with [`Book::poll`], and its stamps are written through to the store and given
//! back after a restart, which therefore neither announces again nor forgets. Several instances over one
//! store announce once: each [`Notice`] carries a [`Claim`] that only one of them can win.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use serde::{Deserialize, Serialize};

use crate::Timestamp;

mod condition;
mod notice;

pub use condition::{Condition, Severity};
pub use notice::{Claim, Notice, NoticeKind};

/// All episodes that are on, and when they speak.
#[derive(Debug, Default)]
pub struct Book {
    hysteresis: Hysteresis,
    episodes: BTreeMap<Topic, Episode>,
    changed: BTreeSet<Topic>,
}

impl Book {
    /// An empty book.
    pub fn new(hysteresis: Hysteresis) -> Self {
        Self { hysteresis, ..Self::default() }
    }

    /// Takes a stamp back from the store, after a restart or because another instance wrote it.
    pub fn restore(&mut self, topic: Topic, episode: Episode) {
        self.episodes.insert(topic, episode);
    }

    /// A condition is on for a member of its group. Raising it again changes nothing but the detail.
    pub fn raise(&mut self, topic: &Topic, member: &str, detail: &str, now: Timestamp) {
        let episode = self.episodes.entry(topic.clone()).or_insert_with(|| Episode::opened(now));
        let known = episode.members.get(member).is_some_and(|old| old == detail);
        if known && episode.quiet_since.is_none() {
            return;
        }
        episode.quiet_since = None;
        if episode.members.len() < MEMBERS_KEPT || episode.members.contains_key(member) {
            episode.members.insert(member.to_owned(), detail.to_owned());
        }
        episode.peak = episode.peak.max(episode.members.len());
        detail.clone_into(&mut episode.detail);
        self.changed.insert(topic.clone());
    }

    /// A condition is off for a member of its group.
    pub fn settle(&mut self, topic: &Topic, member: &str, now: Timestamp) {
        let Some(episode) = self.episodes.get_mut(topic) else { return };
        if episode.members.remove(member).is_none() {
            return;
        }
        if episode.members.is_empty() {
            episode.quiet_since = Some(now);
        }
        self.changed.insert(topic.clone());
    }

    /// The whole truth about one topic: exactly these members (with their details) are on.
    pub fn reconcile(&mut self, topic: &Topic, members: &BTreeMap<String, String>, now: Timestamp) {
        for (member, detail) in members {
            self.raise(topic, member, detail, now);
        }
        let gone: Vec<String> = match self.episodes.get(topic) {
            Some(episode) => {
                episode.members.keys().filter(|member| !members.contains_key(*member)).cloned().collect()
            }
            None => return,
        };
        for member in gone {
            self.settle(topic, &member, now);
        }
    }

    /// A person has seen it: no more reminders until it is over. `false` if there is no such episode.
    pub fn acknowledge(&mut self, topic: &Topic) -> bool {
        let Some(episode) = self.episodes.get_mut(topic) else { return false };
        episode.acknowledged = true;
        self.changed.insert(topic.clone());
        true
    }

    /// Everything that is due, widest condition first. What is returned counts as announced.
    pub fn poll(&mut self, now: Timestamp) -> Vec<Notice> {
        let mut topics: Vec<Topic> = self.episodes.keys().cloned().collect();
        topics.sort_by_key(|topic| (topic.condition.breadth(), topic.clone()));
        topics.iter().filter_map(|topic| self.poll_topic(topic, now)).collect()
    }

    /// The earliest moment at which [`Book::poll`] may have something to say.
    pub fn next_due(&self) -> Option<Timestamp> {
        self.episodes.iter().flat_map(|(topic, episode)| self.due_moments(topic, episode)).min()
    }

    /// The next stamp that the store must write (`Some`) or delete (`None`).
    pub fn poll_change(&mut self) -> Option<(Topic, Option<Episode>)> {
        let topic = self.changed.pop_first()?;
        let episode = self.episodes.get(&topic).cloned();
        Some((topic, episode))
    }

    /// Another instance won the claim of a notice: its stamp replaces ours. `None` means that it closed the
    /// episode; if it is still on here, it begins anew.
    pub fn adopt(&mut self, topic: &Topic, theirs: Option<Episode>, now: Timestamp) {
        let ours = self.episodes.remove(topic);
        let still_on = ours.map(|episode| episode.members).unwrap_or_default();
        if let Some(theirs) = theirs {
            self.episodes.insert(topic.clone(), theirs);
        }
        for (member, detail) in &still_on {
            self.raise(topic, member, detail, now);
        }
        self.changed.remove(topic);
    }

    /// The episodes that are on, in a stable order.
    pub fn open(&self) -> impl Iterator<Item = (&Topic, &Episode)> {
        self.episodes.iter()
    }

    fn poll_topic(&mut self, topic: &Topic, now: Timestamp) -> Option<Notice> {
        let folded = self.folded(topic);
        let episode = self.episodes.get_mut(topic)?;
        if folded && !episode.covered {
            episode.covered = true;
            self.changed.insert(topic.clone());
        }
        if episode.quiet_since.is_some_and(|since| now >= after(since, self.hysteresis.clear)) {
            return self.close(topic, now);
        }
        if folded {
            return None;
        }
        let (kind, due) = match episode.announced {
            None => (NoticeKind::Raised, after(episode.opened, self.hysteresis.gather)),
            Some(_) if episode.acknowledged => return None,
            Some(announced) => (NoticeKind::Reminder, after(announced, self.hysteresis.repeat)),
        };
        (now >= due).then(|| self.announce(topic, kind, now)).flatten()
    }

    fn announce(&mut self, topic: &Topic, kind: NoticeKind, now: Timestamp) -> Option<Notice> {
        let causes = self.causes(topic);
        let episode = self.episodes.get_mut(topic)?;
        let previous = (episode.revision > 0).then_some(episode.revision);
        episode.revision += 1;
        episode.announced = Some(now);
        let claim = Claim { topic: topic.clone(), previous, next: Some(episode.revision) };
        let notice = Notice::of(kind, episode, claim, now);
        self.changed.insert(topic.clone());
        Some(Notice { causes, ..notice })
    }

    fn close(&mut self, topic: &Topic, now: Timestamp) -> Option<Notice> {
        let episode = self.episodes.get(topic)?;
        if episode.announced.is_none() && !episode.covered {
            // It was on, however shortly: first the word that it is on, at the next poll that it is over.
            return self.announce(topic, NoticeKind::Raised, now);
        }
        let episode = self.episodes.remove(topic)?;
        self.changed.insert(topic.clone());
        episode.announced?;
        let claim = Claim { topic: topic.clone(), previous: Some(episode.revision), next: None };
        Some(Notice::of(NoticeKind::Recovered, &episode, claim, now))
    }

    /// Whether a wider condition of the same group says it already.
    fn folded(&self, topic: &Topic) -> bool {
        topic
            .condition
            .wider()
            .iter()
            .any(|wider| self.episodes.contains_key(&Topic { condition: *wider, group: topic.group.clone() }))
    }

    /// The narrower conditions of the same group that a wide one speaks for, with their counts.
    fn causes(&self, topic: &Topic) -> Vec<(Condition, usize)> {
        let same_group = self.episodes.iter().filter(|(other, _)| other.group == topic.group);
        same_group
            .filter(|(other, _)| other.condition.wider().contains(&topic.condition))
            .map(|(other, episode)| (other.condition, episode.count()))
            .collect()
    }

    fn due_moments(&self, topic: &Topic, episode: &Episode) -> Vec<Timestamp> {
        let mut moments: Vec<Timestamp> =
            episode.quiet_since.map(|since| after(since, self.hysteresis.clear)).into_iter().collect();
        if !self.folded(topic) {
            match episode.announced {
                None => moments.push(after(episode.opened, self.hysteresis.gather)),
                Some(_) if episode.acknowledged => {}
                Some(announced) => moments.push(after(announced, self.hysteresis.repeat)),
            }
        }
        moments
    }
}

/// The three times of the hysteresis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hysteresis {
    /// The shortest time between two announcements of one episode (`alert_repeat_s`).
    pub repeat: Duration,
    /// How long a condition must be quiet before it counts as off (`alert_clear_s`).
    pub clear: Duration,
    /// How long an episode gathers members before it is announced.
    pub gather: Duration,
}

impl Default for Hysteresis {
    fn default() -> Self {
        Self {
            repeat: Duration::from_secs(3600),
            clear: Duration::from_secs(120),
            gather: Duration::from_secs(3),
        }
    }
}

/// What an episode is about: a condition and the group that it hits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Topic {
    /// What is wrong.
    pub condition: Condition,
    /// Where: a provider's id, `seat/NAME`, `store` …
    pub group: String,
}

impl Topic {
    /// A topic from its two parts.
    pub fn new(condition: Condition, group: &str) -> Self {
        Self { condition, group: group.to_owned() }
    }

    /// Reads the text form `condition/group`.
    pub fn parse(text: &str) -> Option<Self> {
        let (condition, group) = text.split_once('/')?;
        Some(Self::new(Condition::parse(condition)?, group))
    }
}

impl std::fmt::Display for Topic {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.condition, self.group)
    }
}

/// One episode of a condition that is on: the stamp that the store keeps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Episode {
    /// When it came on.
    pub opened: Timestamp,
    /// When it was last announced.
    pub announced: Option<Timestamp>,
    /// Since when no member is on.
    pub quiet_since: Option<Timestamp>,
    /// The members that are on, each with what is wrong with it.
    pub members: BTreeMap<String, String>,
    /// The most members that were on together.
    pub peak: usize,
    /// The latest detail.
    pub detail: String,
    /// Announcements so far.
    pub revision: u64,
    /// Whether a person has seen it.
    #[serde(default)]
    pub acknowledged: bool,
    /// Whether a wider condition has spoken for it.
    #[serde(default)]
    pub covered: bool,
}

impl Episode {
    fn opened(now: Timestamp) -> Self {
        Self {
            opened: now,
            announced: None,
            quiet_since: None,
            members: BTreeMap::new(),
            peak: 0,
            detail: String::new(),
            revision: 0,
            acknowledged: false,
            covered: false,
        }
    }

    /// How many members are on, or were, if it is quiet at the moment.
    pub fn count(&self) -> usize {
        if self.members.is_empty() { self.peak } else { self.members.len() }
    }
}

fn after(moment: Timestamp, wait: Duration) -> Timestamp {
    moment.saturating_add(wait).unwrap_or(Timestamp::MAX)
}

/// Members whose details an episode keeps; more are not counted.
const MEMBERS_KEPT: usize = 10_000;

#[cfg(test)]
mod tests;
