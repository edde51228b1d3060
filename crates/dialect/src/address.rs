//! Joins a provider's base URL with the path that a client asked for.
//!
//! A base URL is written as the provider's own documentation has it, with its version segment or without. The
//! client's path usually has one too, and it must not stand there twice:
//!
//! ```text
//! https://api.one.example/v1   + /v1/chat/completions -> https://api.one.example/v1/chat/completions
//! https://api.two.example      + /v1/messages         -> https://api.two.example/v1/messages
//! https://three.example/pay/v4 + /v1/chat/completions -> https://three.example/pay/v4/chat/completions
//! ```

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

use crate::route::is_version;

/// A base URL, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// `http` or `https`.
    pub scheme: String,
    /// Host, and port if it is said.
    pub authority: String,
    /// The path without a slash at its end; empty for the root.
    pub path: String,
    /// The path carries its own version, so the client's is dropped. Set by [`Address::parse`] if the path
    /// ends in a version segment; a provider whose base has none and wants none sets it by hand.
    pub versioned: bool,
}

impl Address {
    /// Takes a base URL apart.
    pub fn parse(base_url: &str) -> Result<Self, AddressError> {
        let (scheme, rest) = base_url.trim().split_once("://").ok_or(AddressError::Scheme)?;
        let scheme = scheme.to_ascii_lowercase();
        if !matches!(scheme.as_str(), "http" | "https") {
            return Err(AddressError::Scheme);
        }
        if rest.contains(['?', '#']) {
            return Err(AddressError::Query);
        }
        let (authority, path) = match rest.find('/') {
            Some(slash) => rest.split_at(slash),
            None => (rest, ""),
        };
        if authority.contains('@') {
            return Err(AddressError::Credentials);
        }
        if authority.is_empty() || !authority.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(AddressError::Host);
        }
        let path = path.trim_end_matches('/');
        check(path)?;
        let versioned = path.rsplit('/').next().is_some_and(is_version);
        Ok(Self { scheme, authority: authority.to_owned(), path: path.to_owned(), versioned })
    }

    /// Joins the base with a client's path and query, as path and query for the upstream.
    ///
    /// The client's leading version segment is dropped if the base has its own. A path that could leave the
    /// base (`..` in any spelling, backslashes, control characters) is refused.
    pub fn join(&self, path: &str, query: Option<&str>) -> Result<String, AddressError> {
        check(path)?;
        let rest = path.strip_prefix('/').unwrap_or(path);
        let mut joined = String::with_capacity(self.path.len() + path.len() + 16);
        match rest.split_once('/') {
            Some(("upload", upload)) if self.versioned => {
                // Media uploads stand beside the version, not below it: `/upload/v1beta/files`.
                joined.push_str(self.path.rsplit_once('/').map_or("", |(before, _)| before));
                joined.push_str("/upload/");
                joined.push_str(upload);
            }
            Some((first, rest)) if self.versioned && is_version(first) => {
                joined.push_str(&self.path);
                joined.push('/');
                joined.push_str(rest);
            }
            None if self.versioned && is_version(rest) => joined.push_str(&self.path),
            Some(_) | None => {
                joined.push_str(&self.path);
                joined.push('/');
                joined.push_str(rest);
            }
        }
        if let Some(query) = query.filter(|query| !query.is_empty()) {
            if query.bytes().any(|byte| !byte.is_ascii_graphic()) {
                return Err(AddressError::Outside);
            }
            joined.push('?');
            joined.push_str(query);
        }
        Ok(joined)
    }
}

/// Why a base URL or a path cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// Neither `http://` nor `https://`.
    #[error("a base URL begins with http:// or https://")]
    Scheme,
    /// No host, or one with characters that no host has.
    #[error("the base URL has no valid host")]
    Host,
    /// A user name or password in the URL.
    #[error("a base URL carries no user name; give the key as a key")]
    Credentials,
    /// A query or fragment in the base URL.
    #[error("a base URL carries no query; use the provider's `query` table")]
    Query,
    /// The path leaves the base, or holds characters that no path has.
    #[error("the path leaves the provider's base URL")]
    Outside,
}

fn check(path: &str) -> Result<(), AddressError> {
    if path.bytes().any(|byte| !byte.is_ascii_graphic() || matches!(byte, b'\\' | b'?' | b'#')) {
        return Err(AddressError::Outside);
    }
    path.split('/').try_for_each(|segment| {
        let plain = decoded(segment);
        // Some servers drop what follows a semicolon before they look at the dots.
        let name = |part: &str| matches!(part.split(';').next(), Some("." | ".."));
        let leaves = plain.split(['/', '\\']).any(name);
        if leaves || plain.contains('\\') || plain.contains('\0') {
            return Err(AddressError::Outside);
        }
        Ok(())
    })
}

/// Decoded until nothing changes, at most three times: an upstream may decode more often than once.
fn decoded(segment: &str) -> Cow<'_, str> {
    let mut plain = Cow::Borrowed(segment);
    for _ in 0..3 {
        if !plain.contains('%') {
            break;
        }
        plain = Cow::Owned(percent_decode_str(&plain).decode_utf8_lossy().into_owned());
    }
    plain
}
