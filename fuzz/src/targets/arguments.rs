//! Arguments of calls, against the schema of the tool and as a text of any depth.

use serde_json::{Value, json};
use windlass_core::bounds::{count_values, is_shallow, is_shallow_text, json_bytes};
use windlass_runtime::check_arguments;

use super::bytes::Bytes;
use super::schema_values::{arguments, schema};

/// Any arguments are accepted or refused with a reason, whatever the schema; those without a name that the schema plainly requires are refused, also
/// if the schema cannot be checked as a whole. The depth of a text is computed before parsing and equals that of its value; values too deep for a
/// record reach no tool.
pub fn arguments_of_calls(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    against_a_schema(&mut bytes);
    as_a_text(&mut bytes);
}

fn against_a_schema(bytes: &mut Bytes<'_>) {
    let (schema, arguments) = (schema(bytes), arguments(bytes));
    let answer = check_arguments(&schema, &arguments);
    if let Err(reason) = &answer {
        assert!(
            !reason.is_empty(),
            "{schema}: {arguments} refused without a reason"
        );
    }
    if lacks_a_required_name(&schema, &arguments) {
        assert!(answer.is_err(), "{schema}: {arguments} passed");
    }
    if let Ok(again) = serde_json::from_str(&arguments.to_string()) {
        let again = check_arguments(&schema, &again);
        assert_eq!(
            again.is_ok(),
            answer.is_ok(),
            "{schema}: {arguments}: {answer:?}, {again:?}"
        );
    }
}

/// In old drafts a reference hides its siblings; such a schema requires nothing plainly.
fn lacks_a_required_name(schema: &Value, arguments: &Value) -> bool {
    let is_plain = schema.get("$ref").is_none() && schema.get("$schema").is_none();
    let (Some(required), Some(given)) = (schema["required"].as_array(), arguments.as_object())
    else {
        return false;
    };
    let mut names = required.iter().filter_map(Value::as_str);
    is_plain && names.any(|name| !given.contains_key(name))
}

fn as_a_text(bytes: &mut Bytes<'_>) {
    let text = text(bytes);
    let is_shallow_as_text = is_shallow_text(&text);
    // A reader that goes deeper than the bound.
    let Ok(value) = serde_json::from_slice::<Value>(&text) else {
        return;
    };
    let said = String::from_utf8_lossy(&text);
    assert_eq!(is_shallow(&value), is_shallow_as_text, "{said}");
    assert_eq!(json_bytes(&value), value.to_string().len(), "{said}");
    assert!(count_values(&value) <= text.len(), "{said}");
    if !is_shallow(&value) {
        let object = json!({ "type": "object" });
        assert!(
            check_arguments(&object, &value).is_err(),
            "{said} reaches a tool"
        );
    }
}

fn text(bytes: &mut Bytes<'_>) -> Vec<u8> {
    let mut open: Vec<&[u8]> = Vec::new();
    let mut text = Vec::new();
    for _ in 0..1 + bytes.below(6) {
        let most = if bytes.one_in(8) { 200_000 } else { 70 };
        let (opening, closing): (&[u8], &[u8]) = match bytes.below(6) {
            0 | 1 => (b"[", b"]"),
            2 => (b"{\"a\":", b"}"),
            3 => (b"[\"]}\\\"[{\",", b"]"),
            4 => (b" {\"\\\\\":[", b"]}"),
            _ => (b"[0,{},[],", b"]"),
        };
        for _ in 0..bytes.times(most) {
            text.extend(opening);
            open.push(closing);
        }
    }
    match bytes.below(4) {
        0 => text.extend(bytes.take(8)),
        _ => text.extend(b"1e3"),
    }
    text.extend(open.iter().rev().copied().flatten());
    text
}
