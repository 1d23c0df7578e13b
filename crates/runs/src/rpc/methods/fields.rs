//! Unknown fields of `runs.*`: refused by name, or listed in the response for clients of the original protocol.

use serde_json::{Map, Value, json};

use crate::rpc::connection::Connection;
use crate::rpc::error::RpcError;

pub(super) type JsonObject = Map<String, Value>;

const TURN: &[&str] = &[
    "prompt",
    "tool",
    "parameters",
    "output",
    "cli_outcome",
    "verifier_verdict",
    "policy_rejected",
    // Traces include this field in a turn.
    "index",
    "record",
];
const MODEL_TURN: &[&str] = &[
    "run_id",
    "turn_index",
    "assistant_text",
    "requested_tool_calls",
    "model_id",
    "token_usage",
    "duration_ms",
    "error",
    "recorded_at",
    "index",
    "record",
];
const START: &[&str] = &[
    "intent",
    "agent_id",
    "agent_name",
    "outcome_description",
    "idempotency_key",
];
const COMPLETE: &[&str] = &["run_id", "outcome"];
const RECORD_TURNS: &[&str] = &["run_id", "turns"];
const LIST: &[&str] = &["agent_id", "status", "cursor", "limit"];
const PAGES: &[&str] = &["run_id", "cursor", "limit"];
const UNSUBSCRIBE: &[&str] = &["run_id"];
const OUTCOME: &[&str] = &["status", "summary", "evidence", "metrics", "timestamp"];
const EVIDENCE: &[&str] = &["kind", "description", "data"];
const METRICS: &[&str] = &[
    "turns",
    "tool_calls",
    "duration_ms",
    "retries",
    "actions_succeeded",
    "actions_failed",
];

/// Common wrong names, and the fields that they mean.
const COMMON_MISTAKES: &[(&str, &str)] = &[
    ("result", "output"),
    ("response", "assistant_text"),
    ("text", "assistant_text"),
    ("content", "assistant_text"),
    ("model", "model_id"),
    ("usage", "token_usage"),
    ("tool_calls", "requested_tool_calls"),
    ("name", "tool"),
    ("tool_name", "tool"),
    ("arguments", "parameters"),
    ("input", "parameters"),
    ("goal", "intent"),
    ("agent", "agent_id"),
];

/// An unknown field.
struct UnknownField {
    path: String,
    known: &'static [&'static str],
}

/// Checks for unknown fields. Returns the names of the ignored ones, for the response.
pub(super) fn check(
    connection: &Connection,
    method: &str,
    params: &JsonObject,
) -> Result<Vec<String>, RpcError> {
    let mut unknown = Vec::new();
    collect_unknown(method, params, &mut unknown);
    // Clients of the original protocol send arbitrary fields with these two methods and do not identify themselves.
    let is_free = matches!(method, "runs.start" | "runs.complete");
    match unknown.first() {
        Some(first) if !is_free && !connection.completed_handshake => {
            Err(unknown_field(method, &first.path, first.known))
        }
        _ => {
            let short = unknown.into_iter().map(|field| field.path);
            Ok(short.filter(|path| path.len() <= 200).take(16).collect())
        }
    }
}

/// Lists the ignored fields in the response.
pub(super) fn with_ignored(mut answer: Value, ignored: &[String]) -> Value {
    if !ignored.is_empty() {
        answer["ignored"] = json!(ignored);
    }
    answer
}

fn collect_unknown(method: &str, params: &JsonObject, unknown: &mut Vec<UnknownField>) {
    let mut check = |prefix: &str, fields: &JsonObject, known: &'static [&'static str]| {
        let unexpected = fields.keys().filter(|name| !known.contains(&name.as_str()));
        unknown.extend(unexpected.map(|name| UnknownField {
            path: format!("{prefix}{name}"),
            known,
        }));
    };
    match method {
        "runs.start" => check("", params, START),
        "runs.complete" => {
            check("", params, COMPLETE);
            let Some(outcome) = params.get("outcome").and_then(Value::as_object) else {
                return;
            };
            check("outcome.", outcome, OUTCOME);
            if let Some(Value::Object(metrics)) = outcome.get("metrics") {
                check("outcome.metrics.", metrics, METRICS);
            }
            for (index, evidence) in objects(outcome, "evidence") {
                check(&format!("outcome.evidence[{index}]."), evidence, EVIDENCE);
            }
        }
        "runs.record_turns" => {
            check("", params, RECORD_TURNS);
            for (index, turn) in objects(params, "turns") {
                check(&format!("turns[{index}]."), turn, TURN);
            }
        }
        "runs.record_model_turn" => check("", params, MODEL_TURN),
        "runs.list" => check("", params, LIST),
        "runs.get_trace" | "runs.subscribe" => check("", params, PAGES),
        "runs.unsubscribe" => check("", params, UNSUBSCRIBE),
        _ => {}
    }
}

/// Returns the objects of a list with their indexes.
fn objects<'a>(
    params: &'a JsonObject,
    name: &str,
) -> impl Iterator<Item = (usize, &'a JsonObject)> {
    let list = params.get(name).and_then(Value::as_array);
    let list = list.into_iter().flatten().enumerate();
    list.filter_map(|(index, value)| Some((index, value.as_object()?)))
}

fn unknown_field(method: &str, path: &str, known: &[&str]) -> RpcError {
    let name = path.rsplit('.').next().unwrap_or(path);
    let hint = match nearest(name, known) {
        Some(nearest) => format!("did you mean `{nearest}`? "),
        None => String::new(),
    };
    let path: String = path.chars().take(200).collect();
    RpcError::unknown_field(
        format!(
            "{method}: unknown field `{path}`; {hint}Known are {}",
            known.join(", ")
        ),
        path,
    )
}

/// Returns the known field that is the likely intention.
fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    let hint = COMMON_MISTAKES.iter().filter(|(word, _)| *word == name);
    let mut hint = hint.filter_map(|(_, field)| known.iter().find(|known| *known == field));
    if let Some(field) = hint.next() {
        return Some(field);
    }
    // A name this long is not a typo.
    if name.len() > 64 {
        return None;
    }
    let near = known
        .iter()
        .map(|known| (strsim::levenshtein(name, known), *known));
    let (steps, field) = near.min()?;
    (steps <= field.len() / 2).then_some(field)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use crate::StartRun;
    use serde::de::value::Error;
    use serde::de::{Deserialize, Deserializer, Error as _, Visitor};
    use windlass_core::runs::{Evidence, ModelTurn, OutcomeMetrics, RunOutcome, RunTurn};

    use super::super::runs::{
        CompleteParams, ListParams, PageParams, RecordTurnsParams, UnsubscribeParams,
    };
    use super::*;

    /// A deserializer without values that records the requested field names.
    struct FieldRecorder<'a>(&'a mut &'static [&'static str]);

    impl<'de> Deserializer<'de> for FieldRecorder<'_> {
        type Error = Error;

        fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
            Err(Error::custom("it is no struct"))
        }

        fn deserialize_struct<V: Visitor<'de>>(
            self,
            _: &'static str,
            fields: &'static [&'static str],
            _: V,
        ) -> Result<V::Value, Error> {
            *self.0 = fields;
            Err(Error::custom("there is no value"))
        }

        serde::forward_to_deserialize_any! {
            bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf option unit unit_struct
            newtype_struct seq tuple tuple_struct map enum identifier ignored_any
        }
    }

    fn fields_of<'de, T: Deserialize<'de>>() -> &'static [&'static str] {
        let mut fields: &[&str] = &[];
        assert!(T::deserialize(FieldRecorder(&mut fields)).is_err());
        fields
    }

    #[test]
    fn known_fields_match_the_deserialized_fields() {
        for (known, read, extra) in [
            (START, fields_of::<StartRun>(), &[][..]),
            (COMPLETE, fields_of::<CompleteParams>(), &[]),
            (OUTCOME, fields_of::<RunOutcome>(), &[]),
            (EVIDENCE, fields_of::<Evidence>(), &[]),
            (METRICS, fields_of::<OutcomeMetrics>(), &[]),
            (RECORD_TURNS, fields_of::<RecordTurnsParams>(), &[]),
            // Traces include the record's kind in a turn.
            (TURN, fields_of::<RunTurn>(), &["record"]),
            (MODEL_TURN, fields_of::<ModelTurn>(), &["record", "run_id"]),
            (LIST, fields_of::<ListParams>(), &[]),
            (PAGES, fields_of::<PageParams>(), &[]),
            (UNSUBSCRIBE, fields_of::<UnsubscribeParams>(), &[]),
        ] {
            let known: BTreeSet<_> = known.iter().collect();
            let read: BTreeSet<_> = read.iter().chain(extra).collect();
            assert_eq!(known, read);
        }
    }

    #[test]
    fn nearest_field_is_suggested() {
        let of_turn = |name| nearest(name, TURN);
        assert_eq!(of_turn("result"), Some("output"));
        assert_eq!(of_turn("ouput"), Some("output"));
        assert_eq!(of_turn("parameter"), Some("parameters"));
        assert_eq!(of_turn("colour_of_the_sky"), None);
        assert_eq!(nearest("response", MODEL_TURN), Some("assistant_text"));
        assert_eq!(nearest("intend", START), Some("intent"));
        assert_eq!(nearest(&"x".repeat(1_000_000), START), None);
    }
}
