//! The configuration described for editors, and the names of its keys.

use serde_json::{Map, Value};

use crate::Config;

#[cfg(test)]
mod reference;

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

/// Takes `null` out of what a value may be: a TOML file cannot say it.
fn without_null(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            if object.get("default").is_some_and(Value::is_null) {
                object.remove("default");
            }
            if let Some(Value::Array(types)) = object.get_mut("type") {
                types.retain(|known| known != "null");
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

fn collect(whole: &Value, schema: &Value, above: &str, keys: &mut Vec<String>) {
    let schema = resolved(whole, schema);
    let key_of = |name: &str| match above {
        "" => name.to_owned(),
        above => format!("{above}.{name}"),
    };
    let none = Map::new();
    let properties = schema["properties"].as_object().unwrap_or(&none);
    for (name, property) in properties {
        collect(whole, property, &key_of(name), keys);
    }
    match &schema["additionalProperties"] {
        named @ Value::Object(_) => collect(whole, named, &key_of("*"), keys),
        _ if properties.is_empty() => keys.push(above.to_owned()),
        _ => {}
    }
}

/// Follows a reference to the place where a type is described.
fn resolved<'a>(whole: &'a Value, schema: &'a Value) -> &'a Value {
    let reference = schema["$ref"]
        .as_str()
        .or(schema["anyOf"][0]["$ref"].as_str());
    match reference.and_then(|reference| reference.strip_prefix('#')) {
        Some(pointer) => whole.pointer(pointer).unwrap_or(schema),
        None => schema,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Returns the keys that the reader itself knows in a table.
    fn read(table: &str) -> Vec<String> {
        let text = match table {
            "" => "zzzzzzzzzzzz = 1".to_owned(),
            table => format!("[{}]\nzzzzzzzzzzzz = 1", table.replace('*', "x")),
        };
        let refused = Config::parse(&text, Path::new("")).unwrap_err().message;
        let (_, known) = refused.split_once("one of ").unwrap();
        let known = known.split('`').skip(1).step_by(2);
        let above = match table {
            "" => String::new(),
            table => format!("{table}."),
        };
        known.map(|name| format!("{above}{name}")).collect()
    }

    #[test]
    fn it_has_every_key_that_is_read_and_no_other() {
        let all = keys();
        let has = |above: &str| all.iter().any(|key| key.starts_with(above));
        // A name that is chosen may itself stand for a table of texts.
        let inner = |key: String| {
            if has(&format!("{key}.*")) {
                format!("{key}.*")
            } else {
                key
            }
        };
        let of = |name: String| match name.as_str() {
            named if has(&format!("{named}.*.")) => read(&format!("{named}.*")),
            table if has(&format!("{table}.")) => read(table),
            _ => vec![name],
        };
        let known = read("").into_iter().flat_map(of).map(inner);
        let mut known: Vec<_> = known.collect();
        known.sort();
        assert_eq!(all, known);
    }

    #[test]
    fn it_says_what_a_value_may_be_and_refuses_other_keys() {
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
    fn the_page_of_the_configuration_names_every_key() {
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
