//! The parameters of one turn, apart from model, language and reasoning effort.
//!
//! They are part of the input and recorded with it, so that a resumed, replayed or retried turn uses the same values. An unreadable field makes the
//! record unreadable: without it the turn would have more rights than before.

use std::collections::HashMap;

use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use windlass_macros::omit_none;

use crate::bounds::{SchemaCost, json_bytes, schema_cost};
use crate::budget::Budgets;
use crate::llm_driver_registry::{MAX_OUTPUT_SCHEMA_BYTES, OutputSchema};
use crate::message::{Controls, InputMessage, Message};
use crate::tool_types::{BuiltinTool, ClientSideTool, ToolDefinition, ToolPolicy};
use crate::turn_environment::TurnEnvironment;
use crate::typed_id::{ExecId, SessionId, TurnId};

/// The parameters of one turn.
#[omit_none]
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TurnRequest {
    /// The name of another model of the same provider, instead of the resolved one.
    pub model: Option<String>,
    /// Additional system prompt for this turn.
    pub system_prompt: Option<String>,
    /// Additional tools that the client executes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ClientSideTool>,
    /// The only tools of the turn, by name or glob; `None` is all.
    pub allowed_tools: Option<Vec<String>>,
    /// Tools that the turn does not have, by name or glob.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub disallowed_tools: Vec<String>,
    /// Whether calls that need an approval run without one.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub approve_all: bool,
    /// Whether the turn fails if the model produces no text, no reasoning and no call.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub needs_output: bool,
    /// Whether the turn ends, instead of resuming, after its process was lost.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub interrupt_on_restart: bool,
    /// The environment in which its tools run; `None` leaves the choice to the tools.
    pub environment: Option<TurnEnvironment>,
    /// A summary of the input, if the caller supplies one.
    pub input_summary: Option<String>,
    /// Metadata on the records that begin and end the turn.
    pub labels: Option<TurnLabels>,
    /// Name of the external agent that executes the turn. An unknown name rejects the turn.
    pub backend: Option<String>,
    /// The turn's owner, if it is not the operator. The turn's stored results are separate from those of other owners.
    pub owner: Option<String>,
    /// Limits of the turn and its thread, if stricter than the host's.
    pub budgets: Option<Budgets>,
    /// The JSON Schema that the final answer must match. The model gets one attempt to repair an answer that does not.
    pub output_schema: Option<OutputSchema>,
    /// The parent turn. The child shares its budgets and ends with it.
    pub parent: Option<ParentTurn>,
}

/// The parent of a subagent's turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ParentTurn {
    pub session_id: SessionId,
    pub turn_id: TurnId,
    /// The call that started the subagent.
    pub exec_id: ExecId,
    /// The session of the root turn, which has no parent turn.
    pub root_session_id: SessionId,
    pub root_turn_id: TurnId,
    /// The number of ancestors: 1 for a child of the root turn.
    pub depth: u32,
}

/// Labels that a caller sets on the records that begin and end its turn.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(from = "StoredLabels")]
pub struct TurnLabels {
    /// The caller's name of the provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct StoredLabels {
    provider: Option<String>,
    /// Earlier versions recorded a digest of the request.
    #[serde(rename = "request_digest")]
    _request_digest: IgnoredAny,
}

impl From<StoredLabels> for TurnLabels {
    fn from(StoredLabels { provider, .. }: StoredLabels) -> Self {
        Self { provider }
    }
}

/// Why an input cannot start a turn.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnusableRequest {
    /// The message stores a part of the request in the format of an earlier version. Ignoring it would give the turn more rights, so it is rejected.
    #[error("`{0}` is no longer supported; use the typed request of the turn (`controls.turn`)")]
    OldFormat(&'static str),
    /// The path of the environment's directory is not valid UTF-8.
    #[error("the directory of the environment is not valid UTF-8: {0}")]
    Directory(String),
    /// The schema of the answer is too large, or the cost of validating an answer is unbounded.
    #[error("the output schema is not usable: {0}")]
    OutputSchema(&'static str),
}

/// Where earlier versions stored the parts of a request: in the hints of the controls, and in the metadata.
const OLD_HINTS: [&str; 2] = ["turn_wishes", "turn_environment"];
const OLD_METADATA: [&str; 1] = ["turn_labels"];

type OptionalValues = Option<HashMap<String, Value>>;

fn check_names(values: &OptionalValues, old: &[&'static str]) -> Result<(), UnusableRequest> {
    let Some(values) = values else { return Ok(()) };
    let found = old.iter().find(|name| values.contains_key(**name));
    found.map_or(Ok(()), |name| Err(UnusableRequest::OldFormat(name)))
}

/// Reads hints; refuses those that contain a request of an earlier version.
pub(crate) fn read_hints<'de, D: Deserializer<'de>>(hints: D) -> Result<OptionalValues, D::Error> {
    let hints = OptionalValues::deserialize(hints)?;
    check_names(&hints, &OLD_HINTS).map_err(serde::de::Error::custom)?;
    Ok(hints)
}

/// Reads metadata; refuses those that contain labels of an earlier version.
pub(crate) fn read_metadata<'de, D: Deserializer<'de>>(
    metadata: D,
) -> Result<OptionalValues, D::Error> {
    let metadata = OptionalValues::deserialize(metadata)?;
    check_names(&metadata, &OLD_METADATA).map_err(serde::de::Error::custom)?;
    Ok(metadata)
}

fn check(controls: Option<&Controls>, metadata: &OptionalValues) -> Result<(), UnusableRequest> {
    check_names(metadata, &OLD_METADATA)?;
    controls.map_or(Ok(()), Controls::check_turn_request)
}

/// Checks the size and cost of a client's schema. The runtime checks its validity.
///
/// # Errors
/// [`UnusableRequest::OutputSchema`].
pub fn check_output_schema(schema: &Value) -> Result<(), UnusableRequest> {
    let why = if !schema.is_object() {
        "it must be a JSON object"
    } else if json_bytes(schema) > MAX_OUTPUT_SCHEMA_BYTES {
        "it has more than 64 KiB"
    } else {
        match schema_cost(schema) {
            SchemaCost::Parts(_) => return Ok(()),
            SchemaCost::TooLarge => {
                "it is nested too deep, or has too many or too expensive parts once its references are followed"
            }
            SchemaCost::Unknown => {
                "a reference leads to itself or out of the schema, or it uses `$dynamicRef`, `unevaluatedProperties`, `unevaluatedItems` or a nested `$id`"
            }
        }
    };
    Err(UnusableRequest::OutputSchema(why))
}

impl Controls {
    /// Refuses controls whose request cannot be recorded or would be ignored.
    pub fn check_turn_request(&self) -> Result<(), UnusableRequest> {
        check_names(&self.hints, &OLD_HINTS)?;
        let turn = self.turn.as_ref();
        if let Some(output) = turn.and_then(|turn| turn.output_schema.as_ref()) {
            check_output_schema(&output.schema)?;
        }
        match turn.and_then(|turn| turn.environment.as_ref()) {
            Some(TurnEnvironment { cwd, .. }) if cwd.to_str().is_none() => {
                Err(UnusableRequest::Directory(cwd.display().to_string()))
            }
            _ => Ok(()),
        }
    }
}

impl InputMessage {
    /// Returns the parameters of the input's turn.
    #[must_use]
    pub fn turn_request(&self) -> Option<&TurnRequest> {
        self.controls.as_ref()?.turn.as_deref()
    }

    /// Sets the parameters of the input's turn.
    #[must_use]
    pub fn with_turn_request(mut self, request: TurnRequest) -> Self {
        self.controls.get_or_insert_default().turn = Some(Box::new(request));
        self
    }

    /// Refuses an input whose request cannot be recorded or would be ignored.
    pub fn check_turn_request(&self) -> Result<(), UnusableRequest> {
        check(self.controls.as_ref(), &self.metadata)
    }
}

impl Message {
    /// Returns the parameters of the turn that the message started.
    #[must_use]
    pub fn turn_request(&self) -> Option<&TurnRequest> {
        self.controls.as_ref()?.turn.as_deref()
    }

    /// Refuses a message whose request cannot be recorded or would be ignored.
    pub fn check_turn_request(&self) -> Result<(), UnusableRequest> {
        check(self.controls.as_ref(), &self.metadata)
    }
}

impl TurnRequest {
    /// Applies the request to the offered tools: adds, removes and changes them.
    #[must_use]
    pub fn apply(&self, mut offered: Vec<ToolDefinition>) -> Vec<ToolDefinition> {
        for tool in &self.tools {
            let known = offered.iter_mut().find(|known| known.name() == tool.name);
            let tool = ToolDefinition::ClientSide(tool.clone());
            match known {
                Some(known) => *known = tool,
                None => offered.push(tool),
            }
        }
        offered.retain(|tool| self.wants(tool));
        if self.approve_all {
            offered.iter_mut().for_each(approve);
        }
        offered
    }

    /// Tells whether tools of this name are excluded.
    #[must_use]
    pub fn disallows(&self, name: &str) -> bool {
        let mut patterns = self.disallowed_tools.iter();
        patterns.any(|pattern| matches(pattern, name))
    }

    fn wants(&self, tool: &ToolDefinition) -> bool {
        let names = |patterns: &[String]| {
            patterns.iter().any(|pattern| {
                matches(pattern, tool.name())
                    || tool
                        .display_name()
                        .is_some_and(|name| matches(pattern, name))
            })
        };
        self.allowed_tools.as_deref().is_none_or(names) && !names(&self.disallowed_tools)
    }
}

fn approve(tool: &mut ToolDefinition) {
    if let ToolDefinition::Builtin(BuiltinTool { policy, .. }) = tool
        && *policy == ToolPolicy::RequiresApproval
    {
        *policy = ToolPolicy::Auto;
    }
}

/// Matches a name against a pattern: `*` matches any text and `?` one character.
fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), name.chars().collect());
    let (mut p, mut n) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(c) if *c == '?' || *c == name[n] => {
                p += 1;
                n += 1;
            }
            _ => match star {
                Some((at, from)) => {
                    star = Some((at, from + 1));
                    (p, n) = (at + 1, from + 1);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tool(name: &str, display_name: Option<&str>) -> ClientSideTool {
        ClientSideTool {
            name: name.to_owned(),
            display_name: display_name.map(str::to_owned),
            parameters: json!({"type": "object"}),
            ..ClientSideTool::default()
        }
    }

    #[test]
    fn patterns_match_whole_names() {
        for (pattern, name, fits) in [
            ("shell", "shell", true),
            ("shell", "shell2", false),
            ("tau::*", "tau::get", true),
            ("*", "", true),
            ("*a*b", "xxaxxb", true),
            ("*a*b", "xxaxxbc", false),
            ("f?o", "foo", true),
            ("f?o", "fo", false),
        ] {
            assert_eq!(matches(pattern, name), fits, "{pattern} {name}");
        }
    }

    #[test]
    fn allowed_tools_match_names_and_display_names() {
        let request = TurnRequest {
            tools: vec![tool("tau__get", Some("tau::get")), tool("other", None)],
            allowed_tools: Some(vec!["tau::*".to_owned(), "shell".to_owned()]),
            disallowed_tools: vec!["shell".to_owned()],
            ..TurnRequest::default()
        };
        let of_agent = |name: &str| ToolDefinition::ClientSide(tool(name, None));
        let offered = request.apply(vec![of_agent("shell"), of_agent("files")]);
        let names: Vec<_> = offered.iter().map(ToolDefinition::name).collect();
        assert_eq!(names, ["tau__get"]);
    }

    fn full_request() -> Value {
        json!({
            "model": "m", "system_prompt": "p", "allowed_tools": ["a"], "disallowed_tools": ["b"], "approve_all": true,
            "needs_output": true, "interrupt_on_restart": true, "input_summary": "s",
            "tools": [{"name": "t", "description": "", "parameters": {}, "deferrable": "automatic"}],
            "environment": {"environment_id": "local", "cwd": "/srv", "write": false, "shell": false},
            "labels": {"provider": "p"}, "backend": "b",
            "output_schema": {"name": "answer", "schema": {"type": "object"}},
            "budgets": {"turn": {"tokens": 1}, "thread": {"micro_usd": 2}},
            "parent": {
                "session_id": SessionId::from_seed(1), "turn_id": TurnId::from_seed(2), "exec_id": ExecId::from_seed(3),
                "root_session_id": SessionId::from_seed(4), "root_turn_id": TurnId::from_seed(5), "depth": 1,
            },
        })
    }

    #[test]
    fn request_round_trips() {
        let request: TurnRequest = serde_json::from_value(full_request()).unwrap();
        assert_eq!(serde_json::to_value(&request).unwrap(), full_request());
        let nothing = TurnRequest::default();
        assert_eq!(serde_json::to_value(&nothing).unwrap(), json!({}));
    }

    #[test]
    fn labels_with_the_digest_of_an_earlier_version_are_readable() {
        let stored = json!({"provider": "p", "request_digest": "d"});
        let labels: TurnLabels = serde_json::from_value(stored).unwrap();
        assert_eq!(
            serde_json::to_value(&labels).unwrap(),
            json!({"provider": "p"})
        );
        let unknown = serde_json::from_value::<TurnLabels>(json!({"other": 1}));
        assert!(unknown.is_err());
    }

    #[test]
    fn unreadable_field_is_an_error() {
        let names: Vec<String> = full_request()
            .as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect();
        for name in &names {
            for hostile in [json!(7), json!({"x": []}), json!([[]])] {
                let mut request = full_request();
                request[name] = hostile;
                let read = serde_json::from_value::<TurnRequest>(request.clone());
                assert!(read.is_err(), "{request}");
            }
        }
        for pointer in [
            "",
            "/environment",
            "/labels",
            "/tools/0",
            "/budgets",
            "/budgets/turn",
            "/parent",
            "/output_schema",
        ] {
            let mut request = full_request();
            request.pointer_mut(pointer).unwrap()["of_a_newer_version"] = json!(true);
            let read = serde_json::from_value::<TurnRequest>(request);
            let error = read.unwrap_err().to_string();
            assert!(error.contains("of_a_newer_version"), "{error}");
        }
        for missing in ["write", "shell", "cwd", "environment_id"] {
            let mut request = full_request();
            let environment = request["environment"].as_object_mut().unwrap();
            environment.remove(missing);
            let error = serde_json::from_value::<TurnRequest>(request).unwrap_err();
            assert!(error.to_string().contains(missing), "{error}");
        }
    }

    #[test]
    fn request_in_an_old_format_is_refused() {
        for (field, name) in [
            ("hints", "turn_wishes"),
            ("hints", "turn_environment"),
            ("metadata", "turn_labels"),
        ] {
            let mut input = serde_json::to_value(InputMessage::user("hello")).unwrap();
            let old = json!({ name: {} });
            match field {
                "hints" => input["controls"] = json!({ "hints": old }),
                _ => input[field] = old,
            }
            let error = serde_json::from_value::<InputMessage>(input.clone()).unwrap_err();
            assert!(error.to_string().contains(name), "{error}");

            let mut built = InputMessage::user("hello");
            let old = Some(HashMap::from([(name.to_owned(), json!({}))]));
            match field {
                "hints" => built.controls.get_or_insert_default().hints = old,
                _ => built.metadata = old,
            }
            assert_eq!(
                built.check_turn_request(),
                Err(UnusableRequest::OldFormat(name))
            );
        }
    }

    #[cfg(unix)]
    #[test]
    fn directory_that_is_not_utf8_is_refused() {
        use std::os::unix::ffi::OsStrExt;
        let cwd = std::ffi::OsStr::from_bytes(b"/srv/\xff");
        let request = TurnRequest {
            environment: Some(TurnEnvironment::new("local", cwd)),
            ..TurnRequest::default()
        };
        let input = InputMessage::user("hello").with_turn_request(request);
        assert!(matches!(
            input.check_turn_request(),
            Err(UnusableRequest::Directory(_))
        ));
    }
}
