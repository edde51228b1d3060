//! The environment as a value: variables and the folders that follow from them, so that reading a configuration
//! is a function of its arguments.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

/// The variables of a process.
#[derive(Clone, Default)]
pub struct Environment(BTreeMap<String, String>);

impl Environment {
    /// The variables of this process; those that are no UTF-8 are left out.
    pub fn of_process() -> Self {
        let variables = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        Self(variables.collect())
    }

    /// The value of a variable; an empty one counts as unset.
    pub fn var(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|value| !value.trim().is_empty())
    }

    /// Where the configuration lies if nobody says: `$XDG_CONFIG_HOME/backstop/backstop.toml`.
    pub fn config_file(&self) -> Option<PathBuf> {
        Some(self.folder("XDG_CONFIG_HOME", ".config")?.join("backstop/backstop.toml"))
    }

    /// Where state lies if nobody says: `$XDG_DATA_HOME/backstop`, else `~/.local/share/backstop`.
    pub fn data_dir(&self) -> PathBuf {
        self.folder("XDG_DATA_HOME", ".local/share").unwrap_or_default().join("backstop")
    }

    /// A folder of the XDG convention: what the variable names, if that is absolute, else one below the home.
    pub fn folder(&self, variable: &str, below_home: &str) -> Option<PathBuf> {
        let named = self.var(variable).map(PathBuf::from).filter(|folder| folder.is_absolute());
        named.or_else(|| Some(self.home()?.join(below_home)))
    }

    /// Replaces `${VAR}` and `${VAR:-text}`.
    pub fn expand(&self, text: &str) -> Result<String, ExpandError> {
        let mut expanded = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(start) = rest.find("${") {
            expanded.push_str(&rest[..start]);
            let length = rest[start..].find('}').ok_or(ExpandError::Unclosed)?;
            let inside = &rest[start + 2..start + length];
            let (name, default) =
                inside.split_once(":-").map_or((inside, None), |(name, text)| (name, Some(text)));
            let value = self.var(name).or(default).ok_or_else(|| ExpandError::Unset(name.to_owned()))?;
            expanded.push_str(value);
            rest = &rest[start + length + 1..];
        }
        expanded.push_str(rest);
        Ok(expanded)
    }

    /// A path with a leading `~` replaced; relative ones start at `folder`.
    pub fn path(&self, text: &str, folder: &Path) -> PathBuf {
        let rest = text.strip_prefix("~/").or_else(|| (text == "~").then_some(""));
        match (rest, self.home()) {
            (Some(rest), Some(home)) => home.join(rest),
            (Some(_), None) | (None, _) => folder.join(text),
        }
    }

    /// The keys of one variable: the value of `name` and of `name_1`, `name_2` …, each split at commas; with the
    /// name of the variable and the number within its list as label.
    pub fn keys(&self, name: &str) -> Vec<(String, String)> {
        let numbered =
            (1..).map(|number| format!("{name}_{number}")).take_while(|name| self.var(name).is_some());
        let names = self.var(name).map(|_| name.to_owned()).into_iter().chain(numbered);
        names.flat_map(|name| labelled(&name, self.var(&name).unwrap_or_default())).collect()
    }

    /// The home folder of the user.
    pub fn home(&self) -> Option<PathBuf> {
        self.var("HOME").or_else(|| self.var("USERPROFILE")).map(PathBuf::from)
    }
}

impl<N: Into<String>, V: Into<String>> FromIterator<(N, V)> for Environment {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(variables: I) -> Self {
        Self(variables.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }
}

/// Why a text with variables in it comes to nothing.
#[derive(Debug, thiserror::Error)]
pub enum ExpandError {
    /// `${` stands without its `}`.
    #[error("`${{` without its `}}`")]
    Unclosed,
    /// A variable has no value, and the text no default for it.
    #[error("the environment variable {0} is not set")]
    Unset(String),
}

impl ExpandError {
    /// What to do about it.
    pub fn fix(&self) -> String {
        match self {
            Self::Unclosed => "close it, or write `$` alone".to_owned(),
            Self::Unset(name) => format!("export {name}, or give a default: ${{{name}:-…}}"),
        }
    }
}

fn labelled(name: &str, list: &str) -> Vec<(String, String)> {
    let values: Vec<&str> = list.split(',').map(str::trim).filter(|value| !value.is_empty()).collect();
    match values.as_slice() {
        [single] => vec![(name.to_owned(), (*single).to_owned())],
        several => {
            let number =
                |(index, value): (usize, &&str)| (format!("{name} #{}", index + 1), (*value).to_owned());
            several.iter().enumerate().map(number).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_replaced_or_told() {
        let environment: Environment = [("HOST", "a.test"), ("EMPTY", "")].into_iter().collect();
        let expanded = |text: &str| environment.expand(text).map_err(|error| error.to_string());
        assert_eq!(expanded("https://${HOST}/$x").unwrap(), "https://a.test/$x");
        assert_eq!(expanded("${EMPTY:-usual}/${GONE:-}").unwrap(), "usual/");
        assert_eq!(expanded("${GONE}").unwrap_err(), "the environment variable GONE is not set");
        assert_eq!(expanded("${HOST").unwrap_err(), "`${` without its `}`");
    }

    #[test]
    fn folders_follow_the_convention_and_relative_ones_are_no_folders() {
        let home = [("HOME", "/home/me"), ("XDG_CONFIG_HOME", "relative"), ("XDG_DATA_HOME", "/data")];
        let environment: Environment = home.into_iter().collect();
        assert_eq!(environment.config_file().unwrap(), Path::new("/home/me/.config/backstop/backstop.toml"));
        assert_eq!(environment.data_dir(), Path::new("/data/backstop"));
    }

    #[test]
    fn one_variable_may_hold_several_keys() {
        let environment: Environment =
            [("A", "one, two"), ("A_1", "three"), ("A_2", "four"), ("A_4", "lost"), ("B", " ")]
                .into_iter()
                .collect();
        let keys = environment.keys("A");
        let expected = [("A #1", "one"), ("A #2", "two"), ("A_1", "three"), ("A_2", "four")];
        assert_eq!(keys, expected.map(|(label, key)| (label.to_owned(), key.to_owned())));
        assert!(environment.keys("B").is_empty());
    }
}
