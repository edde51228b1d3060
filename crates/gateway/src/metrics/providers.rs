//! What is counted for each provider and model. Combinations that have not occurred are left out.

use backstop_store::requests::Outcome;
use backstop_triage::Class;

use crate::{
    meters::{Exposition, Way, escaped},
    plan::{Outlet, Plan},
};

pub(super) fn write(out: &mut Exposition, plan: &Plan) {
    requests(out, plan);
    attempts(out, plan);
    tokens(out, plan);
    ways(out, plan);
    out.metric("backstop_request_duration_seconds", "histogram", "From arrival to the last byte.");
    for outlet in plan.outlets() {
        out.histogram("backstop_request_duration_seconds", &provider(outlet), &outlet.meters.duration);
    }
    out.metric("backstop_ttft_seconds", "histogram", "From arrival to the first content.");
    for outlet in plan.outlets() {
        out.histogram("backstop_ttft_seconds", &provider(outlet), &outlet.meters.first_content);
    }
}

fn provider(outlet: &Outlet) -> String {
    format!("provider=\"{}\"", escaped(outlet.config.id.as_str()))
}

fn requests(out: &mut Exposition, plan: &Plan) {
    let name = "backstop_requests_total";
    out.metric(name, "counter", "Requests by how they ended for the client.");
    for outlet in plan.outlets() {
        for (model, meters) in outlet.meters.models() {
            for (way, outcomes) in Way::ALL.iter().zip(&meters.requests) {
                for (outcome, count) in
                    Outcome::ALL.iter().zip(outcomes).filter(|(_, count)| count.value() > 0)
                {
                    let labels = format!(
                        "route=\"{}\",{},model=\"{}\",outcome=\"{}\"",
                        way.as_str(),
                        provider(outlet),
                        escaped(&model),
                        outcome.as_str()
                    );
                    out.sample(name, &labels, count.value());
                }
            }
        }
    }
}

fn attempts(out: &mut Exposition, plan: &Plan) {
    let name = "backstop_attempts_total";
    out.metric(name, "counter", "Upstream calls by how they ended: answered, or the class of the failure.");
    for outlet in plan.outlets() {
        for (model, meters) in outlet.meters.models() {
            let labels = format!("{},model=\"{}\"", provider(outlet), escaped(&model));
            let failed = meters.failed.iter().map(|(class, count)| (class.as_str(), count));
            let ends = [("answered", meters.answered.value())].into_iter().chain(failed);
            for (class, count) in ends.filter(|(_, count)| *count > 0) {
                out.sample(name, &format!("{labels},class=\"{class}\""), count);
            }
        }
    }
    let name = "backstop_unknown_errors_total";
    out.metric(name, "counter", "Failures that no rule recognised.");
    for outlet in plan.outlets() {
        out.sample(name, &provider(outlet), outlet.meters.sum(|meters| meters.failed.of(Class::Unknown)));
    }
}

fn tokens(out: &mut Exposition, plan: &Plan) {
    let name = "backstop_tokens_total";
    out.metric(name, "counter", "Tokens as the provider counted them.");
    for outlet in plan.outlets() {
        for (model, meters) in outlet.meters.models() {
            let directions = [("input", &meters.input_tokens), ("output", &meters.output_tokens)];
            for (direction, count) in directions.into_iter().filter(|(_, count)| count.value() > 0) {
                let labels =
                    format!("{},model=\"{}\",direction=\"{direction}\"", provider(outlet), escaped(&model));
                out.sample(name, &labels, count.value());
            }
        }
    }
}

/// Where requests went in the end, and on which connections.
fn ways(out: &mut Exposition, plan: &Plan) {
    let name = "backstop_fallbacks_total";
    out.metric(name, "counter", "Requests that left their provider for another.");
    for outlet in plan.outlets() {
        for (to, count) in outlet.meters.fallbacks() {
            let from = escaped(outlet.config.id.as_str());
            out.sample(name, &format!("from=\"{from}\",to=\"{}\"", escaped(to.as_str())), count);
        }
    }
    let name = "backstop_upstream_connections_total";
    out.metric(name, "counter", "Calls on a used connection, and connections dialled.");
    for outlet in plan.outlets() {
        let (reused, dialled) = outlet.upstream.reuse();
        for (how, count) in [("reused", reused), ("dialled", dialled)] {
            out.sample(name, &format!("{},how=\"{how}\"", provider(outlet)), count);
        }
    }
}
