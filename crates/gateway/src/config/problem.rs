//! What is wrong with a configuration, where, and what to do about it.

use std::fmt;

/// One mistake: the line it stands on, what is wrong, and the fix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The line, counted from 1; 0 where no line is to blame.
    pub line: usize,
    /// What is wrong.
    pub what: String,
    /// What to do.
    pub fix: String,
}

/// Everything that is wrong with one configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The file, as it was named; `environment` without one.
    pub file: String,
    /// The mistakes, in order of their lines.
    pub problems: Vec<Problem>,
}

impl ConfigError {
    /// A configuration with one mistake that no line is to blame for.
    pub fn of_file(file: &str, what: impl Into<String>, fix: impl Into<String>) -> Self {
        let problem = Problem { line: 0, what: what.into(), fix: fix.into() };
        Self { file: file.to_owned(), problems: vec![problem] }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            match problem.line {
                0 => write!(f, "{}: {}", self.file, problem.what)?,
                line => write!(f, "{}:{line}: {}", self.file, problem.what)?,
            }
            if !problem.fix.is_empty() {
                write!(f, "\n  fix: {}", problem.fix)?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for ConfigError {}
