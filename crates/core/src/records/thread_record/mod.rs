//! The stored record of a thread.
//!
//! It is part of the events that create, change and fork a session. The wire shows a thread in its own form; only the service maps
//! between the two. A record of an unknown version makes its event unreadable, which stops that thread and leaves its data unchanged.

mod before_versions;

use std::path::PathBuf;

use chrono::{DateTime, Utc};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use windlass_macros::omit_none;

use crate::turn_policy::TurnPolicy;
use crate::typed_id::{SessionId, TurnId};
use before_versions::RecordBeforeVersions;

/// The version of the form that is written.
const VERSION: u64 = 1;

/// The stored record of a thread.
#[omit_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(remote = "Self", deny_unknown_fields)]
pub struct ThreadRecord {
    /// When the thread was created.
    pub created_at: DateTime<Utc>,
    /// When the record was last changed.
    pub updated_at: DateTime<Utc>,
    /// The newest turn when the record was written.
    pub latest_turn_id: Option<TurnId>,
    /// The agent whose token created the thread; `None` is the operator.
    pub owner: Option<String>,
    /// The name to show.
    pub title: Option<String>,
    /// Whether lists omit the thread.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub archived: bool,
    /// How its turns run.
    pub policy: TurnPolicy,
    /// The directory that clients show.
    pub workspace: String,
    /// The environments of its turns, the default first; empty is `workspace`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub environments: Vec<ThreadEnvironment>,
    /// The limits of the thread and each of its turns, below those of the operator.
    pub budget: Option<ThreadBudget>,
    /// Tools that clients run in every turn.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub client_tools: Vec<ClientTool>,
    /// The turn that started the thread, if a model did.
    pub parent: Option<ThreadParent>,
    /// Instructions for the agent, next to its own.
    pub system_prompt: Option<String>,
    /// The task that the thread belongs to.
    pub task_id: Option<String>,
    /// The treatment of an open turn when the daemon restarts; `None` is the default.
    pub on_restart: Option<OnRestart>,
}

/// The treatment of an open turn when the daemon restarts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnRestart {
    /// The turn resumes.
    Resume,
    /// It ends as interrupted.
    Interrupt,
}

/// An environment of a thread, and the directory in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ThreadEnvironment {
    pub environment_id: String,
    /// The directory, resolved.
    pub cwd: PathBuf,
}

/// The limits of a thread and each of its turns; `None` is unlimited.
#[omit_none]
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ThreadBudget {
    /// US dollars of one turn.
    pub turn_usd: Option<f64>,
    /// Tokens of one turn, read and written.
    pub turn_tokens: Option<u64>,
    /// Model calls of one turn.
    pub turn_model_calls: Option<u64>,
    /// Tool calls of one turn.
    pub turn_tool_calls: Option<u64>,
    /// Seconds of one turn, waits included.
    pub turn_seconds: Option<u64>,
    /// US dollars of all turns.
    pub thread_usd: Option<f64>,
    /// Tokens of all turns.
    pub thread_tokens: Option<u64>,
}

/// A tool that clients registered for the thread and run.
#[omit_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientTool {
    /// The group that the name belongs to.
    pub namespace: Option<String>,
    /// The name; with the namespace it identifies the tool.
    pub name: String,
    /// The description that the model reads.
    pub description: String,
    /// The JSON Schema of the arguments.
    pub input_schema: Value,
    /// Whether the model only finds the tool by a search.
    #[serde(default)]
    pub defer_loading: bool,
    /// Time limit for the result of a call, in milliseconds.
    pub timeout_ms: Option<u64>,
}

/// The parent thread and turn of another thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ThreadParent {
    /// The session of the thread.
    pub session_id: SessionId,
    pub turn_id: TurnId,
}

/// Why a stored record cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ThreadRecordError {
    /// A newer version has written it.
    #[error(
        "the thread record has version {0}; this version reads 1 and older: open it with a newer version"
    )]
    UnknownVersion(Value),
    /// It does not have the form of its version.
    #[error("the thread record cannot be read: {0}")]
    Malformed(#[from] serde_json::Error),
}

impl ThreadRecord {
    /// Decodes a stored record of any known version.
    pub fn decode(mut stored: Value) -> Result<Self, ThreadRecordError> {
        let fields = stored.as_object_mut();
        match fields.and_then(|fields| fields.remove("version")) {
            None => RecordBeforeVersions::decode(stored),
            Some(version) if version == VERSION => Ok(Self::deserialize(stored)?),
            Some(version) => Err(ThreadRecordError::UnknownVersion(version)),
        }
    }

    /// Calls `text` with every free text of the record and `json` with every schema, for masking secrets.
    pub fn visit_texts(
        &mut self,
        text: &mut dyn FnMut(&mut String),
        json: &mut dyn FnMut(&mut Value),
    ) {
        let policy = &mut self.policy;
        let optional = [
            &mut self.owner,
            &mut self.title,
            &mut self.system_prompt,
            &mut self.task_id,
            &mut policy.provider,
            &mut policy.provider_id,
            &mut policy.qualified_model,
            &mut policy.backend,
            &mut policy.reasoning_effort,
        ];
        optional.into_iter().flatten().for_each(&mut *text);
        text(&mut self.workspace);
        text(&mut policy.model);
        for environment in &mut self.environments {
            text(&mut environment.environment_id);
            let mut cwd = environment.cwd.display().to_string();
            text(&mut cwd);
            environment.cwd = cwd.into();
        }
        for tool in &mut self.client_tools {
            tool.namespace.iter_mut().for_each(&mut *text);
            text(&mut tool.name);
            text(&mut tool.description);
            json(&mut tool.input_schema);
        }
    }
}

impl Serialize for ThreadRecord {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct VersionedRecord<'a> {
            version: u64,
            #[serde(flatten, with = "ThreadRecord")]
            record: &'a ThreadRecord,
        }
        VersionedRecord {
            version: VERSION,
            record: self,
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for ThreadRecord {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::decode(Value::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}
