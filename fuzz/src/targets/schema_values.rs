//! Schemas and arguments, built from bytes.

use serde_json::{Map, Value, json};

use super::bytes::Bytes;
use super::patterns::expression;

/// Names of properties and definitions: few, so that schemas and arguments meet.
const NAMES: [&str; 6] = ["a", "b", "c", "d0", "d1", "ä"];

const REFERENCES: [&str; 18] = [
    "#",
    "#/$defs/a",
    "#/$defs/b",
    "#/$defs/d0",
    "#/$defs/d1",
    "#/$defs/d9",
    "#/definitions/a",
    "#/properties/a",
    "#/$defs/%61",
    "#/$defs/~0~1",
    "#a",
    "a",
    "",
    "http://127.0.0.1:1/schema",
    "file:///etc/passwd",
    "https://json-schema.org/draft/2020-12/schema",
    "urn:x:y",
    "#/%zz",
];

/// Numbers at the edges of what types hold.
pub(super) fn number(bytes: &mut Bytes<'_>) -> Value {
    match bytes.below(12) {
        0 | 1 => json!(bytes.below(4)),
        2 => json!(u64::MAX),
        3 => json!(i64::MIN),
        4 => json!(i64::MAX),
        5 => json!(f64::MAX),
        6 => json!(5e-324),
        7 => json!(-0.0),
        8 => json!(1.5),
        9 => json!(-1),
        10 => json!(9_007_199_254_740_993_u64),
        _ => {
            let mut bits = [0; 8];
            let taken = bytes.take(8);
            bits[..taken.len()].copy_from_slice(taken);
            json!(f64::from_bits(u64::from_le_bytes(bits)))
        }
    }
}

/// Any value of no great depth.
pub(super) fn value(bytes: &mut Bytes<'_>, depth: usize) -> Value {
    match bytes.below(9) {
        0 => Value::Null,
        1 => json!(bytes.one_in(2)),
        2 => number(bytes),
        3 => json!(bytes.word(&["", "a", "ä", "2026-01-02", "a@b", "::1"])),
        4 => json!(bytes.word(&["a", "aa", "ab"]).repeat(bytes.times(2_000))),
        5 if depth > 0 => (0..bytes.below(4))
            .map(|_| value(bytes, depth - 1))
            .collect(),
        6 if depth > 0 => vec![value(bytes, 0); bytes.times(300)].into(),
        7 | 8 if depth > 0 => {
            let fields = (0..bytes.below(4)).map(|_| {
                let name = bytes.word(&NAMES).to_owned();
                (name, value(bytes, depth - 1))
            });
            Value::Object(fields.collect())
        }
        _ => json!("b"),
    }
}

/// An object, mostly: arguments as a model writes them.
pub(super) fn arguments(bytes: &mut Bytes<'_>) -> Value {
    if bytes.one_in(8) {
        return value(bytes, 4);
    }
    let fields = (0..bytes.below(5)).map(|_| {
        let name = bytes.word(&NAMES).to_owned();
        (name, value(bytes, 5))
    });
    Value::Object(fields.collect())
}

/// A schema, with the shapes that cost much more often than people write them.
pub(super) fn schema(bytes: &mut Bytes<'_>) -> Value {
    let mut schema = match part(bytes, 4) {
        Value::Object(fields) => Value::Object(fields),
        other if bytes.one_in(4) => return other,
        _ => json!({ "type": "object" }),
    };
    if bytes.one_in(3) {
        schema["$schema"] = json!(bytes.word(&[
            "https://json-schema.org/draft/2020-12/schema",
            "https://json-schema.org/draft/2019-09/schema",
            "http://json-schema.org/draft-07/schema#",
            "http://json-schema.org/draft-04/schema#",
            "http://example.org/none",
            "",
        ]));
    }
    let definitions = bytes.word(&["$defs", "definitions"]);
    schema[definitions] = match bytes.below(4) {
        0 => chain(bytes),
        _ => parts_by_name(bytes, 2),
    };
    if bytes.one_in(6) {
        let word = bytes.word(&["allOf", "items", "not", "properties"]);
        for _ in 0..bytes.times(130) {
            schema = match word {
                "allOf" => json!({ "allOf": [schema] }),
                "properties" => json!({ "properties": { "a": schema } }),
                word => json!({ word: schema }),
            };
        }
    }
    schema
}

/// Definitions each of which refers to the one before, often more than once.
fn chain(bytes: &mut Bytes<'_>) -> Value {
    let word = bytes.word(&["allOf", "anyOf", "oneOf"]);
    let (levels, width) = (bytes.times(120), 1 + bytes.below(4));
    let mut definitions = Map::new();
    definitions.insert("d0".to_owned(), part(bytes, 1));
    for level in 1..=levels {
        let below = json!({ "$ref": format!("#/$defs/d{}", level - 1) });
        definitions.insert(format!("d{level}"), json!({ word: vec![below; width] }));
    }
    definitions.insert(
        "a".to_owned(),
        json!({ "$ref": format!("#/$defs/d{levels}") }),
    );
    Value::Object(definitions)
}

fn parts_by_name(bytes: &mut Bytes<'_>, depth: usize) -> Value {
    let fields = (0..bytes.below(4)).map(|_| {
        let name = bytes.word(&NAMES).to_owned();
        (name, part(bytes, depth))
    });
    Value::Object(fields.collect())
}

fn part(bytes: &mut Bytes<'_>, depth: usize) -> Value {
    if depth == 0 || bytes.is_empty() {
        return json!(bytes.one_in(2));
    }
    let mut fields = Map::new();
    for _ in 0..1 + bytes.below(4) {
        let (word, said) = keyword(bytes, depth - 1);
        fields.insert(word.to_owned(), said);
    }
    Value::Object(fields)
}

fn keyword(bytes: &mut Bytes<'_>, depth: usize) -> (&'static str, Value) {
    match bytes.below(20) {
        0 | 1 => ("$ref", json!(bytes.word(&REFERENCES))),
        2 => {
            let word = bytes.word(&["$dynamicRef", "$recursiveRef", "$anchor", "$dynamicAnchor"]);
            (word, json!(bytes.word(&["#", "#a", "a", ""])))
        }
        3 => {
            let ids = ["http://x", "a", "#a", "", "urn:x", "http://[", "#/$defs/a"];
            (bytes.word(&["$id", "id"]), json!(bytes.word(&ids)))
        }
        4 | 5 => {
            let word = bytes.word(&["allOf", "anyOf", "oneOf", "prefixItems"]);
            let parts: Vec<_> = (0..1 + bytes.below(3))
                .map(|_| part(bytes, depth))
                .collect();
            (word, json!(parts))
        }
        6 | 7 => {
            let word = ["properties", "dependentSchemas", "$defs", "dependencies"];
            (bytes.word(&word), parts_by_name(bytes, depth))
        }
        8 => {
            let expressions = (0..1 + bytes.times(40)).map(|_| (expression(bytes), part(bytes, 0)));
            ("patternProperties", Value::Object(expressions.collect()))
        }
        9 | 10 => ("pattern", json!(exploding(bytes))),
        11 => {
            let word = [
                "unevaluatedProperties",
                "unevaluatedItems",
                "additionalProperties",
                "items",
            ];
            (bytes.word(&word), part(bytes, depth))
        }
        12 => {
            let word = [
                "not",
                "if",
                "then",
                "else",
                "contains",
                "propertyNames",
                "additionalItems",
            ];
            (bytes.word(&word), part(bytes, depth))
        }
        13 => {
            let word = [
                "minimum",
                "maximum",
                "exclusiveMinimum",
                "exclusiveMaximum",
                "multipleOf",
            ];
            (bytes.word(&word), number(bytes))
        }
        14 => {
            let word = [
                "minLength",
                "maxLength",
                "minItems",
                "maxItems",
                "minProperties",
                "maxContains",
            ];
            (bytes.word(&word), number(bytes))
        }
        15 => (
            "required",
            (0..bytes.below(3))
                .map(|_| json!(bytes.word(&NAMES)))
                .collect(),
        ),
        16 => ("type", kinds(bytes)),
        17 => {
            let format = [
                "date",
                "email",
                "uuid",
                "regex",
                "ipv6",
                "uri",
                "idn-hostname",
                "x",
            ];
            ("format", json!(bytes.word(&format)))
        }
        18 => (
            bytes.word(&["const", "default", "enum", "uniqueItems"]),
            value(bytes, 2),
        ),
        // A word with something that it does not take.
        _ => {
            let word = [
                "$ref",
                "type",
                "items",
                "properties",
                "allOf",
                "pattern",
                "$defs",
                "required",
            ];
            (bytes.word(&word), value(bytes, 1))
        }
    }
}

fn kinds(bytes: &mut Bytes<'_>) -> Value {
    let kinds = [
        "object", "object", "array", "string", "number", "integer", "null", "boolean", "x",
    ];
    if bytes.one_in(3) {
        (0..bytes.below(3))
            .map(|_| json!(bytes.word(&kinds)))
            .collect()
    } else {
        json!(bytes.word(&kinds))
    }
}

fn exploding(bytes: &mut Bytes<'_>) -> String {
    let known = [
        "^(a+)+$",
        "(a|a)*b",
        "(?=(a+)+$)a",
        "(\\w{1000}){1000}",
        "\\p{L}{5000}",
        "(a*)*\\1b",
        "(?<!a{1,100})b",
        "[",
        "^[\\s\\S]*$",
    ];
    if bytes.one_in(3) {
        expression(bytes)
    } else {
        bytes.word(&known).to_owned()
    }
}
