//! What all sections of one file share: its text, the environment, and the mistakes so far.

#[cfg(test)]
use std::collections::BTreeSet;
use std::{
    cell::RefCell,
    ops::Range,
    path::{Path, PathBuf},
};

use super::{Environment, Problem};

/// One file under reading.
pub(super) struct Source<'t> {
    text: &'t str,
    pub(super) folder: PathBuf,
    pub(super) environment: &'t Environment,
    problems: RefCell<Vec<Problem>>,
    warnings: RefCell<Vec<Problem>>,
    #[cfg(test)]
    asked: RefCell<BTreeSet<String>>,
}

impl<'t> Source<'t> {
    pub(super) fn new(text: &'t str, folder: &Path, environment: &'t Environment) -> Self {
        Self {
            text,
            folder: folder.to_owned(),
            environment,
            problems: RefCell::default(),
            warnings: RefCell::default(),
            #[cfg(test)]
            asked: RefCell::default(),
        }
    }

    /// The mistakes and the warnings so far, in order of their lines.
    pub(super) fn into_findings(self) -> (Vec<Problem>, Vec<Problem>) {
        let mut findings = (self.problems.into_inner(), self.warnings.into_inner());
        findings.0.sort_by_key(|problem| problem.line);
        findings.1.sort_by_key(|problem| problem.line);
        findings
    }

    /// Notes that a field was asked for.
    #[cfg(test)]
    pub(super) fn note(&self, path: &str) {
        self.asked.borrow_mut().insert(path.to_owned());
    }

    /// Every field that was asked for, as `table.field`.
    #[cfg(test)]
    pub(super) fn asked(&self) -> BTreeSet<String> {
        self.asked.borrow().clone()
    }

    pub(super) fn report(&self, at: &Range<usize>, what: impl Into<String>, fix: impl Into<String>) {
        let problem = Problem { line: self.line(at.start), what: what.into(), fix: fix.into() };
        self.problems.borrow_mut().push(problem);
    }

    pub(super) fn warn(&self, at: &Range<usize>, what: impl Into<String>, fix: impl Into<String>) {
        let problem = Problem { line: self.line(at.start), what: what.into(), fix: fix.into() };
        self.warnings.borrow_mut().push(problem);
    }

    /// The line of an offset, counted from 1.
    pub(super) fn line(&self, offset: usize) -> usize {
        1 + self.text.as_bytes().iter().take(offset).filter(|byte| **byte == b'\n').count()
    }

    /// Replaces `${VAR}` and `${VAR:-default}`; `None` if that is not possible, which is reported.
    pub(super) fn expand(&self, text: &str, at: &Range<usize>) -> Option<String> {
        self.environment.expand(text).map_err(|error| self.report(at, error.to_string(), error.fix())).ok()
    }
}
