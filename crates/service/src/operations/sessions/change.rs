//! Naming, archiving and removing a saved session.

use chrono::Utc;
use serde_json::{Map, json};
use windlass_protocol::{ErrorCode, PatchSession, PatchedSession};

use super::{Asked, KIND, checked_title, not_found};
use crate::error::{ApiError, Result};
use crate::ids;

impl Asked {
    /// Changes the title of a session, or whether it is archived.
    pub async fn patch_session(&self, id: &str, request: PatchSession) -> Result<PatchedSession> {
        self.session_and_thread(id).await?;
        if request == PatchSession::default() {
            let text = "At least one of title and archived is required";
            return Err(ApiError::new(ErrorCode::NoChanges, text));
        }
        let title = request.title.as_deref().map(checked_title).transpose()?;
        let _alone = self.writing_sessions().await;
        let mut session = self.session(id).await?;
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
            self.keep_session(&session).await?;
        }
        Ok(PatchedSession { session, changes })
    }

    /// Removes a session. Its thread stays.
    pub async fn remove_session(&self, id: &str) -> Result<()> {
        let _alone = self.writing_sessions().await;
        let session = self.session(id).await?;
        match self.store.records().remove(KIND, &session.id).await? {
            true => Ok(()),
            false => Err(not_found(id)),
        }
    }
}
