//! What goes on beside the traffic: alerts that are delivered, and agents that are supervised.

use backstop_supervisor::Seats;

use crate::{
    meters::{Exposition, escaped},
    shared::Shared,
};

pub(super) fn write(out: &mut Exposition, shared: &Shared) {
    let name = "backstop_alerts_total";
    out.metric(name, "counter", "Deliveries of alerts by channel and result.");
    for channel in shared.alarms.channels() {
        let results =
            [("delivered", channel.delivered), ("failed", channel.failed), ("dropped", channel.dropped)];
        for (result, count) in results {
            let sink = escaped(&channel.name);
            out.sample(name, &format!("sink=\"{sink}\",result=\"{result}\""), count);
        }
    }
    let name = "backstop_supervised_restarts_total";
    out.metric(name, "counter", "Failures of supervised agents, each of which led to a restart or a rest.");
    let seats = Seats::look(shared.store.data_dir()).list(shared.clock.now());
    for seat in seats {
        for (class, count) in &seat.record.failed {
            let labels = format!("name=\"{}\",class=\"{class}\"", escaped(seat.name.as_str()));
            out.sample(name, &labels, count);
        }
    }
}
