//! `[server]`: where the gateway listens and what it bounds.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use backstop_store::{KeySource, Secret};

use super::{
    environment::Environment,
    section::{Located, Section},
};

/// How the gateway listens, what it bounds, and where its state lies.
#[derive(Clone, Debug)]
pub struct Server {
    /// Addresses to listen on; at least one.
    pub listen: Vec<SocketAddr>,
    /// The folder of all state.
    pub data_dir: PathBuf,
    /// Whether every call of the data plane needs a client key.
    pub client_auth: bool,
    /// Names (with or without a port) that the `Host` header may carry, beside the addresses listened on.
    pub allowed_hosts: Vec<String>,
    /// The longest request body that is buffered, in bytes.
    pub body_limit: u64,
    /// The longest upload that is streamed through, in bytes.
    pub upload_limit: u64,
    /// Bytes of request bodies that may be held at a time, over all requests.
    pub memory_limit: u64,
    /// Client connections that may be open at a time.
    pub max_connections: usize,
    /// Threads that serve; 0 takes one for each core.
    pub workers: usize,
    /// How long open requests may finish after a stop was asked for.
    pub drain: Duration,
    /// Whether `/metrics` needs no admin token.
    pub metrics_open: bool,
    /// Where traces and metrics go, if anywhere.
    pub otlp: Option<Otlp>,
    /// A file with the password of the dashboard.
    pub admin_password_file: Option<PathBuf>,
    /// What opens the provider keys that lie sealed in the data folder.
    pub key_source: KeySource,
}

/// A collector of traces and metrics that speaks OTLP over HTTP.
#[derive(Clone, Debug)]
pub struct Otlp {
    /// Its address, without `/v1/traces`.
    pub endpoint: String,
    /// Headers for it, `name=value,name=value`; they may hold a secret.
    pub headers: Option<Secret>,
}

/// Reads `[server]`; absent fields and an absent table have defaults.
pub(super) fn read(root: &Section<'_, '_>) -> Server {
    let mut server = Server {
        listen: Vec::new(),
        data_dir: root.source.environment.data_dir(),
        client_auth: true,
        allowed_hosts: Vec::new(),
        body_limit: 32 << 20,
        upload_limit: 512 << 20,
        memory_limit: 512 << 20,
        max_connections: 20_000,
        workers: 0,
        drain: Duration::from_secs(30),
        metrics_open: false,
        otlp: None,
        admin_password_file: None,
        key_source: key_source(root.source.environment),
    };
    if let Some(section) = root.section("server") {
        fill(&mut server, &section);
        section.finish();
    }
    server.otlp = otlp(root, server.otlp);
    if server.listen.is_empty() {
        server.listen = vec![DEFAULT_LISTEN];
    }
    server
}

fn fill(server: &mut Server, section: &Section<'_, '_>) {
    let source = section.source;
    let path = |text: Located<String>| source.environment.path(&text.value, &source.folder);
    server.listen = section.texts("listen").into_iter().filter_map(|text| address(section, &text)).collect();
    server.data_dir = section.text("data_dir").map_or_else(|| server.data_dir.clone(), path);
    if let Some(database) = section.text("database") {
        let fix = "remove `database`; SQLite in data_dir holds the state";
        section.report(&database.at, "this build keeps its state in SQLite only", fix);
    }
    server.client_auth = section.flag("client_auth").unwrap_or(server.client_auth);
    server.allowed_hosts =
        section.texts("allowed_hosts").into_iter().map(|host| host.value.to_lowercase()).collect();
    server.body_limit = section.size("body_limit").unwrap_or(server.body_limit);
    server.upload_limit = section.size("upload_limit").unwrap_or(server.upload_limit);
    server.memory_limit = section.size("memory_limit").unwrap_or(server.memory_limit);
    let number =
        |name| section.number(name).map(|number| usize::try_from(number.value).unwrap_or(usize::MAX));
    server.max_connections = number("max_connections").map_or(server.max_connections, |count| count.max(1));
    server.workers = number("workers").unwrap_or(server.workers);
    server.drain =
        section.number("drain_s").map_or(server.drain, |seconds| Duration::from_secs(seconds.value));
    server.metrics_open = section.flag("metrics_open").unwrap_or(server.metrics_open);
    if let Some(url) = section.text("otlp") {
        if is_web(&url.value) {
            server.otlp = Some(Otlp { endpoint: url.value, headers: None });
        } else {
            let fix = "write the address of a collector, such as \"http://127.0.0.1:4318\"";
            section.report(&url.at, format!("`otlp` cannot be \"{}\"", url.value), fix);
        }
    }
    server.admin_password_file = section.text("admin_password_file").map(path);
    let key_file = section.text("key_file").map(path).map(KeySource::File);
    let passphrase_file = section.text("passphrase_file");
    if let (Some(_), Some(second)) = (&key_file, &passphrase_file) {
        let fix = "name one of them; `backstop rekey` goes from one to the other";
        section.report(&second.at, "`key_file` and `passphrase_file` exclude each other", fix);
    }
    let named = key_file.or_else(|| passphrase_file.map(path).map(KeySource::Passphrase));
    server.key_source = named.unwrap_or_else(|| server.key_source.clone());
    if server.memory_limit < server.body_limit {
        section.report(
            section.at(),
            "memory_limit is smaller than body_limit",
            "make memory_limit the larger one",
        );
    }
    let open = server.listen.iter().find(|address| !address.ip().is_loopback());
    if let Some(address) = open.filter(|_| !server.client_auth) {
        let what =
            format!("listening on {address} without client keys lets anybody in reach spend your keys");
        section.report(section.at(), what, "set `client_auth = true`, or listen on 127.0.0.1");
    }
}

/// What opens the sealed keys where the file names nothing, by whoever said so: the variables, then the credentials of
/// the service manager, then the file in the data folder.
fn key_source(environment: &Environment) -> KeySource {
    let named = |variable: &str| environment.var(variable).map(PathBuf::from);
    let credential = |name: &str| {
        let file = Path::new(environment.var("CREDENTIALS_DIRECTORY")?).join(name);
        file.exists().then_some(file)
    };
    let variable = named("BACKSTOP_KEY_FILE")
        .map(KeySource::File)
        .or_else(|| named("BACKSTOP_PASSPHRASE_FILE").map(KeySource::Passphrase));
    variable
        .or_else(|| credential("backstop.key").map(KeySource::File))
        .or_else(|| credential("backstop.passphrase").map(KeySource::Passphrase))
        .unwrap_or(KeySource::Folder)
}

/// The collector of the table, else that of the environment variables that every exporter reads.
fn otlp(root: &Section<'_, '_>, named: Option<Otlp>) -> Option<Otlp> {
    let environment = &root.source.environment;
    let endpoint = match named {
        Some(otlp) => otlp.endpoint,
        None => environment.var("OTEL_EXPORTER_OTLP_ENDPOINT").filter(|url| is_web(url))?.to_owned(),
    };
    let headers = environment.var("OTEL_EXPORTER_OTLP_HEADERS").map(Secret::new);
    Some(Otlp { endpoint, headers })
}

fn is_web(url: &str) -> bool {
    ["http://", "https://"].iter().any(|scheme| url.starts_with(scheme))
}

fn address(section: &Section<'_, '_>, text: &Located<String>) -> Option<SocketAddr> {
    let spelled = text
        .value
        .strip_prefix("localhost")
        .map_or_else(|| text.value.clone(), |port| format!("127.0.0.1{port}"));
    let address = spelled.parse().ok();
    if address.is_none() {
        let what = format!("`listen` cannot be \"{}\"", text.value);
        section.report(&text.at, what, "write an address and a port, such as \"127.0.0.1:3030\"");
    }
    address
}

const DEFAULT_LISTEN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 3030);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_opens_the_vault_is_told_by_variables_before_credentials_before_the_folder() {
        let credentials = tempfile::tempdir().unwrap();
        let given = |name: &str| credentials.path().join(name);
        let (key, passphrase) = (given("backstop.key"), given("backstop.passphrase"));
        let variables = ["BACKSTOP_KEY_FILE", "BACKSTOP_PASSPHRASE_FILE"];
        // Whether each of the four is there, and which of them counts.
        let cases = [
            ([false, false, false, false], KeySource::Folder),
            ([false, false, false, true], KeySource::Passphrase(passphrase.clone())),
            ([false, false, true, false], KeySource::File(key.clone())),
            ([false, false, true, true], KeySource::File(key.clone())),
            ([false, true, false, false], KeySource::Passphrase("/b".into())),
            ([false, true, false, true], KeySource::Passphrase("/b".into())),
            ([false, true, true, true], KeySource::Passphrase("/b".into())),
            ([true, false, false, true], KeySource::File("/a".into())),
            ([true, true, true, true], KeySource::File("/a".into())),
        ];
        for ([key_file, passphrase_file, key_given, passphrase_given], expected) in cases {
            for (file, is_there) in [(&key, key_given), (&passphrase, passphrase_given)] {
                let _ = std::fs::remove_file(file);
                if is_there {
                    std::fs::write(file, "").unwrap();
                }
            }
            let named = [key_file.then_some("/a"), passphrase_file.then_some("/b")];
            let named = variables.into_iter().zip(named).filter_map(|(name, value)| Some((name, value?)));
            let folder = ("CREDENTIALS_DIRECTORY", credentials.path().to_str().unwrap());
            let environment: Environment = named.chain([folder]).collect();
            let told = key_source(&environment);
            assert_eq!(told, expected, "{key_file} {passphrase_file} {key_given} {passphrase_given}");
        }
    }
}
