//! Common parts of the tools: arguments as a struct, work on an open workspace, errors as a value.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use serde::de::DeserializeOwned;
use serde_json::Value;
use windlass_core::error::AgentLoopError;
pub(crate) use windlass_core::session_tool::object;
use windlass_core::session_tool::{SessionTool, ToolFailure, session_tool};
use windlass_core::tools::{SideEffectClass, Tool, ToolHints, ToolPolicy};
use windlass_core::traits::{SecretPlaces, ToolContext};

use crate::checkpoint::{CheckpointedTurn, OwnWrite, begin_call};
use crate::environments::Environments;
use crate::outputs::SessionOutputs;
use crate::secrets;
use crate::workspace::{FileChange, FileError, ResolvedWorkspace};
use windlass_core::lock::lock;

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
    const DESCRIPTION: &'static str = T::DESCRIPTION;

    fn schema(&self) -> Value {
        T::schema()
    }
    fn hints(&self) -> ToolHints {
        T::hints()
    }
    fn policy(&self) -> ToolPolicy {
        self.policy
    }
    async fn run(&self, args: T::Args, context: &ToolContext) -> Result<Value, ToolFailure> {
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
        let called = called
            .await
            .map_err(|error| AgentLoopError::Internal(error.into()))?;
        called.map_err(ToolFailure::Error)
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
