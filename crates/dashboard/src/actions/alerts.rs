//! Alerts: what is on, in the gateway and in the seats beside it; who has seen it; how the channels fare.

use backstop_alerts::ChannelStatus;
use backstop_supervisor::SeatAlerts;
use backstop_triage::{
    Timestamp,
    alert::{Episode, Topic},
};
use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    app::{Actor, App},
    problem::{Answer, Problem},
};

/// An alert that is on.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct AlertView {
    /// Its id: `CONDITION/GROUP`.
    pub alert: String,
    /// What is wrong: `key_disabled`, `crash_loop` …
    pub condition: &'static str,
    /// The same for people.
    pub headline: &'static str,
    /// `critical` or `warning`.
    pub severity: &'static str,
    /// Where: a provider's id, `seat/NAME`, `account/NAME`, `store` …
    pub group: String,
    /// The same in the form that leads there: `provider/ID`, `seat/NAME`, `store` …
    pub subject: String,
    /// When it came on.
    #[schema(value_type = String, format = DateTime)]
    pub since: Timestamp,
    /// When it was last announced.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub announced: Option<Timestamp>,
    /// Since when nothing is wrong; it counts as over after a while of quiet.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub quiet_since: Option<Timestamp>,
    /// How many members of the group it hits.
    pub count: usize,
    /// The first hundred of them by name, with what is wrong with each.
    pub members: Vec<MemberView>,
    /// What is wrong with the latest of them.
    pub detail: String,
    /// Whether a person has seen it, so that it is not repeated.
    pub acknowledged: bool,
}

/// A member of a group that an alert hits.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct MemberView {
    /// Its name.
    pub name: String,
    /// What is wrong with it.
    pub detail: String,
}

/// What came back from a channel.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ChannelTest {
    /// Whether it took the message.
    pub delivered: bool,
    /// What it said.
    pub answer: String,
}

/// Every alert that is on, the gravest first, then the newest.
pub async fn list(app: &App) -> Answer<Vec<AlertView>> {
    let mut on = app.live.alerts();
    on.extend(app.blocking(|app| Ok(of_seats(app).on())).await?);
    let providers = app.live.providers();
    let is_provider = |group: &str| providers.iter().any(|provider| provider.id.as_str() == group);
    let mut views: Vec<AlertView> = on
        .into_iter()
        .map(|(topic, episode)| {
            let kind = if is_provider(&topic.group) { "provider/" } else { "" };
            view(&topic, episode, kind)
        })
        .collect();
    views.sort_by_key(|view| (view.severity != "critical", std::cmp::Reverse(view.since)));
    Ok(views)
}

/// A person has seen an alert: no more reminders until it is over.
pub async fn acknowledge(app: &App, actor: &Actor, alert: &str) -> Answer<()> {
    let topic = Topic::parse(alert).ok_or_else(|| Problem::not_found("alert"))?;
    let known = topic.clone();
    let seen = app.live.acknowledge(&topic)
        || app
            .blocking(move |app| {
                of_seats(app).acknowledge(&known).map_err(|error| Problem::broken(error.to_string()))
            })
            .await?;
    if !seen {
        return Err(Problem::not_found("alert"));
    }
    app.note(actor, "alerts.ack", alert, "").await;
    Ok(())
}

/// How the channels fare.
pub fn channels(app: &App) -> Vec<ChannelStatus> {
    app.live.alert_channels()
}

/// Sends a test message to a channel.
pub async fn test(app: &App, channel: &str) -> Answer<ChannelTest> {
    let tested = app.live.test_alert_channel(channel).await;
    Ok(match tested.ok_or_else(|| Problem::not_found("channel"))? {
        Ok(answer) => ChannelTest { delivered: true, answer },
        Err(answer) => ChannelTest { delivered: false, answer },
    })
}

fn of_seats(app: &App) -> SeatAlerts {
    SeatAlerts::below(app.live.store().data_dir())
}

fn view(topic: &Topic, episode: Episode, kind: &str) -> AlertView {
    let count = episode.count();
    let members = episode.members.into_iter().take(MEMBERS_SHOWN);
    AlertView {
        alert: topic.to_string(),
        condition: topic.condition.as_str(),
        headline: topic.condition.headline(),
        severity: topic.condition.severity().as_str(),
        subject: format!("{kind}{}", topic.group),
        group: topic.group.clone(),
        since: episode.opened,
        announced: episode.announced,
        quiet_since: episode.quiet_since,
        count,
        members: members.map(|(name, detail)| MemberView { name, detail }).collect(),
        detail: episode.detail,
        acknowledged: episode.acknowledged,
    }
}

const MEMBERS_SHOWN: usize = 100;
