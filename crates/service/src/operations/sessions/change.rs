//! Renames, archives and deletes saved sessions.

use chrono::Utc;
use serde_json::{Map, json};
use windlass_protocol::{PatchSession, PatchedSession};

use super::{KIND, checked_title, not_found};
use crate::ids;
use crate::operations::prelude::*;

/// Changes the title or the archived flag of a session.
impl Handle<op::PatchSession> for Service {
    async fn handle(
        &self,
        ctx: &RequestContext,
        call: Call<op::PatchSession>,
    ) -> Result<PatchedSession> {
        let id = &call.path.id;
        let request = call.request;
        self.session_and_thread(ctx, id).await?;
        if request == PatchSession::default() {
            let text = "At least one of title and archived is required";
            return Err(ApiError::new(ErrorCode::NoChanges, text));
        }
        let title = request.title.as_deref().map(checked_title).transpose()?;
        let _guard = self.writing_sessions().await;
        let mut session = self.session(ctx, id).await?;
        let mut changes = Map::new();
        if let Some(title) = title.filter(|title| *title != session.title) {
            changes.insert("title".to_owned(), json!(title));
            session.title = title;
        }
        if let Some(archived) = request.archived.filter(|flag| *flag != session.archived) {
            changes.insert("archived".to_owned(), json!(archived));
            session.archived = archived;
        }
        if !changes.is_empty() {
            session.updated_at = ids::time(Utc::now());
            self.store_session(&session).await?;
        }
        Ok(PatchedSession { session, changes })
    }
}

/// Deletes a session. Its thread remains.
impl Handle<op::DeleteSession> for Service {
    async fn handle(&self, ctx: &RequestContext, call: Call<op::DeleteSession>) -> Result<()> {
        let id = &call.path.id;
        let _guard = self.writing_sessions().await;
        let session = self.session(ctx, id).await?;
        if self.store.records().remove(KIND, &session.id).await? {
            Ok(())
        } else {
            Err(not_found(id))
        }
    }
}
