//! Checks the arguments of a call against the tool's schema before the tool receives them.

use serde_json::Value;
use windlass_core::bounds;

#[cfg(feature = "schema")]
pub(crate) use full::ArgumentChecker;
#[cfg(feature = "schema")]
pub use full::check_schema;

#[cfg(not(feature = "schema"))]
pub(crate) use basic::ArgumentChecker;

/// Checks with the complete JSON Schema.
#[cfg(feature = "schema")]
mod full {
    use std::collections::HashMap;
    use std::sync::{Arc, Mutex};

    use jsonschema::{PatternOptions, Validator};
    use serde_json::Value;

    use windlass_core::bounds::{MAX_SCHEMA_PARTS, SchemaCost, count_values, schema_cost};

    use super::basic;
    use windlass_core::lock::lock;

    /// Maximum number of cached compiled schemas; a platform has tens of tools, not thousands.
    const MAX_CACHED: usize = 1024;

    /// Maximum number of comparisons of a schema part with a value: about one second of work.
    const MAX_COMPARISONS: usize = 20_000_000;

    /// The name under which the schema of an answer is compiled; no tool has it.
    const OUTPUT: &str = "the final answer";

    fn with_path(place: &str, error: &dyn std::fmt::Display) -> String {
        match place {
            "" => error.to_string(),
            place => format!("{place}: {error}"),
        }
    }

    struct CachedSchema {
        schema: Value,
        /// `None` if the schema is invalid, or if the work to check it is unbounded.
        full: Option<Arc<CompiledSchema>>,
    }

    /// A schema that can be checked completely.
    struct CompiledSchema {
        validator: Validator,
        parts: usize,
    }

    impl CompiledSchema {
        fn is_cheap_for(&self, arguments: &Value) -> bool {
            self.parts.saturating_mul(count_values(arguments)) <= MAX_COMPARISONS
        }
    }

    /// Compiles each schema once.
    #[derive(Default)]
    pub(crate) struct ArgumentChecker {
        compiled: Mutex<HashMap<String, CachedSchema>>,
    }

    impl ArgumentChecker {
        pub(crate) fn check(
            &self,
            tool: &str,
            schema: &Value,
            arguments: &Value,
        ) -> Result<(), String> {
            // A schema without a type still means an object. Arguments that the model did not write as valid JSON are a string, and must not reach
            // the tool.
            if schema.get("type").is_none() && !arguments.is_object() {
                return basic::ArgumentChecker::default().check(tool, schema, arguments);
            }
            match self.full(tool, schema) {
                Some(full) if full.is_cheap_for(arguments) => {
                    let fits = full.validator.validate(arguments);
                    fits.map_err(|error| with_path(&error.instance_path().to_string(), &error))
                }
                // Such a schema still names required properties and types.
                _ => basic::ArgumentChecker::default().check(tool, schema, arguments),
            }
        }

        /// Returns every violation of a schema, each with its path and without the value itself; at most `most` of them.
        pub(crate) fn violations(&self, schema: &Value, value: &Value, most: usize) -> Vec<String> {
            match self.full(OUTPUT, schema) {
                Some(full) if full.is_cheap_for(value) => full
                    .validator
                    .iter_errors(value)
                    .take(most)
                    .map(|error| with_path(&error.instance_path().to_string(), &error.masked()))
                    .collect(),
                Some(_) => vec!["it has too many values to be checked".to_owned()],
                None => vec!["the schema itself cannot be compiled".to_owned()],
            }
        }

        fn full(&self, tool: &str, schema: &Value) -> Option<Arc<CompiledSchema>> {
            if let Some(known) = lock(&self.compiled).get(tool)
                && known.schema == *schema
            {
                return known.full.clone();
            }
            // The lock is not held while compiling, so other checks continue.
            let compiled = compile(schema);
            if let Err(error) = &compiled {
                tracing::warn!(tool, %error, "the tool's parameter schema is not valid");
            }
            let full = compiled.ok().flatten().map(Arc::new);
            let mut compiled = lock(&self.compiled);
            if compiled.len() >= MAX_CACHED {
                compiled.clear();
            }
            compiled.insert(
                tool.to_owned(),
                CachedSchema {
                    schema: schema.clone(),
                    full: full.clone(),
                },
            );
            full
        }
    }

    /// Compiles a schema; `None` if the work to check it is unbounded.
    fn compile(schema: &Value) -> Result<Option<CompiledSchema>, String> {
        // A regular expression gets less memory and time than the library's default.
        const BYTES: usize = 256 * 1024;
        const STEPS: usize = 10_000;
        let SchemaCost::Parts(parts) = schema_cost(schema) else {
            return Ok(None);
        };
        let expressions = PatternOptions::fancy_regex()
            .size_limit(BYTES)
            .dfa_size_limit(BYTES)
            .backtrack_limit(STEPS);
        let options = jsonschema::options().with_pattern_options(expressions);
        let validator = options.build(schema).map_err(|error| error.to_string())?;
        Ok(Some(CompiledSchema { validator, parts }))
    }

    /// Checks that a schema is valid for a tool's parameters.
    ///
    /// # Errors
    /// A description of the problem, for the tool's author.
    pub fn check_schema(schema: &Value) -> Result<(), String> {
        if schema_cost(schema) == SchemaCost::TooLarge {
            return Err(format!(
                "it has more than {MAX_SCHEMA_PARTS} parts once its references are followed, or is nested too deep"
            ));
        }
        match compile(schema)? {
            Some(_) => Ok(()),
            None => jsonschema::meta::validate(schema).map_err(|error| error.to_string()),
        }
    }
}

/// Checks required names, types of properties, and names that are not allowed.
mod basic {
    use serde_json::Value;

    #[derive(Default)]
    pub(crate) struct ArgumentChecker {}

    impl ArgumentChecker {
        /// Without the feature `schema` the required names and the types of properties are checked.
        #[cfg(not(feature = "schema"))]
        pub(crate) fn violations(
            &self,
            schema: &Value,
            value: &Value,
            _most: usize,
        ) -> Vec<String> {
            let is_object = schema.get("type").is_some_and(|kind| kind == "object");
            if is_object || value.is_object() {
                self.check("", schema, value).err().into_iter().collect()
            } else {
                Vec::new()
            }
        }

        #[expect(clippy::unused_self, reason = "the same call as of the other checker")]
        pub(crate) fn check(
            &self,
            _tool: &str,
            schema: &Value,
            arguments: &Value,
        ) -> Result<(), String> {
            let Some(given) = arguments.as_object() else {
                let wants_object = schema.get("type").is_none_or(|kind| kind == "object");
                return if wants_object {
                    Err(format!("{arguments} is not an object"))
                } else {
                    Ok(())
                };
            };
            let required = schema.get("required").and_then(Value::as_array);
            for name in required.into_iter().flatten().filter_map(Value::as_str) {
                if !given.contains_key(name) {
                    return Err(format!("\"{name}\" is a required property"));
                }
            }
            let properties = schema.get("properties").and_then(Value::as_object);
            let closed = schema.get("additionalProperties") == Some(&Value::Bool(false));
            for (name, value) in given {
                match properties.and_then(|properties| properties.get(name)) {
                    Some(property) => check_type(name, property, value)?,
                    None if closed => {
                        return Err(format!("additional property \"{name}\" is not allowed"));
                    }
                    None => {}
                }
            }
            Ok(())
        }
    }

    fn check_type(name: &str, property: &Value, value: &Value) -> Result<(), String> {
        let fits = |kind: &str| match kind {
            "string" => value.is_string(),
            "number" => value.is_number(),
            "integer" => {
                value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|n| n.fract() == 0.0)
            }
            "boolean" => value.is_boolean(),
            "array" => value.is_array(),
            "object" => value.is_object(),
            "null" => value.is_null(),
            _ => true,
        };
        let (ok, wanted) = match property.get("type") {
            Some(Value::String(kind)) => (fits(kind), kind.clone()),
            Some(Value::Array(kinds)) => {
                let kinds: Vec<_> = kinds.iter().filter_map(Value::as_str).collect();
                (kinds.iter().any(|kind| fits(kind)), kinds.join(" or "))
            }
            _ => return Ok(()),
        };
        if ok {
            Ok(())
        } else {
            Err(format!("/{name}: {value} is not of type {wanted}"))
        }
    }
}

/// Checks whether a call with these arguments would reach a tool with this schema, as a turn does before each call.
///
/// # Errors
/// A description of the problem, for the model that wrote the arguments.
pub fn check_arguments(schema: &Value, arguments: &Value) -> Result<(), String> {
    ArgumentChecker::default().check("tool", schema, &normalised(arguments.clone()))
}

/// Models often send null instead of an empty object. A value that is nested too deeply becomes a string, which no tool accepts.
pub(crate) fn normalised(arguments: Value) -> Value {
    match arguments {
        Value::Null => Value::Object(serde_json::Map::new()),
        other => recordable(other),
    }
}

/// Converts a value that is nested too deeply for a record into a string.
pub(crate) fn recordable(value: Value) -> Value {
    if bounds::is_shallow(&value) {
        value
    } else {
        Value::String(value.to_string())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn error(checker: &ArgumentChecker, arguments: Value) -> Option<String> {
        let schema = json!({
            "type": "object",
            "properties": { "a": { "type": "number" }, "b": { "type": ["string", "null"] } },
            "required": ["a"],
            "additionalProperties": false
        });
        checker.check("tool", &schema, &arguments).err()
    }

    fn both(check: impl Fn(Value) -> Option<String>) {
        assert_eq!(check(json!({"a": 1})), None);
        assert_eq!(check(json!({"a": 1, "b": null})), None);
        for (arguments, named) in [
            (json!({}), "\"a\""),
            (json!({"a": "x"}), "/a"),
            (json!({"a": 1, "c": 2}), "c"),
            (json!([1]), "[1]"),
        ] {
            let error = check(arguments.clone()).unwrap_or_else(|| panic!("{arguments} passed"));
            assert!(error.contains(named), "{error}");
        }
    }

    #[test]
    fn r18_schema_violation_names_the_property() {
        let checker = ArgumentChecker::default();
        both(|arguments| error(&checker, arguments));
    }

    #[test]
    fn the_basic_checks_alone_name_the_same_properties() {
        let schema = json!({
            "properties": { "a": { "type": "number" }, "b": { "type": ["string", "null"] } },
            "required": ["a"],
            "additionalProperties": false
        });
        both(|arguments| {
            basic::ArgumentChecker::default()
                .check("tool", &schema, &arguments)
                .err()
        });
    }

    #[test]
    fn a_changed_schema_of_the_same_tool_is_compiled_again() {
        let checker = ArgumentChecker::default();
        let strict = json!({"required": ["a"]});
        assert!(checker.check("tool", &strict, &json!({})).is_err());
        assert!(checker.check("tool", &json!({}), &json!({})).is_ok());
        assert!(checker.check("tool", &strict, &json!({})).is_err());
    }

    #[test]
    fn arguments_too_deep_for_a_record_become_a_text() {
        let deep = format!("{}{}", "[".repeat(120), "]".repeat(120));
        let deep = normalised(serde_json::from_str(&deep).unwrap());
        assert!(deep.is_string());
        let refused = ArgumentChecker::default().check("tool", &json!({"type": "object"}), &deep);
        assert!(refused.is_err());
    }

    #[test]
    fn schema_with_exponential_references_is_checked_in_part() {
        let mut definitions = json!({"d0": {"type": "string"}});
        for level in 1..40 {
            let below = format!("#/$defs/d{}", level - 1);
            definitions[format!("d{level}")] = json!({"anyOf": [{"$ref": below}, {"$ref": below}]});
        }
        let schema = json!({
            "type": "object",
            "properties": { "a": { "$ref": "#/$defs/d39" } },
            "required": ["a"],
            "$defs": definitions
        });
        let checker = ArgumentChecker::default();
        assert_eq!(checker.check("tool", &schema, &json!({"a": 1})), Ok(()));
        assert!(checker.check("tool", &schema, &json!({})).is_err());
    }

    #[cfg(feature = "schema")]
    #[test]
    fn many_values_against_many_parts_are_checked_in_part() {
        let words: Vec<_> = (0..4_000).map(|n| json!({ "const": n })).collect();
        let schema = json!({
            "type": "object",
            "properties": { "a": { "type": "array", "items": { "anyOf": words } } },
            "required": ["a"]
        });
        let checker = ArgumentChecker::default();
        // A violation is found among few elements, and not searched among so many that the check would take minutes.
        assert!(checker.check("tool", &schema, &json!({"a": [-1]})).is_err());
        let many = json!({ "a": vec![-1; 100_000] });
        assert_eq!(checker.check("tool", &schema, &many), Ok(()));
        assert!(checker.check("tool", &schema, &json!({})).is_err());
    }

    #[test]
    fn text_instead_of_arguments_is_refused_by_every_schema() {
        let text = json!("{\"a\": ");
        for schema in [json!({}), json!({"type": "object"})] {
            let refused = ArgumentChecker::default().check("tool", &schema, &text);
            assert!(refused.unwrap_err().contains("{\\\"a\\\": "), "{schema}");
        }
    }
}
