//! What the tools here have in common: arguments as a struct, work on an open workspace, failures as a value.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use windlass_core::tools::{SideEffectClass, Tool, ToolExecutionResult, ToolHints, ToolPolicy};
use windlass_core::traits::{SecretPlaces, ToolContext};
use windlass_core::typed_id::SessionId;

use crate::checkpoint::{ChangingTurn, OwnWrite, changing_now};
use crate::environments::Environments;
use crate::outputs::SessionOutputs;
use crate::secrets;
use crate::workspace::{FileError, ResolvedWorkspace, Written};

/// Calls of this class run one after the other: what changes files, and commands, which may.
pub(crate) const CHANGES: &str = "workspace";

/// A tool that works on files.
pub(crate) trait FileTool: Send + Sync + 'static {
    type Args: DeserializeOwned + Send + 'static;
    const NAME: &'static str;
    const DESCRIPTION: &'static str;

    fn schema() -> Value;
    fn hints() -> ToolHints;
    /// Carries a call out, where blocking does no harm.
    fn run(args: Self::Args, at: &ResolvedWorkspace, call: &Call) -> Result<Value, FileError>;
}

/// What a call knows beside its arguments.
#[derive(Clone, Default)]
pub(crate) struct Call {
    /// What a long call looks at to see whether anybody still wants it.
    pub(crate) cancelled: Arc<AtomicBool>,
    /// The outputs that were too long to show, if they are kept.
    pub(crate) outputs: Option<SessionOutputs>,
    /// Skills of repositories that are switched off.
    pub(crate) skills_off: Arc<BTreeSet<String>>,
    /// The secrets that may not be shown.
    pub(crate) places: Option<Arc<dyn SecretPlaces>>,
    /// What it has written.
    wrote: Arc<Mutex<Vec<OwnWrite>>>,
}

impl Call {
    fn of(environments: &Environments, context: &ToolContext) -> Self {
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
}

impl Call {
    /// Notes what was written, so that it can be told from what others do meanwhile.
    pub(crate) fn note(&self, written: &Written) {
        let before = written.before.as_ref().map(String::as_bytes);
        let own = OwnWrite::new(written.path.clone(), before, written.after.as_bytes());
        self.lock_wrote().push(own);
    }

    /// Masks a text line by line, before it is cut or taken apart.
    pub(crate) fn masked(&self, text: &str) -> String {
        let masked = secrets::masked(self.places.as_deref(), text.as_bytes());
        String::from_utf8_lossy(&masked).into_owned()
    }

    fn lock_wrote(&self) -> MutexGuard<'_, Vec<OwnWrite>> {
        self.wrote.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Says that nobody wants the result any more.
struct CancelOnDrop(Call);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancelled.store(true, Ordering::Relaxed);
    }
}

/// A tool that works on files, for the runtime.
pub(crate) struct Adapted<T> {
    environments: Environments,
    policy: ToolPolicy,
    tool: std::marker::PhantomData<fn() -> T>,
}

pub(crate) fn boxed<T: FileTool>(environments: &Environments, policy: ToolPolicy) -> Box<dyn Tool> {
    Box::new(Adapted::<T> {
        environments: environments.clone(),
        policy,
        tool: std::marker::PhantomData,
    })
}

#[async_trait]
impl<T: FileTool> Tool for Adapted<T> {
    fn name(&self) -> &str {
        T::NAME
    }
    fn description(&self) -> &str {
        T::DESCRIPTION
    }
    fn parameters_schema(&self) -> Value {
        T::schema()
    }
    fn hints(&self) -> ToolHints {
        T::hints()
    }
    fn policy(&self) -> ToolPolicy {
        self.policy
    }
    fn requires_context(&self) -> bool {
        true
    }
    async fn execute(&self, arguments: Value) -> ToolExecutionResult {
        self.execute_with_context(arguments, &nowhere()).await
    }
    async fn execute_with_context(
        &self,
        arguments: Value,
        context: &ToolContext,
    ) -> ToolExecutionResult {
        let args: T::Args = match arguments_of(T::NAME, arguments) {
            Ok(args) => args,
            Err(told) => return told,
        };
        let (environments, turn) = (self.environments.clone(), context.environment.clone());
        let (call, of) = (Call::of(&environments, context), turn_of(context));
        let _guard = CancelOnDrop(call.clone());
        let done = tokio::task::spawn_blocking(move || {
            let at = environments.resolve(turn.as_ref());
            let at = Arc::new(at.map_err(|error| error.to_string())?);
            // Ended here and not by who waits: the work goes on when nobody does.
            let changing = match T::hints().readonly {
                Some(true) => None,
                _ => changing_now(&environments, &at, of)?,
            };
            let done = T::run(args, &at, &call).map_err(|error| error.to_string());
            if let Some(changing) = changing {
                let own = std::mem::take(&mut *call.lock_wrote());
                changing.end_with(done.is_ok().then_some(own));
            }
            done
        });
        match done.await {
            Ok(Ok(value)) => ToolExecutionResult::success(value),
            Ok(Err(told)) => ToolExecutionResult::tool_error(told),
            Err(error) => ToolExecutionResult::internal_error(error),
        }
    }
}

/// Returns the turn that calls, if there is one.
pub(crate) fn turn_of(context: &ToolContext) -> Option<ChangingTurn> {
    let turn_id = context.event_context.as_ref()?.turn_id?;
    Some(ChangingTurn {
        session_id: context.session_id,
        turn_id,
    })
}

/// The context of a call outside of any session.
pub(crate) fn nowhere() -> ToolContext {
    ToolContext::new(SessionId::from_uuid(uuid::Uuid::nil()))
}

/// Reads the arguments of a call, or says what is wrong with them.
pub(crate) fn arguments_of<T: DeserializeOwned>(
    tool: &str,
    arguments: Value,
) -> Result<T, ToolExecutionResult> {
    let arguments = match arguments {
        Value::Null => json!({}),
        arguments => arguments,
    };
    serde_json::from_value(arguments).map_err(|error| {
        ToolExecutionResult::tool_error(format!("invalid arguments for `{tool}`: {error}"))
    })
}

/// The schema of an object that takes these properties and no others.
pub(crate) fn object(properties: Value, required: &[&str]) -> Value {
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false
    })
}

/// The hints of a tool that only looks.
pub(crate) fn reads() -> ToolHints {
    ToolHints::default()
        .with_readonly(true)
        .with_idempotent(true)
        .with_side_effect_class(SideEffectClass::Pure)
}

/// The hints of a tool that changes something.
pub(crate) fn changes(side_effects: SideEffectClass) -> ToolHints {
    ToolHints::default()
        .with_readonly(false)
        .with_concurrency_class(CHANGES)
        .with_idempotent(side_effects == SideEffectClass::Idempotent)
        .with_side_effect_class(side_effects)
}

/// Puts what was left out into a result.
pub(crate) fn with_remarks(mut result: Value, remarks: Vec<String>) -> Value {
    if !remarks.is_empty() {
        result["remark"] = Value::String(remarks.join("; "));
    }
    result
}

/// Returns the beginning of a line that is too long to show.
pub(crate) fn cut_line(line: &str, max_chars: usize) -> String {
    match line.char_indices().nth(max_chars) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}
