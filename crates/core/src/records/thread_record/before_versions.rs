//! The form of thread records before they had a version: the thread as the API showed it.

use chrono::{DateTime, Utc};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use uuid::Uuid;

use super::{
    ClientTool, OnRestart, ThreadBudget, ThreadEnvironment, ThreadParent, ThreadRecord,
    ThreadRecordError,
};
use crate::turn_policy::{PolicyBeforeVersions, TurnPolicy};
use crate::typed_id::{SessionId, TurnId};

/// The version of the API's form of a thread, the only one that was ever stored.
const API_VERSION: u64 = 2;

#[derive(Deserialize)]
pub(super) struct RecordBeforeVersions {
    created_at: DateTime<Utc>,
    updated_at: DateTime<Utc>,
    #[serde(flatten, with = "PolicyBeforeVersions")]
    policy: TurnPolicy,
    workspace: String,
    latest_turn_id: Option<TurnId>,
    archived: bool,
    system_prompt: Option<String>,
    task_id: Option<String>,
    title: Option<String>,
    dynamic_tools: Option<Vec<ClientTool>>,
    environments: Option<Vec<ThreadEnvironment>>,
    on_restart: Option<OnRestart>,
    agent: Option<String>,
    budget: Option<ThreadBudget>,
    parent: Option<ParentBeforeVersions>,
}

#[derive(Deserialize)]
struct ParentBeforeVersions {
    #[serde(deserialize_with = "session_of_thread")]
    thread_id: SessionId,
    turn_id: TurnId,
}

/// Reads the API's id of a thread, `thr_` and the UUID of its session.
fn session_of_thread<'de, D: Deserializer<'de>>(from: D) -> Result<SessionId, D::Error> {
    let text = String::deserialize(from)?;
    let uuid = text
        .strip_prefix("thr_")
        .and_then(|uuid| Uuid::try_parse(uuid).ok());
    let unknown = || D::Error::custom(format!("`{text}` is not the id of a thread"));
    uuid.map(SessionId::from_uuid).ok_or_else(unknown)
}

impl RecordBeforeVersions {
    pub(super) fn decode(stored: Value) -> Result<ThreadRecord, ThreadRecordError> {
        match stored.get("schema_version") {
            Some(version) if *version != API_VERSION => {
                Err(ThreadRecordError::UnknownVersion(version.clone()))
            }
            _ => Ok(Self::deserialize(stored)?.into()),
        }
    }
}

impl From<RecordBeforeVersions> for ThreadRecord {
    fn from(old: RecordBeforeVersions) -> Self {
        let parent = old.parent.map(|parent| ThreadParent {
            session_id: parent.thread_id,
            turn_id: parent.turn_id,
        });
        Self {
            created_at: old.created_at,
            updated_at: old.updated_at,
            latest_turn_id: old.latest_turn_id,
            owner: old.agent,
            title: old.title,
            archived: old.archived,
            policy: old.policy,
            workspace: old.workspace,
            environments: old.environments.unwrap_or_default(),
            budget: old.budget,
            client_tools: old.dynamic_tools.unwrap_or_default(),
            system_prompt: old.system_prompt,
            task_id: old.task_id,
            on_restart: old.on_restart,
            parent,
        }
    }
}
