//! Adding, listing and removing harnesses, agents and sessions.

use std::sync::Arc;

use serde::Serialize;
use windlass_core::agent::Agent;
use windlass_core::capabilities::{Capability, ResolvedCapability};
use windlass_core::capability_types::{MountAccess, MountEntry, SkillContribution};
use windlass_core::error::{AgentLoopError, Result};
use windlass_core::events::{Event, EventData};
use windlass_core::harness::Harness;
use windlass_core::session::Session;
use windlass_core::session_file::InitialFile;
use windlass_core::typed_id::{AgentId, HarnessId, SessionId};
use windlass_store::StreamKey;
use windlass_turn::Input;

use super::InProcessRuntime;
use crate::backends::SessionProgress;
use crate::builder::text_file;
use crate::errors::from_journal;
use crate::inner::Inner;
use crate::panics::catch_panic_async;
use crate::thread::{CloseWhen, ThreadCommand};
use crate::turn_context::{Contributions, SessionRecords, guarded};

impl InProcessRuntime {
    /// Adds or replaces a harness. Its sessions use the change from their next turn on.
    pub async fn add_harness(&self, harness: Harness) -> Result<()> {
        self.inner.backends.harness_store.add_harness(harness).await
    }

    /// Returns all harnesses.
    pub async fn list_harnesses(&self) -> Result<Vec<Harness>> {
        self.inner.backends.harness_store.list_harnesses().await
    }

    /// Removes a harness. Its sessions stay, but cannot run further turns.
    pub async fn remove_harness(&self, id: HarnessId) -> Result<bool> {
        self.inner.backends.harness_store.remove_harness(id).await
    }

    /// Adds or replaces an agent.
    pub async fn add_agent(&self, agent: Agent) -> Result<()> {
        self.inner.backends.agent_store.add_agent(agent).await
    }

    /// Returns all agents.
    pub async fn list_agents(&self) -> Result<Vec<Agent>> {
        self.inner.backends.agent_store.list_agents().await
    }

    /// Removes an agent. Its sessions stay, but cannot run further turns.
    pub async fn remove_agent(&self, id: AgentId) -> Result<bool> {
        self.inner.backends.agent_store.remove_agent(id).await
    }

    /// Adds a session after validating its harness, agent and capabilities, and writes its initial files.
    pub async fn add_session(&self, session: Session) -> Result<()> {
        open_session(&self.inner, session).await
    }

    /// Records the host's data of a session: `session.started`, `session.updated` or `session.forked`.
    pub async fn note_session(
        &self,
        session_id: SessionId,
        data: impl Into<EventData>,
    ) -> Result<Event> {
        let input = Box::new(Input::Note { data: data.into() });
        self.ask(session_id, |reply| ThreadCommand::Record { input, reply })
            .await
    }

    /// Returns a session's record.
    pub async fn session(&self, session_id: SessionId) -> Result<Session> {
        let slot = self.inner.slot(session_id).await?;
        // Status and usage come from the thread. A thread in memory has already written them to the record.
        let read_thread = match slot.published() {
            Some(_) => None,
            None => Some(self.inner.read_thread(&slot).await?),
        };
        let sessions = &self.inner.backends.session_store;
        let session = sessions.get_session(session_id).await?;
        let mut session = session.ok_or(AgentLoopError::SessionNotFound(session_id))?;
        if let Some(thread) = read_thread.filter(|thread| thread.started_at().is_some()) {
            let progress = SessionProgress {
                status: thread.status(),
                started_at: thread.started_at(),
                usage: thread.usage(),
                updated_at: session.updated_at,
            };
            progress.apply(&mut session);
        }
        Ok(session)
    }

    /// Returns how many sessions are in memory. On disk there can be many more: see
    /// [`RuntimeSettings::idle_sessions`](crate::RuntimeSettings::idle_sessions).
    #[must_use]
    pub fn loaded_sessions(&self) -> usize {
        self.inner.loaded_sessions()
    }

    /// Returns all sessions.
    pub async fn list_sessions(&self) -> Result<Vec<Session>> {
        self.inner.backends.session_store.list_sessions().await
    }

    /// Returns the IDs of all sessions, which is cheaper than listing them.
    pub async fn session_ids(&self) -> Result<Vec<SessionId>> {
        self.inner.backends.session_store.session_ids().await
    }

    /// Returns the IDs of subagent sessions, newest first: of one parent or of all, at most `limit` after the first `skip`.
    pub async fn child_ids(
        &self,
        parent: Option<SessionId>,
        skip: usize,
        limit: usize,
    ) -> Result<Vec<SessionId>> {
        let sessions = &self.inner.backends.session_store;
        sessions.child_ids(parent, skip, limit).await
    }

    /// Removes a session with its messages, events, files, values and secrets. A running turn is cancelled first.
    pub async fn remove_session(&self, session_id: SessionId) -> Result<()> {
        self.remove_when(session_id, CloseWhen::Now).await
    }

    /// Removes a session as [`remove_session`](Self::remove_session) does, if it has no open turn; otherwise it returns [`AgentLoopError::TurnBusy`]
    /// and removes nothing.
    pub async fn remove_idle_session(&self, session_id: SessionId) -> Result<()> {
        self.remove_when(session_id, CloseWhen::Idle).await
    }

    async fn remove_when(&self, session_id: SessionId, when: CloseWhen) -> Result<()> {
        let inner = Arc::clone(&self.inner);
        let slot = inner.slot(session_id).await?;
        // Runs in its own task: a partial removal would leave a session that can neither be used nor removed.
        let removal = tokio::spawn(async move {
            // A run that is being cancelled must not leave its process running.
            if when == CloseWhen::Now {
                slot.process.begin_close();
            }
            slot.ask(&inner, |reply| ThreadCommand::Close { when, reply })
                .await?;
            slot.process.close().await;
            let removed = forget(&inner, session_id).await;
            // The closed slot rejects callers until the record is removed. If the store cannot remove the record, the session gets a new slot and
            // stays.
            inner.take_slot(session_id);
            removed
        });
        removal
            .await
            .unwrap_or_else(|_| Err(AgentLoopError::store("a store panicked during the removal")))
    }
}

/// Removes all stored data of a session.
async fn forget(inner: &Inner, session_id: SessionId) -> Result<()> {
    let backends = &inner.backends;
    // The conversation is removed first, because lists are derived from it, and the record last. So a removal that was interrupted can be repeated.
    backends
        .journal
        .remove(&StreamKey::from(session_id))
        .await
        .map_err(from_journal)?;
    for capability in inner.platform.capability_registry().list() {
        // A panic in a capability does not prevent the removal of the session.
        let _ = catch_panic_async(capability.session_removed(session_id)).await;
    }
    inner.files.forget_session(session_id).await?;
    backends.storage_store.forget_session(session_id).await?;
    inner.drivers.forget_session(session_id);
    forget_own_records(inner, session_id).await?;
    backends.session_store.remove_session(session_id).await?;
    Ok(())
}

/// Removes the harness and the agent that were created for this session alone, which have its UUID, unless a fork uses them.
async fn forget_own_records(inner: &Inner, session_id: SessionId) -> Result<()> {
    let backends = &inner.backends;
    let (harness_id, agent_id) = own_records(session_id);
    let session = backends.session_store.get_session(session_id).await?;
    let has_own =
        |session: &Session| session.harness_id == harness_id && session.agent_id == Some(agent_id);
    if !session.is_some_and(|session| has_own(&session)) {
        return Ok(());
    }
    let sessions = backends.session_store.list_sessions().await?;
    if sessions.iter().filter(|other| has_own(other)).count() > 1 {
        return Ok(());
    }
    backends.harness_store.remove_harness(harness_id).await?;
    backends.agent_store.remove_agent(agent_id).await?;
    Ok(())
}

/// Returns the IDs of the harness and the agent that belong to one session alone.
pub(crate) fn own_records(session_id: SessionId) -> (HarnessId, AgentId) {
    let uuid = session_id.uuid();
    (HarnessId::from_uuid(uuid), AgentId::from_uuid(uuid))
}

/// Records a session and writes its initial files. Its harness, agent and capabilities are validated before anything is stored.
pub(crate) async fn open_session(inner: &Arc<Inner>, session: Session) -> Result<()> {
    let session_id = session.id;
    let records = SessionRecords::for_session(inner, session).await?;
    let mut files = files_of_capabilities(inner, &records)?;
    files.extend(records.overlay.initial_files);
    let sessions = &inner.backends.session_store;
    let is_new = !sessions.has_session(session_id).await?;
    if let Err(error) = seed(inner, session_id, &files).await {
        if is_new {
            inner.files.forget_session(session_id).await?;
        }
        return Err(error);
    }
    sessions.add_session(records.session).await
}

/// Returns whether two records have the same stored form.
pub(crate) fn has_same_json<T: Serialize>(one: &T, other: &T) -> bool {
    let written = serde_json::to_value(one).ok();
    written.is_some() && written == serde_json::to_value(other).ok()
}

/// Updates the record of an existing session if it has changed. Its files are unchanged; missing files of capabilities are added.
pub(crate) async fn reopen_session(
    inner: &Arc<Inner>,
    earlier: &Session,
    session: Session,
) -> Result<()> {
    let session_id = session.id;
    let records = SessionRecords::for_session(inner, session).await?;
    for file in files_of_capabilities(inner, &records)? {
        let existing = inner.files.read_file(session_id, &file.path).await?;
        if existing.is_none() {
            inner.files.seed_initial_file(session_id, &file).await?;
        }
    }
    if has_same_json(earlier, &records.session) {
        return Ok(());
    }
    let sessions = &inner.backends.session_store;
    sessions.add_session(records.session).await
}

/// Returns the files that the capabilities of a session provide.
fn files_of_capabilities(inner: &Arc<Inner>, records: &SessionRecords) -> Result<Vec<InitialFile>> {
    let contributions = Contributions::collect(inner, &records.overlay, "")?;
    let mut files = Vec::new();
    for ResolvedCapability { capability, .. } in &contributions.capabilities {
        files.extend(guarded(&**capability, || files_of(&**capability))?);
    }
    Ok(files)
}

async fn seed(inner: &Inner, session_id: SessionId, files: &[InitialFile]) -> Result<()> {
    for file in files {
        inner.files.seed_initial_file(session_id, file).await?;
    }
    Ok(())
}

/// Returns the files that a capability provides.
fn files_of(capability: &dyn Capability) -> Vec<InitialFile> {
    let mut files = Vec::new();
    for mount in capability.mounts() {
        let is_readonly = mount.access == MountAccess::ReadOnly;
        add_mounted(&mount.path, &mount.source.0, is_readonly, &mut files);
    }
    let skills = capability.contribute_skills();
    files.extend(skills.iter().flat_map(files_of_skill));
    files
}

fn add_mounted(path: &str, entry: &MountEntry, is_readonly: bool, files: &mut Vec<InitialFile>) {
    match entry {
        MountEntry::File { content, encoding } => files.push(InitialFile {
            path: path.to_owned(),
            content: content.clone(),
            encoding: encoding.clone(),
            is_readonly,
        }),
        MountEntry::Directory { entries } => {
            for (name, entry) in entries {
                let path = format!("{}/{name}", path.trim_end_matches('/'));
                add_mounted(&path, entry, is_readonly, files);
            }
        }
    }
}

fn files_of_skill(skill: &SkillContribution) -> Vec<InitialFile> {
    let root = format!("/.agents/skills/{}", skill.name);
    let readonly = |path: String, content: String| InitialFile {
        is_readonly: true,
        ..text_file(path, content)
    };
    let SkillContribution {
        name,
        description,
        instructions,
        files,
    } = skill;
    // Quoted and on one line, so that no description can end the header or begin another key.
    let description = description.split_whitespace().collect::<Vec<_>>().join(" ");
    let description = description.replace('\\', "\\\\").replace('"', "\\\"");
    let main =
        format!("---\nname: {name}\ndescription: \"{description}\"\n---\n\n{instructions}\n");
    let others = files
        .iter()
        .map(|(path, content)| readonly(format!("{root}/{path}"), content.clone()));
    std::iter::once(readonly(format!("{root}/SKILL.md"), main))
        .chain(others)
        .collect()
}
