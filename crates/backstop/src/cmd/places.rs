//! Where the gateway of this user lies when nobody says otherwise: its configuration, its data, its address.

use std::{
    fs,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use backstop_gateway::config::Environment;

/// The configuration file: the given one, which must exist, else the one that `BACKSTOP_CONFIG` names, else the usual
/// one if it exists.
pub(crate) fn config_file(given: Option<&Path>) -> Option<PathBuf> {
    let environment = Environment::of_process();
    let named = given.map(Path::to_owned).or_else(|| environment.var("BACKSTOP_CONFIG").map(PathBuf::from));
    named.or_else(|| environment.config_file().filter(|usual| usual.exists()))
}

/// The data folder: the given one, else the one of the configuration, else `~/.local/share/backstop`.
pub(crate) fn data_dir(given: Option<&Path>, config: Option<&Path>) -> Result<PathBuf> {
    if let Some(folder) = given {
        return Ok(folder.to_owned());
    }
    let environment = Environment::of_process();
    if let Some(file) = config_file(config)
        && let Some(text) = server(&file, "data_dir").and_then(|texts| texts.into_iter().next())
    {
        let folder = file.parent().unwrap_or_else(|| Path::new(""));
        return Ok(environment.path(&environment.expand(&text)?, folder));
    }
    let usual = environment.data_dir();
    let has_home = usual.is_absolute();
    has_home.then_some(usual).context("HOME is not set; name the folder with --data-dir")
}

/// The address of the gateway on this machine, by its configuration.
pub(crate) fn url() -> String {
    let environment = Environment::of_process();
    let listen = config_file(None).and_then(|file| server(&file, "listen")).unwrap_or_default();
    let addresses =
        listen.iter().filter_map(|text| environment.expand(text).ok()?.parse::<SocketAddr>().ok());
    let first = addresses.map(reachable).next();
    first.map_or_else(|| USUAL_URL.to_owned(), |address| format!("http://{address}"))
}

/// A folder of the XDG convention.
pub(crate) fn home_folder(variable: &str, below_home: &str) -> Result<PathBuf> {
    Environment::of_process().folder(variable, below_home).context("HOME is not set")
}

/// The address under which a listener on this machine is reached from this machine.
pub(crate) fn reachable(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        let loopback = match address.ip() {
            IpAddr::V4(_) => IpAddr::from(Ipv4Addr::LOCALHOST),
            IpAddr::V6(_) => IpAddr::from(Ipv6Addr::LOCALHOST),
        };
        address.set_ip(loopback);
    }
    address
}

/// The texts of a field of `[server]`. What cannot be read has none: whoever needs the whole file reports that.
fn server(file: &Path, field: &str) -> Option<Vec<String>> {
    let tables: toml::Table = fs::read_to_string(file).ok()?.parse().ok()?;
    let texts = match tables.get("server")?.get(field)? {
        toml::Value::Array(values) => values.clone(),
        value => vec![value.clone()],
    };
    Some(texts.iter().filter_map(|value| Some(value.as_str()?.to_owned())).collect())
}

const USUAL_URL: &str = "http://127.0.0.1:3030";
