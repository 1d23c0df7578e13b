//! Requests from an agent for the host's files and terminals.

use std::path::PathBuf;

use serde_json::{Value, json};
use windlass_core::backend::{HostOffers, TerminalRequest};

use crate::json::text;
use crate::protocol::HostOperation;

/// Returns the client capabilities that are advertised to the agent.
pub(super) fn capabilities(offers: HostOffers) -> Value {
    json!({
        "fs": {"readTextFile": offers.read_text, "writeTextFile": offers.write_text},
        "terminal": offers.terminals,
    })
}

/// Why a request is not forwarded to the host.
pub(super) enum HostRequestError {
    /// Unknown method, or the capability was not offered.
    NoSuchMethod,
    /// A field is missing or has the wrong type.
    BadParams,
}

/// Parses a request.
pub(super) fn read(
    method: &str,
    params: &Value,
    offers: HostOffers,
) -> Result<HostOperation, HostRequestError> {
    let is_offered = match method {
        "fs/read_text_file" => offers.read_text,
        "fs/write_text_file" => offers.write_text,
        "terminal/create"
        | "terminal/output"
        | "terminal/wait_for_exit"
        | "terminal/kill"
        | "terminal/release" => offers.terminals,
        _ => false,
    };
    if !is_offered {
        return Err(HostRequestError::NoSuchMethod);
    }
    operation(method, params).ok_or(HostRequestError::BadParams)
}

fn operation(method: &str, params: &Value) -> Option<HostOperation> {
    let path = || text(params, "path").map(PathBuf::from);
    let terminal = || text(params, "terminalId").map(str::to_owned);
    let number = |field: &str| params[field].as_u64();
    match method {
        "fs/read_text_file" => Some(HostOperation::Read {
            path: path()?,
            line: number("line"),
            limit: number("limit"),
        }),
        "fs/write_text_file" => Some(HostOperation::Write {
            path: path()?,
            text: text(params, "content")?.to_owned(),
        }),
        "terminal/create" => Some(HostOperation::StartTerminal(TerminalRequest {
            command: text(params, "command")?.to_owned(),
            arguments: arguments(params.get("args"))?,
            variables: list(params.get("env"))?
                .iter()
                .map(|pair| {
                    Some((
                        text(pair, "name")?.to_owned(),
                        text(pair, "value")?.to_owned(),
                    ))
                })
                .collect::<Option<_>>()?,
            cwd: text(params, "cwd").map(PathBuf::from),
            max_output_bytes: number("outputByteLimit"),
        })),
        "terminal/output" => Some(HostOperation::TerminalOutput(terminal()?)),
        "terminal/wait_for_exit" => Some(HostOperation::WaitForTerminal(terminal()?)),
        "terminal/kill" => Some(HostOperation::KillTerminal(terminal()?)),
        "terminal/release" => Some(HostOperation::ReleaseTerminal(terminal()?)),
        _ => None,
    }
}

fn arguments(value: Option<&Value>) -> Option<Vec<String>> {
    let texts = list(value)?
        .iter()
        .map(|word| word.as_str().map(str::to_owned));
    texts.collect()
}

/// Returns an optional array as a slice (empty if absent); `None` for any other type.
fn list(value: Option<&Value>) -> Option<&[Value]> {
    match value {
        None | Some(Value::Null) => Some(&[]),
        Some(value) => value.as_array().map(Vec::as_slice),
    }
}
