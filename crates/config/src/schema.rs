//! The JSON Schema of the configuration, for editors, and the names of its keys.

use serde_json::{Map, Value};

use crate::Config;

#[cfg(test)]
mod reference_test;

/// Returns a JSON schema of the configuration file.
#[must_use]
pub fn json() -> Value {
    let mut schema = schemars::schema_for!(Config).to_value();
    if let Some(schema) = schema.as_object_mut() {
        schema.insert("title".to_owned(), "windlass.toml".into());
    }
    without_null(&mut schema);
    schema
}

/// Removes `null` from the allowed values: TOML has no null.
fn without_null(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            if object.get("default").is_some_and(Value::is_null) {
                object.remove("default");
            }
            if let Some(Value::Array(types)) = object.get_mut("type") {
                types.retain(|kind| kind != "null");
                if let [one] = types.as_slice() {
                    let one = one.clone();
                    object.insert("type".to_owned(), one);
                }
            }
            if let Some(Value::Array(any)) = object.get_mut("anyOf") {
                any.retain(|one| one["type"] != "null");
            }
            object.values_mut().for_each(without_null);
        }
        Value::Array(values) => values.iter_mut().for_each(without_null),
        _ => {}
    }
}

/// Returns the keys that a file may have, with dots; `*` is a name that the user chooses.
#[must_use]
pub fn keys() -> Vec<String> {
    let schema = json();
    let mut keys = Vec::new();
    collect(&schema, &schema, "", &mut keys);
    keys.sort();
    keys
}

fn collect(root: &Value, schema: &Value, parent: &str, keys: &mut Vec<String>) {
    let schema = resolved(root, schema);
    let key_of = |name: &str| match parent {
        "" => name.to_owned(),
        parent => format!("{parent}.{name}"),
    };
    let none = Map::new();
    let properties = schema["properties"].as_object().unwrap_or(&none);
    for (name, property) in properties {
        collect(root, property, &key_of(name), keys);
    }
    match &schema["additionalProperties"] {
        named @ Value::Object(_) => collect(root, named, &key_of("*"), keys),
        _ if properties.is_empty() => keys.push(parent.to_owned()),
        _ => {}
    }
}

/// Follows a reference to the definition of a type.
fn resolved<'a>(root: &'a Value, schema: &'a Value) -> &'a Value {
    let reference = schema["$ref"]
        .as_str()
        .or(schema["anyOf"][0]["$ref"].as_str());
    match reference.and_then(|reference| reference.strip_prefix('#')) {
        Some(pointer) => root.pointer(pointer).unwrap_or(schema),
        None => schema,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Returns the keys that the parser accepts in a table.
    fn parsed_keys(table: &str) -> Vec<String> {
        let text = match table {
            "" => "zzzzzzzzzzzz = 1".to_owned(),
            table => format!("[{}]\nzzzzzzzzzzzz = 1", table.replace('*', "x")),
        };
        let refused = Config::parse(&text, Path::new("")).unwrap_err().message;
        let (_, expected) = refused.split_once("one of ").unwrap();
        let expected = expected.split('`').skip(1).step_by(2);
        let parent = match table {
            "" => String::new(),
            table => format!("{table}."),
        };
        expected.map(|name| format!("{parent}{name}")).collect()
    }

    #[test]
    fn schema_has_exactly_the_keys_of_the_parser() {
        let all = keys();
        let has = |parent: &str| all.iter().any(|key| key.starts_with(parent));
        // A user-chosen name may be a table of strings.
        let inner = |key: String| {
            if has(&format!("{key}.*")) {
                format!("{key}.*")
            } else {
                key
            }
        };
        let keys_of = |name: String| match name.as_str() {
            named if has(&format!("{named}.*.")) => parsed_keys(&format!("{named}.*")),
            table if has(&format!("{table}.")) => parsed_keys(table),
            _ => vec![name],
        };
        let expected = parsed_keys("").into_iter().flat_map(keys_of).map(inner);
        let mut expected: Vec<_> = expected.collect();
        expected.sort();
        assert_eq!(all, expected);
    }

    #[test]
    fn schema_restricts_types_and_rejects_other_keys() {
        let schema = json();
        assert_eq!(schema["additionalProperties"], false);
        assert_eq!(schema["properties"]["model"]["type"], "string");
        let text = schema.to_string();
        assert!(
            text.contains("bubblewrap") && !text.contains("null"),
            "{text}"
        );
        let limits = resolved(&schema, &schema["properties"]["limits"]);
        assert_eq!(limits["additionalProperties"], false);
        assert_eq!(limits["properties"]["threads"]["type"], "integer");
    }

    #[test]
    fn configuration_page_names_every_key() {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
        let page = std::fs::read_to_string(page).unwrap();
        for key in keys() {
            assert!(
                page.contains(&format!("`{key}`")),
                "`{key}` is not on the page"
            );
        }
    }
}
