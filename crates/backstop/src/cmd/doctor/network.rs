//! The port, the running gateway, and the providers' hosts.

use std::{
    net::{TcpListener, TcpStream},
    time::Duration,
};

use anyhow::Result;
use backstop_gateway::config::{Provider, Server};
use backstop_http::{HttpClient, HttpReply, Method};
use backstop_triage::Timestamp;
use serde_json::Value;

use super::Finding;
use crate::cmd::{
    api::{Connect, items, ready, text},
    places,
    setup::Setup,
};

/// Whether the addresses to listen on are free, and who can reach them.
pub(super) fn listening(server: &Server) -> Vec<Finding> {
    let mut findings = Vec::new();
    for address in &server.listen {
        let reached = places::reachable(*address);
        let taken = TcpStream::connect_timeout(&reached, PATIENCE).is_ok();
        findings.push(match (taken, TcpListener::bind(address)) {
            (true, _) if ready(&format!("http://{reached}")).is_ok() => {
                Finding::ok("port", format!("the gateway listens on {address}"))
            }
            (true, _) => Finding::fail(
                "port",
                format!("another program listens on {address}"),
                "stop it, or set another [server] listen",
            ),
            (false, Ok(_)) => Finding::ok("port", format!("{address} is free")),
            (false, Err(error)) => Finding::fail(
                "port",
                format!("{address} cannot be listened on: {error}"),
                "set another [server] listen",
            ),
        });
        if !address.ip().is_loopback() {
            findings.push(Finding::warn(
                "exposure",
                format!("{address} can be reached from other machines"),
                "put TLS in front of it, let the firewall admit only whom you mean, and set an admin password",
            ));
        }
    }
    findings
}

/// What a running gateway says of itself.
pub(super) fn gateway(connect: &Connect) -> Vec<Finding> {
    if let Err(error) = connect.ready() {
        let cure = "start it: `backstop serve`, or `backstop service install`";
        return vec![Finding::warn("gateway", format!("{error:#}"), cure)];
    }
    let mut findings = vec![Finding::ok("gateway", format!("ready at {}", connect.url()))];
    match connect.open().and_then(|api| api.get("/status")) {
        Ok(status) => findings.extend(items(&status["troubles"]).map(trouble)),
        Err(error) => {
            let said = format!("what it knows cannot be asked: {error:#}");
            findings.push(Finding::warn("gateway", said, "name its data folder with --data-dir"));
        }
    }
    findings
}

fn trouble(trouble: &Value) -> Finding {
    let [subject, said] = ["subject", "text"].map(|field| text(trouble, field));
    // The gateway puts the cure behind a semicolon.
    let (said, cure) =
        said.rsplit_once("; ").unwrap_or((&said, "`backstop status` and the dashboard tell more"));
    if trouble["severity"] == "critical" {
        Finding::fail(&subject, said, cure)
    } else {
        Finding::warn(&subject, said, cure)
    }
}

/// Whether the hosts of all providers can be reached, and what their clocks say. Sends no key.
pub(super) fn providers(setup: &Setup, connect: &Connect) -> Result<Vec<Finding>> {
    let mut places: Vec<(String, String)> = setup.config.providers.iter().map(place).collect();
    if let Ok(views) = connect.open().and_then(|api| api.get("/providers")) {
        let added = items(&views).filter(|view| view["origin"] == "added");
        places.extend(added.map(|view| (text(view, "id"), text(view, "base_url"))));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let http = HttpClient::new(REACH);
    let mut findings = Vec::new();
    let mut ahead: Option<i64> = None;
    for (id, url) in places {
        let what = format!("reach {id}");
        match runtime.block_on(http.send(Method::GET, &url, &[], Vec::new().into())) {
            Ok(reply) => {
                ahead = ahead.or_else(|| skew(&reply));
                findings.push(Finding::ok(&what, format!("{url} answers ({})", reply.status)));
            }
            Err(error) => {
                let cure = "check the address, DNS, firewall, proxy and certificates";
                findings.push(Finding::fail(&what, error.to_string(), cure));
            }
        }
    }
    match ahead {
        Some(seconds) if seconds.abs() > SKEW_S => findings.push(Finding::fail(
            "clock",
            format!("it is {seconds} s ahead of a provider's"),
            "set it (timedatectl set-ntp true); until then keys rest too long or too short",
        )),
        Some(_) => findings.push(Finding::ok("clock", "it agrees with a provider's")),
        None => {}
    }
    Ok(findings)
}

fn place(provider: &Provider) -> (String, String) {
    (provider.id.to_string(), provider.base_url.to_string())
}

/// How many seconds this clock is ahead of the one that answered.
fn skew(reply: &HttpReply) -> Option<i64> {
    let date = reply.headers.get("date")?.to_str().ok()?;
    let theirs = jiff::fmt::rfc2822::parse(date).ok()?.timestamp();
    Some(Timestamp::now().as_second() - theirs.as_second())
}

const PATIENCE: Duration = Duration::from_millis(500);
const REACH: Duration = Duration::from_secs(10);
const SKEW_S: i64 = 60;
