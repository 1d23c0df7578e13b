//! What turns used.

use windlass_store::queries::{UsageBy, UsageQuery};

use super::{Answer, ok};
use crate::http::query::Query;
use crate::http::request::Asked;
use windlass_service::ApiError;

pub(super) async fn usage(asked: Asked, query: Query) -> Answer {
    let (since, until) = (query.get("since")?, query.get("until")?);
    if since.zip(until).is_some_and(|(since, until)| since > until) {
        return Err(ApiError::query("since must not be after until").into());
    }
    let by = match query.text("group_by") {
        None | Some("day") => UsageBy::Day,
        Some("model") => UsageBy::Model,
        Some("provider") => UsageBy::Provider,
        Some("thread") => UsageBy::Thread,
        Some(_) => {
            return Err(ApiError::query("group_by must be day, model, provider or thread").into());
        }
    };
    ok(&asked.usage(UsageQuery { since, until, by }).await?)
}
