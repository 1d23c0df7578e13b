//! Common parts of the tools: arguments as a struct, work on an open workspace, errors as a value.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use windlass_core::tools::{SideEffectClass, Tool, ToolExecutionResult, ToolHints, ToolPolicy};
use windlass_core::traits::{SecretPlaces, ToolContext};
use windlass_core::typed_id::SessionId;

use crate::checkpoint::{CheckpointedTurn, OwnWrite, begin_call};
use crate::environments::Environments;
use crate::lock::lock;
use crate::outputs::SessionOutputs;
use crate::secrets;
use crate::workspace::{FileChange, FileError, ResolvedWorkspace};

/// Concurrency class of calls that run one after the other: file changes, and commands, which may change files.
pub(crate) const CHANGES: &str = "workspace";

/// A tool that works on files.
pub(crate) trait FileTool: Send + Sync + 'static {
    type Args: DeserializeOwned + Send + 'static;
    const NAME: &'static str;
    const DESCRIPTION: &'static str;

    fn schema() -> Value;
    fn hints() -> ToolHints;
    /// Executes a call; runs on a blocking thread.
    fn run(args: Self::Args, at: &ResolvedWorkspace, call: &FileCall) -> Result<Value, FileError>;
}

/// Context of a call besides its arguments.
#[derive(Clone, Default)]
pub(crate) struct FileCall {
    /// Whether the result is still wanted; long calls poll this.
    pub(crate) cancelled: Arc<AtomicBool>,
    /// The session's stored outputs, if enabled.
    pub(crate) outputs: Option<SessionOutputs>,
    /// Repository skills that are switched off.
    pub(crate) skills_off: Arc<BTreeSet<String>>,
    /// Secrets to mask.
    pub(crate) places: Option<Arc<dyn SecretPlaces>>,
    /// The files that the call wrote.
    writes: Arc<Mutex<Vec<OwnWrite>>>,
}

impl FileCall {
    fn new(environments: &Environments, context: &ToolContext) -> Self {
        let session_id = context.session_id;
        let outputs = environments.outputs().map(|outputs| SessionOutputs {
            outputs,
            session_id,
        });
        Self {
            outputs,
            skills_off: environments.skills_off(),
            places: context.secret_places.clone(),
            ..Self::default()
        }
    }

    /// Records a write, so that it can be distinguished from concurrent changes.
    pub(crate) fn record_write(&self, written: &FileChange) {
        let before = written.before.as_ref().map(String::as_bytes);
        let own = OwnWrite::new(written.path.clone(), before, written.after.as_bytes());
        lock(&self.writes).push(own);
    }

    /// Masks a text line by line, before it is truncated or split.
    pub(crate) fn masked(&self, text: &str) -> String {
        let masked = secrets::masked(self.places.as_deref(), text.as_bytes());
        String::from_utf8_lossy(&masked).into_owned()
    }
}

/// Sets the cancellation flag on drop.
struct CancelOnDrop(FileCall);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancelled.store(true, Ordering::Relaxed);
    }
}

/// A tool that needs its session and deserializes its arguments into a struct.
#[async_trait]
pub(crate) trait SessionTool: Send + Sync + 'static {
    type Args: DeserializeOwned + Send;
    const NAME: &'static str;

    fn description(&self) -> &str;
    fn schema(&self) -> Value;
    fn hints(&self) -> ToolHints;
    fn policy(&self) -> ToolPolicy {
        ToolPolicy::Auto
    }
    async fn run(&self, args: Self::Args, context: &ToolContext) -> ToolExecutionResult;
}

/// Adapts a session tool to the runtime's interface.
struct SessionToolAdapter<T>(T);

pub(crate) fn session_tool(tool: impl SessionTool) -> Box<dyn Tool> {
    Box::new(SessionToolAdapter(tool))
}

#[async_trait]
impl<T: SessionTool> Tool for SessionToolAdapter<T> {
    fn name(&self) -> &str {
        T::NAME
    }
    fn description(&self) -> &str {
        self.0.description()
    }
    fn parameters_schema(&self) -> Value {
        self.0.schema()
    }
    fn hints(&self) -> ToolHints {
        self.0.hints()
    }
    fn policy(&self) -> ToolPolicy {
        self.0.policy()
    }
    fn requires_context(&self) -> bool {
        true
    }
    async fn execute(&self, arguments: Value) -> ToolExecutionResult {
        self.execute_with_context(arguments, &no_session()).await
    }
    async fn execute_with_context(
        &self,
        arguments: Value,
        context: &ToolContext,
    ) -> ToolExecutionResult {
        match parse_arguments(T::NAME, arguments) {
            Ok(args) => self.0.run(args, context).await,
            Err(refused) => refused,
        }
    }
}

/// Adapts a file tool to a session tool.
struct FileToolAdapter<T> {
    environments: Environments,
    policy: ToolPolicy,
    tool: std::marker::PhantomData<fn() -> T>,
}

pub(crate) fn file_tool<T: FileTool>(
    environments: &Environments,
    policy: ToolPolicy,
) -> Box<dyn Tool> {
    session_tool(FileToolAdapter::<T> {
        environments: environments.clone(),
        policy,
        tool: std::marker::PhantomData,
    })
}

#[async_trait]
impl<T: FileTool> SessionTool for FileToolAdapter<T> {
    type Args = T::Args;
    const NAME: &'static str = T::NAME;

    fn description(&self) -> &str {
        T::DESCRIPTION
    }
    fn schema(&self) -> Value {
        T::schema()
    }
    fn hints(&self) -> ToolHints {
        T::hints()
    }
    fn policy(&self) -> ToolPolicy {
        self.policy
    }
    async fn run(&self, args: T::Args, context: &ToolContext) -> ToolExecutionResult {
        let (environments, turn) = (self.environments.clone(), context.environment.clone());
        let (call, turn_id) = (FileCall::new(&environments, context), turn_of(context));
        let _guard = CancelOnDrop(call.clone());
        let called = tokio::task::spawn_blocking(move || {
            let at = environments.resolve(turn.as_ref());
            let at = Arc::new(at.map_err(|error| error.to_string())?);
            // Ended on the blocking thread and not by the caller: the work continues if the caller stops waiting.
            let checkpoint = match T::hints().readonly {
                Some(true) => None,
                _ => begin_call(&environments, &at, turn_id)?,
            };
            let result = T::run(args, &at, &call).map_err(|error| error.to_string());
            if let Some(checkpoint) = checkpoint {
                let own = std::mem::take(&mut *lock(&call.writes));
                checkpoint.end_with(result.is_ok().then_some(own));
            }
            result
        });
        called
            .await
            .map_or_else(ToolExecutionResult::internal_error, tool_result)
    }
}

/// Converts a call's outcome to its result: the value, or the message of the error.
pub(crate) fn tool_result(outcome: Result<Value, impl Display>) -> ToolExecutionResult {
    match outcome {
        Ok(value) => ToolExecutionResult::success(value),
        Err(error) => ToolExecutionResult::tool_error(error.to_string()),
    }
}

/// Returns the turn of a call, if there is one.
pub(crate) fn turn_of(context: &ToolContext) -> Option<CheckpointedTurn> {
    let turn_id = context.event_context.as_ref()?.turn_id?;
    Some(CheckpointedTurn {
        session_id: context.session_id,
        turn_id,
    })
}

/// The context of a call outside a session.
pub(crate) fn no_session() -> ToolContext {
    ToolContext::new(SessionId::from_uuid(uuid::Uuid::nil()))
}

/// Deserializes the arguments of a call; an error describes the first invalid argument.
fn parse_arguments<T: DeserializeOwned>(
    tool: &str,
    arguments: Value,
) -> Result<T, ToolExecutionResult> {
    let arguments = if arguments.is_null() {
        json!({})
    } else {
        arguments
    };
    serde_json::from_value(arguments).map_err(|error| {
        ToolExecutionResult::tool_error(format!("invalid arguments for `{tool}`: {error}"))
    })
}

/// Returns the schema of an object with exactly these properties.
pub(crate) fn object(properties: Value, required: &[&str]) -> Value {
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false
    })
}

/// The hints of a read-only tool.
pub(crate) fn read_only_hints() -> ToolHints {
    ToolHints::default()
        .with_readonly(true)
        .with_idempotent(true)
        .with_side_effect_class(SideEffectClass::Pure)
}

/// The hints of a tool that changes something.
pub(crate) fn changing_hints(side_effects: SideEffectClass) -> ToolHints {
    ToolHints::default()
        .with_readonly(false)
        .with_concurrency_class(CHANGES)
        .with_idempotent(side_effects == SideEffectClass::Idempotent)
        .with_side_effect_class(side_effects)
}

/// Adds remarks about omitted parts to a result.
pub(crate) fn with_remarks(mut result: Value, remarks: Vec<String>) -> Value {
    if !remarks.is_empty() {
        result["remark"] = Value::String(remarks.join("; "));
    }
    result
}

/// Returns the last character boundary at or before an offset.
pub(crate) fn char_floor(text: &str, offset: usize) -> usize {
    let mut end = offset.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    end
}

/// Truncates a text that is too long to show.
pub(crate) fn truncate_line(text: &str, max_chars: usize) -> String {
    match text.char_indices().nth(max_chars) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
