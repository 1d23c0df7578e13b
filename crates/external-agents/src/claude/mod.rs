//! Claude Code over stream-json on standard input and output.

mod permission;
mod protocol;
mod result;

use std::ffi::OsString;

use windlass_core::backend::{BackendError, BackendErrorKind, BackendSpec, SessionChoice};

use crate::backend::Invocation;

pub use protocol::Claude;

pub(crate) const PROGRAM: &str = "claude";
pub(crate) const HOW_TO_INSTALL: &str =
    "install it with `npm install -g @anthropic-ai/claude-code`";
/// Starts a process that accepts one turn after another, streams text and requests permissions. Only the user's settings apply: without a terminal,
/// Claude Code does not ask whether to trust a repository, and repository settings can name programs to run.
const ARGUMENTS: &[&str] = &[
    "-p",
    "--input-format",
    "stream-json",
    "--output-format",
    "stream-json",
    "--verbose",
    "--include-partial-messages",
    "--permission-prompt-tool",
    "stdio",
    "--setting-sources",
    "user",
    "--strict-mcp-config",
    "--permission-mode",
    "default",
];

pub(crate) fn invocation(spec: &BackendSpec) -> Result<Invocation, BackendError> {
    if let Some(id) = spec.session.id()
        && uuid::Uuid::parse_str(id).is_err()
    {
        let message = format!("`{id}` is not a UUID, which Claude Code requires as a session ID");
        return Err(BackendError::new(BackendErrorKind::BadInvocation, message));
    }
    let protocol = Claude::new(spec.session.clone(), spec.totals);
    Ok((arguments(spec), Box::new(protocol)))
}

fn arguments(spec: &BackendSpec) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = ARGUMENTS.iter().map(Into::into).collect();
    match &spec.session {
        SessionChoice::New { id: Some(id) } => {
            arguments.extend(["--session-id".into(), id.into()]);
        }
        SessionChoice::New { id: None } => {}
        SessionChoice::Resume { id } => arguments.extend(["--resume".into(), id.into()]),
    }
    if let Some(model) = &spec.model {
        arguments.extend(["--model".into(), model.into()]);
    }
    arguments.extend(spec.arguments.iter().map(Into::into));
    arguments
}
