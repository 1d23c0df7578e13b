//! Commands that a person types, such as `/btw`.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use windlass_macros::{OpaqueDebug, omit_none};

use crate::command_host::CommandHost;
use crate::message::Controls;
use crate::typed_id::SessionId;

/// The source of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CommandSource {
    System,
    Skill,
}

/// An argument of a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandArg {
    pub name: String,
    /// The purpose of the argument.
    pub description: String,
    /// Whether the argument is required.
    pub required: bool,
    /// Suggested values for completion.
    #[serde(default)]
    pub suggestions: Vec<String>,
}

/// The description of a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandDescriptor {
    /// Its name without the slash.
    pub name: String,
    /// The effect of the command.
    pub description: String,
    pub source: CommandSource,
    #[serde(default)]
    pub args: Vec<CommandArg>,
}

/// A command with its arguments as typed.
#[omit_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExecuteCommandRequest {
    /// The name without the slash.
    pub name: String,
    /// The text after the command's name.
    pub arguments: Option<String>,
    /// Options of this call.
    pub controls: Option<Controls>,
}

/// The result of a command.
#[omit_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CommandResult {
    pub success: bool,
    /// The text to display.
    pub message: String,
    /// A stable code of the failure.
    pub error_code: Option<String>,
    /// Details of the failure by name.
    pub error_fields: Option<BTreeMap<String, Value>>,
}

/// The context in which a command runs.
#[derive(OpaqueDebug, Clone)]
pub struct CommandExecutionContext {
    pub session_id: SessionId,
    /// The services of the host.
    pub host: Arc<dyn CommandHost>,
}
