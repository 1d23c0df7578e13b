//! Files as they were before turns.

use super::{Answer, Id, ok};
use crate::http::body::Nothing;
use crate::http::path::Path;
use crate::http::query::Query;
use crate::http::request::Asked;

/// How many are listed when nobody says, and at most.
const DEFAULT_LIMIT: usize = 20;
const MAX_LIMIT: usize = 100;

pub(super) async fn list(asked: Asked, query: Query) -> Answer {
    let limit = query.get("limit")?.unwrap_or(DEFAULT_LIMIT);
    ok(&asked.list_snapshots(limit.clamp(1, MAX_LIMIT)).await?)
}

pub(super) async fn restore(asked: Asked, Path(id): Id, _: Nothing) -> Answer {
    ok(&asked.restore_snapshot(&id).await?)
}
