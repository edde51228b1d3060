//! What the machine gives: disk, clock, open files, certificates, proxies.

use std::{
    fs,
    path::Path,
    time::{Duration, SystemTime},
};

use backstop_gateway::config::{BaseUrl, Environment};
use backstop_http::HttpClient;
use rustix::process::{Resource, getrlimit};

use super::Finding;
use crate::cmd::setup::Setup;

/// The free space where the data lies.
pub(super) fn disk(folder: &Path) -> Option<Finding> {
    let there = folder.ancestors().find(|ancestor| ancestor.exists())?;
    let space = rustix::fs::statvfs(there).ok()?;
    let free = space.f_bavail.saturating_mul(space.f_frsize) >> 20;
    let said = format!("{free} MiB free where the data lies");
    Some(match free {
        ..ALMOST_NOTHING => {
            Finding::fail("disk", said, "make room: nothing can be remembered, and keys are tried again")
        }
        ALMOST_NOTHING..LITTLE => {
            Finding::warn("disk", said, "make room, or keep the log for fewer days (log_retention_days)")
        }
        LITTLE.. => Finding::ok("disk", said),
    })
}

/// Whether the clock stands behind what was written already.
pub(super) fn clock(folder: &Path) -> Finding {
    let written = |name: &str| fs::metadata(folder.join(name)).and_then(|metadata| metadata.modified()).ok();
    let newest = ["backstop.db", "backstop.db-wal", "admin.token"].into_iter().filter_map(written).max();
    let ahead = newest.and_then(|newest| newest.duration_since(SystemTime::now()).ok());
    match ahead.filter(|ahead| *ahead > Duration::from_secs(60)) {
        Some(ahead) => {
            let said = format!("the data was written {} s in the future", ahead.as_secs());
            Finding::fail(
                "clock",
                said,
                "set the clock (timedatectl set-ntp true); until then keys rest too long",
            )
        }
        None => Finding::ok(
            "clock",
            "it stands behind nothing that was written; --online compares it with others",
        ),
    }
}

/// How many connections the system lets this user have.
pub(super) fn open_files() -> Option<Finding> {
    let limits = getrlimit(Resource::Nofile);
    let most = limits.maximum.or(limits.current)?;
    let said = format!("{most} files and connections may be open at a time");
    Some(if most < FEW_FILES {
        Finding::warn("open files", said, "raise it: ulimit -n 65536, or LimitNOFILE= in the service")
    } else {
        Finding::ok("open files", said)
    })
}

/// Whether the system's certificates can be used.
pub(super) fn certificates() -> Option<Finding> {
    let http = HttpClient::new(Duration::from_secs(1));
    Some(match http.tls_trouble() {
        Some(trouble) => Finding::fail(
            "certificates",
            format!("the system's certificates cannot be used: {trouble}"),
            "install ca-certificates",
        ),
        None => Finding::ok("certificates", "the system's can be used"),
    })
}

/// Files of further certificates, and proxies that the environment names but nobody uses.
pub(super) fn proxies(setup: &Setup) -> Vec<Finding> {
    let mut findings = Vec::new();
    for provider in &setup.config.providers {
        let Some(file) = &provider.ca_file else { continue };
        let what = format!("ca_file of {}", provider.id);
        let text = fs::read_to_string(file).unwrap_or_default();
        findings.push(if text.contains("-----BEGIN CERTIFICATE-----") {
            Finding::ok(&what, format!("{} holds certificates", file.display()))
        } else {
            let said = format!("{} cannot be read or holds no certificate", file.display());
            Finding::fail(&what, said, "give a PEM file that this user may read")
        });
    }
    let environment = Environment::of_process();
    let named = PROXIES.iter().find(|name| environment.var(name).is_some());
    let direct = setup
        .config
        .providers
        .iter()
        .any(|provider| provider.proxy.is_none() && !BaseUrl::is_loopback(&provider.base_url));
    if let Some(name) = named.filter(|_| direct) {
        let said = format!("{name} is set, but providers are called directly");
        findings.push(Finding::warn("proxy", said, "set `proxy` in each [[provider]] that needs it"));
    }
    findings
}

const ALMOST_NOTHING: u64 = 16;
const LITTLE: u64 = 256;
const FEW_FILES: u64 = 4096;
const PROXIES: [&str; 4] = ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];
