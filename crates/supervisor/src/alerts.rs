//! The alerts of seats, which outlive the supervisors that raised them: one file of stamps a group.
//!
//! A group is a seat, or an account, whose seats share the file: whichever of them speaks does so under a lock, so
//! that an account without money is one alert however many seats notice.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use backstop_triage::{
    Timestamp,
    alert::{Book, Episode, Hysteresis, Notice, Topic},
};

use crate::{SupervisorError, files};

/// The stamps of all seats below a data directory.
#[derive(Clone, Debug)]
pub struct SeatAlerts {
    folder: PathBuf,
}

impl SeatAlerts {
    /// The stamps below a data directory; the folder need not exist.
    pub fn below(data_dir: &Path) -> Self {
        Self { folder: data_dir.join("alerts") }
    }

    /// What is on.
    pub fn on(&self) -> BTreeMap<Topic, Episode> {
        let stamps = self.files().into_iter().flat_map(|file| files::read::<Stamps>(&file));
        stamps.filter_map(|(topic, episode)| Some((Topic::parse(&topic)?, episode))).collect()
    }

    /// A person has seen an alert: no more reminders until it is over. `false` if it is not on.
    ///
    /// # Errors
    /// When the stamp cannot be written.
    pub fn acknowledge(&self, topic: &Topic) -> Result<bool, SupervisorError> {
        for file in self.files() {
            let found = work(&file, Hysteresis::default(), |book| book.acknowledge(topic))?;
            if found {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Lets `change` work on the book of a group, and says what is due.
    ///
    /// # Errors
    /// When the stamps cannot be written; nothing may be announced then.
    pub fn speak(
        &self,
        group: &str,
        hysteresis: Hysteresis,
        change: impl FnOnce(&mut Book, Timestamp),
    ) -> Result<Vec<Notice>, SupervisorError> {
        let now = Timestamp::now();
        let stem = group.replace(|c: char| !c.is_ascii_alphanumeric() && c != '-', "_");
        work(&self.folder.join(format!("{stem}.json")), hysteresis, |book| {
            change(book, now);
            book.poll(now)
        })
    }

    fn files(&self) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(&self.folder) else { return Vec::new() };
        let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
        let mut files: Vec<PathBuf> =
            paths.filter(|path| path.extension().is_some_and(|kind| kind == "json")).collect();
        files.sort();
        files
    }
}

/// Stamps by the text form of their topics.
type Stamps = BTreeMap<String, Episode>;

fn work<T>(
    file: &Path,
    hysteresis: Hysteresis,
    work: impl FnOnce(&mut Book) -> T,
) -> Result<T, SupervisorError> {
    files::update(file, |stamps: &mut Stamps| {
        let mut book = Book::new(hysteresis);
        for (topic, episode) in &*stamps {
            if let Some(topic) = Topic::parse(topic) {
                book.restore(topic, episode.clone());
            }
        }
        let result = work(&mut book);
        while let Some((topic, episode)) = book.poll_change() {
            match episode {
                Some(episode) => stamps.insert(topic.to_string(), episode),
                None => stamps.remove(&topic.to_string()),
            };
        }
        result
    })
}

#[cfg(test)]
mod tests {
    use backstop_triage::alert::Condition;

    use super::*;

    #[test]
    fn an_alert_is_there_for_whoever_looks_until_somebody_has_seen_it() {
        let folder = tempfile::tempdir().unwrap();
        let alerts = SeatAlerts::below(folder.path());
        assert!(alerts.on().is_empty());
        let topic = Topic::new(Condition::AccountOutOfMoney, "account/main");
        let at_once = Hysteresis { gather: std::time::Duration::ZERO, ..Hysteresis::default() };
        let raise = |book: &mut Book, now| book.raise(&topic, "writer", "no money", now);
        assert_eq!(alerts.speak("account/main", at_once, raise).unwrap().len(), 1);
        assert_eq!(alerts.speak("account/main", at_once, raise).unwrap(), [], "said once");
        assert!(!alerts.on()[&topic].acknowledged);
        assert!(alerts.acknowledge(&topic).unwrap());
        assert!(alerts.on()[&topic].acknowledged);
        assert!(!alerts.acknowledge(&Topic::new(Condition::CrashLoop, "seat/x")).unwrap());
    }
}
