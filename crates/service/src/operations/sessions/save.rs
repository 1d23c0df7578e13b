//! Saves a thread as a new session, or overwrites an existing one.

use chrono::Utc;
use windlass_core::typed_id::SessionId;
use windlass_protocol::{
    RECORD_SCHEMA_VERSION, SavedSession, SessionMetadata, Status, Thread, Turn, UpdatedSession,
};

use super::redact::redact;
use super::show::role;
use super::{TITLE_CHARS, checked_title};
use crate::ids;
use crate::operations::prelude::*;
use crate::operations::threads::create::non_blank;

/// Maximum number of sessions, in total and per agent.
const MAX_SESSIONS: usize = 8_192;
const MAX_OF_AGENT: usize = 512;
/// Length of a title that is derived from the conversation, in characters.
const DERIVED_TITLE_CHARS: usize = 72;

/// The session that is written.
enum SaveTarget {
    /// A new one, with an optional title.
    New(Option<String>),
    /// The newest of the thread, or a new one.
    Newest,
    Existing(Box<SessionMetadata>),
}

/// Saves a thread as a new session.
impl Handle<op::SaveSession> for Service {
    async fn handle(
        &self,
        ctx: &RequestContext,
        call: Call<op::SaveSession>,
    ) -> Result<SavedSession> {
        let request = call.request;
        let title = non_blank(request.title).as_deref().map(checked_title);
        let target = SaveTarget::New(title.transpose()?);
        let saved = self.save(ctx, &request.thread_id, target).await?;
        Ok(SavedSession {
            session_id: saved.id,
            thread_id: saved.thread_id,
            message_count: saved.message_count,
            title: saved.title,
        })
    }
}

/// Saves a thread over an existing session.
impl Handle<op::UpdateSession> for Service {
    async fn handle(
        &self,
        ctx: &RequestContext,
        call: Call<op::UpdateSession>,
    ) -> Result<UpdatedSession> {
        let request = call.request;
        let (thread_id, session_id) = (non_blank(request.thread_id), non_blank(request.session_id));
        let existing = match &session_id {
            Some(id) => Some(self.session_and_thread(ctx, id).await?.0),
            None => None,
        };
        let of_session = existing.as_ref().map(|session| session.thread_id.clone());
        let thread_id = thread_id.or(of_session).ok_or_else(|| {
            ApiError::field("/thread_id", "name a thread_id, a session_id, or both")
        })?;
        let target = match existing {
            Some(session) => SaveTarget::Existing(Box::new(session)),
            None => SaveTarget::Newest,
        };
        let session = self.save(ctx, &thread_id, target).await?;
        Ok(UpdatedSession {
            session_id: session.id.clone(),
            session,
        })
    }
}

impl Service {
    async fn save(
        &self,
        ctx: &RequestContext,
        thread_id: &str,
        target: SaveTarget,
    ) -> Result<SessionMetadata> {
        let not_found = || ApiError::thread_not_found(thread_id);
        let id = ids::parse_thread(thread_id).ok_or_else(not_found)?;
        // Locked, because a thread that is being deleted removes its sessions too.
        let _thread = self.write_locks.lock(&id.to_string()).await;
        let open = self.open_thread_turns(thread_id, usize::MAX).await?;
        if let Some(agent) = ctx.caller.agent()
            && open.found.thread.agent.as_deref() != Some(agent)
        {
            return Err(not_found());
        }
        let turns: Vec<Turn> = open.shown_turns().collect();
        let head = open.found.row.seq;
        let mut items = self.read_items(open.found.id, open.turns, head);
        let mut messages = 0;
        while let Some(item) = items.next().await? {
            messages += u64::from(role(&item).is_some());
        }
        let mut saved = session_at_end(open.found.thread, &turns, messages)?;
        let _guard = self.writing_sessions().await;
        let (title, before) = match target {
            SaveTarget::New(title) => {
                let derived_thread = ctx.repeatable.as_deref().map(ids::derived_thread);
                saved.id = ids::session(derived_thread.unwrap_or_default());
                if let Some(existing) = self.session_if_any(ctx, &saved.id).await? {
                    // An earlier attempt of the request created it, and its response was lost.
                    return Ok(existing);
                }
                (title, None)
            }
            SaveTarget::Newest => {
                let of_thread = self.sessions(ctx).await?.into_iter();
                let of_thread = of_thread.filter(|session| session.thread_id == saved.thread_id);
                saved.id = ids::session(SessionId::new());
                (None, of_thread.max_by_key(super::list::age))
            }
            // Read again under the lock: it may have changed or been deleted.
            SaveTarget::Existing(session) => (None, Some(self.session(ctx, &session.id).await?)),
        };
        match before {
            Some(before) => {
                saved.id = before.id;
                saved.created_at = before.created_at;
                saved.archived = before.archived;
                saved.title = before.title;
            }
            None => {
                self.check_session_limits(ctx, saved.agent.as_deref())
                    .await?;
                saved.title = title.unwrap_or(saved.title);
            }
        }
        self.store_session(&saved).await?;
        Ok(saved)
    }

    async fn check_session_limits(&self, ctx: &RequestContext, agent: Option<&str>) -> Result<()> {
        let count = self.store.records().list(super::KIND).await?.len();
        if count >= MAX_SESSIONS {
            return Err(ApiError::limit("saved sessions", MAX_SESSIONS));
        }
        let Some(agent) = agent else {
            return Ok(());
        };
        let sessions = self.sessions(ctx).await?.into_iter();
        let is_of_agent = |session: &SessionMetadata| session.agent.as_deref() == Some(agent);
        if sessions.filter(is_of_agent).count() >= MAX_OF_AGENT {
            return Err(ApiError::limit("saved sessions of an agent", MAX_OF_AGENT));
        }
        Ok(())
    }
}

/// Returns the end of a thread's last turn as a session without an ID.
fn session_at_end(thread: Thread, turns: &[Turn], messages: u64) -> Result<SessionMetadata> {
    let is_open = |status| matches!(status, Status::Queued | Status::InProgress);
    if let Some(open) = turns.iter().find(|turn| is_open(turn.status)) {
        let text = format!(
            "Thread {} has a queued or active turn; wait for its end before saving it as a session",
            thread.id
        );
        return Err(ApiError::turn_active(&open.id).with_message(text));
    }
    let Some(last) = turns.last().filter(|_| messages > 0) else {
        let text = "the thread has no messages; start a turn first";
        return Err(ApiError::new(ErrorCode::NothingToSave, text));
    };
    let used = turns.iter().filter_map(|turn| turn.usage.as_ref());
    let tokens = used.map(|usage| usage.input_tokens.saturating_add(usage.output_tokens));
    let now = ids::time(Utc::now());
    Ok(SessionMetadata {
        schema_version: RECORD_SCHEMA_VERSION,
        id: String::new(),
        title: title_of(thread.title.as_deref(), &turns[0].input_summary),
        created_at: now.clone(),
        updated_at: now,
        message_count: messages,
        total_tokens: tokens.fold(0, u64::saturating_add),
        model: thread.model,
        model_provider: thread.model_provider,
        workspace: thread.workspace,
        mode: thread.mode,
        archived: false,
        turn_id: last.id.clone(),
        thread_id: thread.id,
        agent: thread.agent,
    })
}

/// Derives a title from the thread's title, or from the first message.
fn title_of(of_thread: Option<&str>, first_message: &str) -> String {
    let clean = |text: &str, max_chars: usize| {
        let shown = text.chars().map(|c| if c.is_control() { ' ' } else { c });
        let cut: String = shown.take(max_chars).collect();
        Some(cut.trim().to_owned()).filter(|title| !title.is_empty())
    };
    let of_thread = of_thread.and_then(|title| clean(title, TITLE_CHARS));
    of_thread
        .or_else(|| clean(&redact(first_message).0, DERIVED_TITLE_CHARS))
        .unwrap_or_else(|| "Saved session".to_owned())
}
