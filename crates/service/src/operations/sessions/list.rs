//! Listing saved sessions.

use std::cmp::Reverse;

use chrono::{DateTime, FixedOffset};
use windlass_protocol::{SessionLine, SessionMetadata};

use super::Asked;
use crate::error::Result;

/// In which order sessions are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionOrder {
    /// Last changed first.
    Recent,
    /// By title.
    Name,
    /// Most messages first.
    Size,
}

/// Which sessions are asked for.
pub struct SessionQuery {
    pub limit: usize,
    /// Words that a title, an id, a directory or a model has, in any case.
    pub search: Option<String>,
    /// Whether archived ones are wanted, or those alone.
    pub archived: Archived,
    pub workspace: Option<String>,
    pub order: SessionOrder,
}

/// Which sessions are wanted, of those that are archived and those that are not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Archived {
    Left,
    Included,
    Only,
}

/// When a session was last changed. Texts of times do not sort: some have no fraction.
pub(super) fn age(session: &SessionMetadata) -> (Option<DateTime<FixedOffset>>, String) {
    let at = DateTime::parse_from_rfc3339(&session.updated_at).ok();
    (at, session.id.clone())
}

impl SessionQuery {
    fn wants(&self, session: &SessionMetadata) -> bool {
        let is_wanted = match self.archived {
            Archived::Left => !session.archived,
            Archived::Included => true,
            Archived::Only => session.archived,
        };
        let path = |text: &str| text.trim_end_matches('/').to_owned();
        let workspace = self.workspace.as_deref().map(path);
        let is_there = workspace.is_none_or(|wanted| wanted == path(&session.workspace));
        is_wanted
            && is_there
            && self
                .search
                .as_deref()
                .is_none_or(|words| has(session, words))
    }
}

fn has(session: &SessionMetadata, words: &str) -> bool {
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

impl Asked {
    /// Lists the sessions that a query asks for.
    pub async fn list_sessions(&self, query: SessionQuery) -> Result<Vec<SessionMetadata>> {
        let mut sessions = self.sessions().await?;
        sessions.retain(|session| query.wants(session));
        match query.order {
            SessionOrder::Recent => sessions.sort_by_cached_key(|one| Reverse(age(one))),
            SessionOrder::Name => {
                sessions.sort_by_cached_key(|one| (one.title.to_lowercase(), one.id.clone()));
            }
            SessionOrder::Size => {
                sessions.sort_by_cached_key(|one| (Reverse(one.message_count), Reverse(age(one))));
            }
        }
        sessions.truncate(query.limit);
        Ok(sessions)
    }

    /// Lists sessions, one line each.
    pub async fn summarize_sessions(&self, query: SessionQuery) -> Result<Vec<SessionLine>> {
        let sessions = self.list_sessions(query).await?;
        Ok(sessions.into_iter().map(line).collect())
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
