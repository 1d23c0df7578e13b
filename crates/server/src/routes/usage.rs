//! What turns used.

use axum::extract::State;
use chrono::{DateTime, Utc};
use windlass_protocol::UsageReport;
use windlass_protocol::usage::GroupBy;

use super::{Answer, ok};
use crate::app::Shared;
use crate::error::ApiError;
use crate::http::query::Query;
use crate::{ids, usage::sums};

pub(super) async fn usage(State(app): State<Shared>, query: Query) -> Answer {
    let time = |name| -> Result<Option<DateTime<Utc>>, ApiError> { query.get(name) };
    let (since, until) = (time("since")?, time("until")?);
    if since.zip(until).is_some_and(|(since, until)| since > until) {
        return Err(ApiError::query("since must not be after until"));
    }
    let group_by = match query.text("group_by") {
        None | Some("day") => GroupBy::Day,
        Some("model") => GroupBy::Model,
        Some("provider") => GroupBy::Provider,
        Some("thread") => GroupBy::Thread,
        Some(_) => {
            return Err(ApiError::query(
                "group_by must be day, model, provider or thread",
            ));
        }
    };
    let mut turns = Vec::new();
    for entry in app.threads.all_used(&app.runtime).await {
        let used = entry.used();
        turns.extend(used.ended.iter().map(|ended| (entry.id, ended.clone())));
    }
    let is_meant = |at: DateTime<Utc>| {
        since.is_none_or(|since| at >= since) && until.is_none_or(|until| at <= until)
    };
    let keyed = turns.iter().filter(|(_, ended)| is_meant(ended.at));
    let keyed = keyed.map(|(id, ended)| {
        let key = match group_by {
            GroupBy::Day => ended.at.format("%Y-%m-%d").to_string(),
            GroupBy::Model => ended.model.clone(),
            GroupBy::Provider => ended.provider.clone(),
            GroupBy::Thread => ids::thread(*id),
        };
        (key, ended)
    });
    let (totals, buckets) = sums(keyed);
    ok(&UsageReport {
        since: since.map(ids::time),
        until: until.map(ids::time),
        group_by,
        totals,
        buckets,
    })
}
