//! Parses request bodies. An error names the field by its JSON pointer; undeclared fields are returned.

use crate::operations::threads::thread_record::PERMISSION_FIELDS;
use serde::de::DeserializeOwned;
use serde_ignored::Path;
use serde_json::{Map, Value};
use windlass_core::bounds::{MAX_JSON_DEPTH, is_shallow_text};
use windlass_protocol::ErrorCode;

use crate::error::{ApiError, Result};

/// Fields of a body that its type does not declare, as JSON pointers.
#[derive(Debug, Default)]
pub struct UnknownFields(Vec<String>);

impl UnknownFields {
    /// Returns the top-level names, as the client wrote them.
    pub fn top_level(&self) -> impl Iterator<Item = String> {
        let names = self
            .0
            .iter()
            .filter_map(|pointer| pointer.strip_prefix('/'));
        let names = names.filter(|name| !name.contains('/'));
        names.map(|name| name.replace("~1", "/").replace("~0", "~"))
    }

    /// Rejects a body with an unknown field, except below fields with these names.
    pub fn refuse(&self, open: &[&str]) -> Result<()> {
        let is_closed = |pointer: &&String| {
            let mut parents = pointer.split('/').rev().skip(1);
            !parents.any(|name| open.contains(&name))
        };
        match self.0.iter().find(is_closed) {
            Some(pointer) => {
                let text = "the field is unknown here, and nothing would obey it";
                Err(ApiError::field(pointer, text.to_owned()))
            }
            None => Ok(()),
        }
    }

    /// Rejects unknown fields that look like a limit of a task: they would have no effect.
    pub fn refuse_limits(&self) -> Result<()> {
        match self
            .top_level()
            .find(|name| LIMITS.contains(&name.as_str()))
        {
            Some(name) => {
                let text = format!(
                    "`{name}` does not limit a task; use the budgets of the daemon or of the token, {PERMISSION_FIELDS}"
                );
                Err(ApiError::field(&format!("/{name}"), text))
            }
            None => Ok(()),
        }
    }
}

/// Limits of a task in other programs.
const LIMITS: &[&str] = &[
    "allowed_tools",
    "budget",
    "deadline",
    "disallowed_tools",
    "timeout",
    "timeout_ms",
    "timeout_seconds",
    "tools",
    "writable_paths",
];

/// Parses the JSON object of a body; also returns the fields that its type does not declare.
///
/// # Errors
/// The body is not a JSON object, is nested too deep, or a field has the wrong type.
pub fn read_body<T: DeserializeOwned>(bytes: &[u8]) -> Result<(T, UnknownFields)> {
    if !is_shallow_text(bytes) {
        let text = format!("the body is nested more than {MAX_JSON_DEPTH} deep");
        return Err(ApiError::new(ErrorCode::InvalidJson, text));
    }
    let value: Value = serde_json::from_slice(bytes).map_err(|error| {
        let text = format!("the body is not JSON: {error}");
        ApiError::new(ErrorCode::InvalidJson, text)
    })?;
    match value {
        Value::Object(fields) => read(fields),
        _ => Err(ApiError::field("", "the body must be an object")),
    }
}

/// Parses an object; also returns the fields that its type does not declare.
pub(crate) fn read<T: DeserializeOwned>(fields: Map<String, Value>) -> Result<(T, UnknownFields)> {
    let mut unknown = Vec::new();
    let mut track = serde_path_to_error::Track::new();
    let body = Value::Object(fields);
    let tracked = serde_path_to_error::Deserializer::new(body, &mut track);
    let read = serde_ignored::deserialize(tracked, |path| unknown.push(pointer(&path)));
    let read = read.map_err(|error: serde_json::Error| {
        let path = track.path().to_string();
        let mut pointer = match path.as_str() {
            "." => String::new(),
            path => format!("/{}", path.replace(['.', '['], "/").replace(']', "")),
        };
        let text = error.to_string();
        // serde names a missing field only in its message.
        let missing = text.strip_prefix("missing field `");
        if let Some(name) = missing.and_then(|rest| rest.split('`').next()) {
            pointer = format!("{pointer}/{name}");
        }
        ApiError::field(&pointer, text)
    })?;
    Ok((read, UnknownFields(unknown)))
}

/// Formats a path as a JSON pointer.
fn pointer(path: &Path<'_>) -> String {
    match path {
        Path::Root => String::new(),
        Path::Seq { parent, index } => format!("{}/{index}", pointer(parent)),
        Path::Map { parent, key } => {
            let key = key.replace('~', "~0").replace('/', "~1");
            format!("{}/{key}", pointer(parent))
        }
        Path::Some { parent }
        | Path::NewtypeStruct { parent }
        | Path::NewtypeVariant { parent } => pointer(parent),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use windlass_protocol::SteerTurn;

    use super::*;

    #[test]
    fn unknown_field_is_named_as_written_and_refused_by_its_pointer() {
        let Value::Object(body) = json!({"prompt": "x", "a/b~c": 1}) else {
            unreachable!();
        };
        let (_, unknown) = read::<SteerTurn>(body).unwrap();
        assert_eq!(unknown.top_level().collect::<Vec<_>>(), ["a/b~c"]);
        let refused = unknown.refuse(&[]).unwrap_err();
        assert_eq!(refused.pointer(), Some("/a~1b~0c"));
    }
}
