//! Shows a saved session: its thread up to the saved turn.

use windlass_core::bounds::prefix_chars;
use windlass_protocol::sessions::{SessionContent, SessionEntry, SessionRole};
use windlass_protocol::{Item, ItemKind, SessionDetail, SessionMessage, SessionPeek, SessionView};
use windlass_store::queries::TurnRow;

use super::redact::redact;
use crate::operations::prelude::*;
use crate::threads::turn_with_items;

/// Maximum length of an entry's text.
const ENTRY_CHARS: usize = 400;
/// Default and maximum number of messages in a preview.
const MAX_ENTRIES: usize = 12;

/// Returns the author of a message item; `None` for other items.
pub(super) fn role(item: &Item) -> Option<SessionRole> {
    match item.kind {
        ItemKind::UserMessage => Some(SessionRole::User),
        ItemKind::AgentMessage => Some(SessionRole::Assistant),
        _ => None,
    }
}

fn message(item: Item) -> Option<SessionMessage> {
    Some(SessionMessage {
        role: role(&item)?,
        content: vec![SessionContent::Text {
            text: item.detail.unwrap_or(item.summary),
        }],
        turn_id: item.turn_id,
    })
}

fn entry(item: Item) -> Option<SessionEntry> {
    let kind = role(&item)?;
    let (text, redacted) = redact(&item.detail.unwrap_or(item.summary));
    let shown = prefix_chars(&text, ENTRY_CHARS);
    Some(SessionEntry {
        kind,
        text: shown.to_owned(),
        truncated: shown.len() < text.len(),
        redacted,
        turn_id: item.turn_id,
    })
}

impl Handle<op::GetSession> for Service {
    async fn handle(
        &self,
        ctx: &RequestContext,
        call: Call<op::GetSession>,
    ) -> Result<SessionView> {
        let id = &call.path.id;
        Ok(if call.query.peek.unwrap_or(false) {
            let entries = limit(call.query.entries, MAX_ENTRIES, MAX_ENTRIES);
            SessionView::Peek(self.peek_session(ctx, id, entries).await?)
        } else {
            SessionView::Detail(self.session_detail(ctx, id).await?)
        })
    }
}

impl Service {
    /// Returns a session with its messages.
    async fn session_detail(&self, ctx: &RequestContext, id: &str) -> Result<SessionDetail> {
        let (metadata, found) = self.session_and_thread(ctx, id).await?;
        let mut open = self.open_thread_turns(&found.thread.id, usize::MAX).await?;
        // If retention removed the turn, the turns before it are gone too.
        let last = open
            .shown_turns()
            .position(|turn| turn.id == metadata.turn_id);
        open.turns.truncate(last.map_or(0, |last| last + 1));
        let head = open.found.row.seq;
        let mut items = self.read_items(open.found.id, open.turns, head);
        let mut messages = Vec::new();
        while let Some(item) = items.next().await? {
            messages.extend(message(item));
        }
        Ok(SessionDetail {
            messages,
            metadata,
            system_prompt: open.found.thread.system_prompt,
        })
    }

    /// Returns a session with the beginnings of its last messages. Older messages are not read.
    async fn peek_session(
        &self,
        ctx: &RequestContext,
        id: &str,
        entries: usize,
    ) -> Result<SessionPeek> {
        let (metadata, found) = self.session_and_thread(ctx, id).await?;
        let mut rows: Vec<TurnRow> = Vec::new();
        let is_enough = |turn: &TurnRow| {
            let is_last = found.visible_turn_id(turn).to_string() == metadata.turn_id;
            if is_last || !rows.is_empty() {
                rows.push(turn.clone());
            }
            rows.len() >= entries
        };
        self.newest_turn_where(&found, is_enough).await?;
        let mut shown = Vec::new();
        for row in rows.iter().rev() {
            let detail = self.queries.turn_detail(&found.row.stream, row.view.id);
            if let Some(detail) = detail.await?.filter(|detail| !detail.row.is_pruned) {
                shown.extend(
                    turn_with_items(found.id, &detail)
                        .1
                        .into_iter()
                        .filter_map(entry),
                );
            }
        }
        shown.drain(..shown.len().saturating_sub(entries));
        Ok(SessionPeek {
            omitted_before: metadata.message_count.saturating_sub(shown.len() as u64),
            entries: shown,
            session_id: metadata.id,
            title: redact(&metadata.title).0,
            workspace: metadata.workspace,
            model: metadata.model,
            mode: metadata.mode,
            archived: metadata.archived,
            message_count: metadata.message_count,
            updated_at: metadata.updated_at,
            live: false,
            thread_id: metadata.thread_id,
        })
    }
}
