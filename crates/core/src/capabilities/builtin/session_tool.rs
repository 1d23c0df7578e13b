//! Common code of the built-in tools.

use std::sync::Arc;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub(super) use crate::session_tool::{
    SessionTool, ToolFailure, fail, object, session_tool as boxed,
};
use crate::tools::{SideEffectClass, ToolHints};
use crate::traits::{SessionFileSystem, ToolContext};

/// The arguments of a tool that takes none.
#[derive(Deserialize)]
pub(super) struct NoArguments {}

/// The hints of a tool that changes nothing.
pub(super) fn reads() -> ToolHints {
    ToolHints::default()
        .with_readonly(true)
        .with_side_effect_class(SideEffectClass::Pure)
}

/// The hints of a tool that changes something; calls of one class run in order.
pub(super) fn writes(class: &str, side_effects: SideEffectClass) -> ToolHints {
    ToolHints::default()
        .with_readonly(false)
        .with_concurrency_class(class)
        .with_idempotent(side_effects == SideEffectClass::Idempotent)
        .with_side_effect_class(side_effects)
}

/// Returns a service of the host, or an error if the host does not offer it.
pub(super) fn offered<'a, T: ?Sized>(
    part: &'a Option<Arc<T>>,
    what: &str,
) -> Result<&'a Arc<T>, ToolFailure> {
    part.as_ref()
        .map_or_else(|| fail(format!("this host offers no {what}")), Ok)
}

/// Returns the session's files.
pub(super) fn files(ctx: &ToolContext) -> Result<&Arc<dyn SessionFileSystem>, ToolFailure> {
    offered(&ctx.file_store, "session files")
}

/// Reads a capability's configuration; `null` is the default.
pub(super) fn config<T: DeserializeOwned + Default>(config: &Value) -> Result<T, String> {
    if config.is_null() {
        return Ok(T::default());
    }
    T::deserialize(config).map_err(|error| error.to_string())
}
