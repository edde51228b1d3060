//! From the end of a process to a verdict.

use std::io;

use backstop_triage::{Basis, Class, Evidence, Kind, Scope, Verdict};

use crate::child::{Ended, Stopped};

/// The verdict on a process that ended. `classify` reads the words; a process that we stopped ourselves for
/// running too long did not die of a signal, so that its signal is no evidence.
pub fn verdict_of_end(ended: &Ended, classify: &dyn Fn(&Evidence) -> Verdict) -> Verdict {
    let ours = ended.stopped == Some(Stopped::TimeLimit);
    let kind = if ours {
        Kind::Process { exit_code: None, signal: None }
    } else {
        Kind::Process { exit_code: ended.exit_code, signal: ended.signal }
    };
    let evidence = Evidence {
        kind,
        headers: Vec::new(),
        text: ended.stdout.clone(),
        stderr: ended.stderr.clone(),
        hints: backstop_triage::Hints::default(),
    };
    let verdict = classify(&evidence);
    if ours && verdict.class == Class::Unknown {
        return Verdict::new(Class::Timeout, Scope::Provider, "time_limit", Basis::Structure);
    }
    verdict
}

/// The verdict on a process that could not be started.
pub fn verdict_of_spawn_failure(error: &io::Error) -> Verdict {
    let (class, reason) = match error.kind() {
        io::ErrorKind::NotFound => (Class::ConfigurationError, "cli_not_found"),
        io::ErrorKind::PermissionDenied => (Class::ConfigurationError, "cli_not_executable"),
        io::ErrorKind::WouldBlock | io::ErrorKind::OutOfMemory => (Class::LocalFault, "out_of_resources"),
        _ => match error.raw_os_error() {
            Some(code) if TRANSIENT_ERRORS.contains(&code) => (Class::LocalFault, "out_of_resources"),
            Some(_) | None => (Class::ConfigurationError, "cli_not_startable"),
        },
    };
    Verdict::new(class, Scope::Local, reason, Basis::Structure)
}

/// Out of processes, memory, file descriptors; the program's file is being written.
const TRANSIENT_ERRORS: [i32; 5] = [
    rustix::io::Errno::AGAIN.raw_os_error(),
    rustix::io::Errno::NOMEM.raw_os_error(),
    rustix::io::Errno::MFILE.raw_os_error(),
    rustix::io::Errno::NFILE.raw_os_error(),
    rustix::io::Errno::TXTBSY.raw_os_error(),
];
