//! Commands that a person types, such as `/btw`.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::command_host::CommandHost;
use crate::message::Controls;
use crate::typed_id::SessionId;

/// Where a command comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CommandSource {
    /// A capability.
    System,
    /// A skill.
    Skill,
}

/// An argument of a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandArg {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// Whether it must be there.
    pub required: bool,
    /// Values to offer.
    #[serde(default)]
    pub suggestions: Vec<String>,
}

/// What is known of a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandDescriptor {
    /// Its name without the slash.
    pub name: String,
    /// What it does.
    pub description: String,
    /// Where it comes from.
    pub source: CommandSource,
    /// Its arguments.
    #[serde(default)]
    pub args: Vec<CommandArg>,
}

/// A command with its arguments as they were typed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExecuteCommandRequest {
    /// The name without the slash.
    pub name: String,
    /// What was typed behind it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<String>,
    /// Wishes for this call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controls: Option<Controls>,
}

/// What a command came to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CommandResult {
    /// Whether it did what it should.
    pub success: bool,
    /// What to show.
    pub message: String,
    /// A stable code of the failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_code: Option<String>,
    /// Details of the failure by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_fields: Option<BTreeMap<String, Value>>,
}

/// What a command gets of the session.
#[derive(Clone)]
pub struct CommandExecutionContext {
    /// The session.
    pub session_id: SessionId,
    /// What the host offers.
    pub host: Arc<dyn CommandHost>,
}

impl fmt::Debug for CommandExecutionContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CommandExecutionContext")
            .field("session_id", &self.session_id)
            .finish_non_exhaustive()
    }
}
