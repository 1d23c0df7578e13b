//! Compares two events, except for IDs, times and durations.

use serde_json::Value;
use windlass_core::events::Event;
use windlass_core::traits::SECRET_MASK;

/// Returns the first difference of two events; `None` if they are equivalent.
pub(super) fn difference(expected: &Event, got: &Event) -> Option<String> {
    if expected.event_type != got.event_type {
        return Some("type".to_owned());
    }
    let context = |event: &Event| serde_json::to_value(&event.context).unwrap_or_default();
    let data = |event: &Event| serde_json::to_value(&event.data).unwrap_or_default();
    differ("context", &context(expected), &context(got))
        .or_else(|| differ("data", &data(expected), &data(got)))
}

fn differ(path: &str, expected: &Value, got: &Value) -> Option<String> {
    let here = || Some(path.to_owned());
    match (expected, got) {
        (Value::Object(expected), Value::Object(got)) => {
            let missing = expected.keys().find(|key| !got.contains_key(*key));
            let mut surplus = got.keys().filter(|key| !expected.contains_key(*key));
            let surplus = || surplus.find(|key| !is_recorded_since(key));
            if let Some(key) = missing.or_else(surplus) {
                return Some(format!("{path}.{key}"));
            }
            let pairs = expected.iter();
            let mut pairs =
                pairs.filter_map(|(key, expected)| Some((key, expected, got.get(key)?)));
            pairs.find_map(|(key, expected, got)| {
                if is_measure(key) {
                    None
                } else {
                    differ(&format!("{path}.{key}"), expected, got)
                }
            })
        }
        (Value::Array(expected), Value::Array(got)) if expected.len() == got.len() => {
            let mut pairs = expected.iter().zip(got).enumerate();
            pairs.find_map(|(n, (expected, got))| differ(&format!("{path}[{n}]"), expected, got))
        }
        (Value::String(expected), Value::String(got)) if masked(expected) == masked(got) => None,
        // The secret became known only after the text was first recorded.
        (Value::String(expected), Value::String(_)) if expected.contains(SECRET_MASK) => None,
        (expected, got) if expected == got => None,
        _ => here(),
    }
}

/// Times, durations and the digest of the configuration, which the report counts separately.
fn is_measure(key: &str) -> bool {
    let names = [
        "ts",
        "config",
        "deadline",
        "duration_ms",
        "time_to_first_token_ms",
        "waited_ms",
    ];
    names.contains(&key) || key.ends_with("_at")
}

/// Fields that records of earlier versions lack.
fn is_recorded_since(key: &str) -> bool {
    key == "refused"
}

const DIGITS: usize = 32;

/// Replaces every ID in a text with its kind.
fn masked(text: &str) -> String {
    let mut pieces = text.split('_');
    let mut masked = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        masked.push('_');
        match piece.get(..DIGITS) {
            Some(id) if id.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
                masked.push('*');
                masked.push_str(&piece[DIGITS..]);
            }
            _ => masked.push_str(piece),
        }
    }
    masked
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn ids_times_and_durations_are_ignored() {
        let id = |n: u32| format!("turn_{n:032x}");
        let same = [
            (json!({"turn_id": id(1)}), json!({"turn_id": id(2)})),
            (
                json!({"a": format!("of {} it", id(1))}),
                json!({"a": format!("of {} it", id(2))}),
            ),
            (
                json!({"duration_ms": 1, "expires_at": "x"}),
                json!({"duration_ms": 2, "expires_at": "y"}),
            ),
        ];
        for (expected, got) in same {
            assert_eq!(differ("data", &expected, &got), None);
        }
        let other = [
            (json!({"a": "x"}), json!({"a": "y"}), "data.a"),
            (json!({"a": 1}), json!({}), "data.a"),
            (json!({}), json!({"duration_ms": 1}), "data.duration_ms"),
            (
                json!({"a": [1, {"b": 2}]}),
                json!({"a": [1, {"b": 3}]}),
                "data.a[1].b",
            ),
            (json!([1]), json!([1, 2]), "data"),
            (json!({"a": id(1)}), json!({"a": "turn_1"}), "data.a"),
        ];
        for (expected, got, path) in other {
            assert_eq!(differ("data", &expected, &got).as_deref(), Some(path));
        }
    }
}
