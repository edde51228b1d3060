//! The place where the admin API and the dashboard hang in: everything that is not the data plane.

use std::{fmt, future::Future, net::IpAddr, pin::Pin, sync::Arc};

use backstop_triage::Timestamp;
use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::Incoming;

/// The body of a mounted answer.
pub type MountBody = UnsyncBoxBody<Bytes, std::io::Error>;
/// A mounted answer under way.
pub type MountAnswer = Pin<Box<dyn Future<Output = Response<MountBody>> + Send>>;
/// Whether these headers let somebody in at a time.
pub type Admission = dyn Fn(&HeaderMap, Timestamp) -> bool + Send + Sync;

/// Where a request comes from; an extension of every request that is handed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer(pub IpAddr);

/// A handler beside the data plane. It gets every request that is not the data plane's, after the check of `Host`.
#[derive(Clone)]
pub struct Mount {
    /// Answers a request.
    pub serve: Arc<dyn Fn(Request<Incoming>) -> MountAnswer + Send + Sync>,
    /// Whether a request carries the right to administer at this time; guards `/metrics`.
    pub is_admin: Arc<Admission>,
}

impl fmt::Debug for Mount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Mount")
    }
}
