//! Lists saved sessions.

use std::cmp::Reverse;

use chrono::{DateTime, FixedOffset};
use windlass_protocol::api::Page;
use windlass_protocol::operations::{SessionOrder, SessionsQuery};
use windlass_protocol::{SessionLine, SessionList, SessionMetadata};

use crate::operations::prelude::*;

/// Default and maximum number of listed sessions.
const DEFAULT_LIMIT: usize = 50;
const MAX_LIMIT: usize = 1_000;

/// Returns the sort key by last change. The timestamps themselves do not sort as text: some have no fraction.
pub(super) fn age(session: &SessionMetadata) -> (Option<DateTime<FixedOffset>>, String) {
    let at = DateTime::parse_from_rfc3339(&session.updated_at).ok();
    (at, session.id.clone())
}

fn is_selected(query: &SessionsQuery, session: &SessionMetadata) -> bool {
    let is_included = match (query.archived_only, query.include_archived) {
        (Some(true), _) => session.archived,
        (_, Some(true)) => true,
        _ => !session.archived,
    };
    let path = |text: &str| text.trim_end_matches('/').to_owned();
    let workspace = query.workspace.as_deref().map(path);
    let is_in_workspace = workspace.is_none_or(|requested| requested == path(&session.workspace));
    let search = query.search.as_deref();
    is_included && is_in_workspace && search.is_none_or(|words| matches(session, words))
}

fn matches(session: &SessionMetadata, words: &str) -> bool {
    let words = words.to_lowercase();
    let shown = [
        &session.title,
        &session.id,
        &session.thread_id,
        &session.workspace,
        &session.model,
    ];
    let mut shown = shown.iter().map(|text| text.to_lowercase());
    shown.any(|text| text.contains(&words))
}

impl Service {
    /// Returns the sessions that match a query.
    async fn select_sessions(
        &self,
        ctx: &RequestContext,
        query: &SessionsQuery,
    ) -> Result<Vec<SessionMetadata>> {
        let mut sessions = self.sessions(ctx).await?;
        sessions.retain(|session| is_selected(query, session));
        match query.sort.unwrap_or_default() {
            SessionOrder::Recent => sessions.sort_by_cached_key(|it| Reverse(age(it))),
            SessionOrder::Name => {
                sessions.sort_by_cached_key(|one| (one.title.to_lowercase(), one.id.clone()));
            }
            SessionOrder::Size => {
                sessions.sort_by_cached_key(|one| (Reverse(one.message_count), Reverse(age(one))));
            }
        }
        sessions.truncate(limit(query.limit, DEFAULT_LIMIT, MAX_LIMIT));
        Ok(sessions)
    }
}

impl Handle<op::ListSessions> for Service {
    async fn handle(
        &self,
        ctx: &RequestContext,
        call: Call<op::ListSessions>,
    ) -> Result<SessionList> {
        let sessions = self.select_sessions(ctx, &call.query).await?;
        Ok(SessionList { sessions })
    }
}

impl Handle<op::SummarizeSessions> for Service {
    async fn handle(
        &self,
        ctx: &RequestContext,
        call: Call<op::SummarizeSessions>,
    ) -> Result<Page<SessionLine>> {
        let sessions = self.select_sessions(ctx, &call.query).await?;
        let lines: Vec<_> = sessions.into_iter().map(line).collect();
        Ok(lines.into())
    }
}

fn line(session: SessionMetadata) -> SessionLine {
    SessionLine {
        id: session.id,
        preview: session.title.clone(),
        title: session.title,
        model: session.model,
        mode: session.mode,
        workspace: session.workspace,
        archived: session.archived,
        updated_at: session.updated_at,
        created_at: session.created_at,
        message_count: session.message_count,
        total_tokens: session.total_tokens,
        thread_id: session.thread_id,
    }
}
