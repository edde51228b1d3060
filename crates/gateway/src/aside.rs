//! The thread beside the workers: what may wait for disks and strangers, and must keep no request waiting.

use std::{io, sync::Arc, thread::JoinHandle};

use tokio::runtime::Builder;

use crate::{alarms, context, ingress::Stage, shared::Shared, telemetry};

/// Starts the thread. It ends with the gateway.
pub(crate) fn start(shared: &Arc<Shared>) -> io::Result<JoinHandle<()>> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let shared = Arc::clone(shared);
    let work = async move {
        let mut stage = shared.stage.subscribe();
        tokio::select! {
            () = alarms::keep(&shared) => {}
            () = context::keep(&shared) => {}
            () = telemetry::keep(&shared) => {}
            _ = stage.wait_for(|stage| *stage != Stage::Open) => {}
        }
        if *stage.borrow() == Stage::Draining {
            tokio::join!(alarms::last_words(&shared), telemetry::last_words(&shared));
        }
    };
    std::thread::Builder::new().name("aside".to_owned()).spawn(move || runtime.block_on(work))
}
