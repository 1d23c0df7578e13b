//! Closures whose arguments are a Rust type.

use std::future::Future;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::de::DeserializeOwned;
use serde_json::Value;
use windlass_core::llm_driver_registry::OutputSchema;
use windlass_core::traits::ToolContext;

use super::tool_fn::{FnTool, ToolFnError, tool_fn};

/// Creates a tool from an async closure whose argument is a Rust type; its schema is derived.
///
/// ```
/// use schemars::JsonSchema;
/// use serde::Deserialize;
/// use serde_json::json;
/// use windlass_runtime::typed_tool;
///
/// #[derive(Deserialize, JsonSchema)]
/// struct AddArgs {
///     /// The first number.
///     a: f64,
///     /// The second number.
///     b: f64,
/// }
///
/// let add = typed_tool("add", "Adds two numbers", |args: AddArgs| async move {
///     Ok(json!({ "sum": args.a + args.b }))
/// });
/// # let _ = add;
/// ```
pub fn typed_tool<A, F, Fut, T>(
    name: impl Into<String>,
    description: impl Into<String>,
    run: F,
) -> FnTool
where
    A: DeserializeOwned + JsonSchema,
    F: Fn(A) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<T, ToolFnError>> + Send + 'static,
    T: Into<Value> + 'static,
{
    typed_tool_with_context(name, description, move |args, _| run(args))
}

/// Creates a tool from an async closure that receives a Rust type and the session's context.
///
/// ```
/// use schemars::JsonSchema;
/// use serde::Deserialize;
/// use windlass_runtime::typed_tool_with_context;
///
/// #[derive(Deserialize, JsonSchema)]
/// struct Nothing {}
///
/// let language = typed_tool_with_context("language", "Tells the user's language", |_: Nothing, ctx| async move {
///     Ok(ctx.locale.unwrap_or("en".into()))
/// });
/// # let _ = language;
/// ```
pub fn typed_tool_with_context<A, F, Fut, T>(
    name: impl Into<String>,
    description: impl Into<String>,
    run: F,
) -> FnTool
where
    A: DeserializeOwned + JsonSchema,
    F: Fn(A, ToolContext) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<T, ToolFnError>> + Send + 'static,
    T: Into<Value> + 'static,
{
    tool_fn(name, description, schema_of::<A>(), move |args, context| {
        let running = serde_json::from_value(args).map(|args| run(args, context));
        async move { running?.await }
    })
}

/// Returns the schema of a type for [`TurnRequest::output_schema`](windlass_core::turn_request::TurnRequest::output_schema);
/// [`TurnResult::output_as`](crate::TurnResult::output_as) deserialises the answer. A recursive type has no bounded schema and is refused there.
#[must_use]
pub fn output_schema_of<T: JsonSchema>() -> OutputSchema {
    OutputSchema::new(schema_of::<T>())
}

/// Returns the schema of a type in the form that providers accept: without `$schema`, and with references inlined if possible.
pub(super) fn schema_of<T: JsonSchema>() -> Value {
    let mut settings = SchemaSettings::draft2020_12();
    settings.inline_subschemas = true;
    settings.meta_schema = None;
    settings
        .into_generator()
        .into_root_schema_for::<T>()
        .to_value()
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;
    use windlass_core::tools::Tool;

    use super::*;

    #[derive(Deserialize, JsonSchema)]
    enum Unit {
        Metre,
        Mile,
    }

    #[derive(Deserialize, JsonSchema)]
    struct Length {
        /// Value in the given unit.
        value: f64,
        unit: Unit,
    }

    #[tokio::test]
    async fn schema_and_arguments_match_the_type() {
        let tool = typed_tool("metres", "Converts", |length: Length| async move {
            Ok(match length.unit {
                Unit::Metre => length.value,
                Unit::Mile => length.value * 1609.0,
            })
        });
        let schema = tool.parameters_schema();
        assert_eq!(
            schema["properties"]["value"]["description"],
            "Value in the given unit."
        );
        assert_eq!(
            schema["properties"]["unit"]["enum"],
            json!(["Metre", "Mile"])
        );
        assert_eq!(schema["required"], json!(["value", "unit"]));
        assert_eq!(schema.get("$schema"), None);
        let run = async |args| tool.execute(args).await.into_tool_result("c", "metres");
        let mile = run(json!({"value": 2, "unit": "Mile"})).await;
        assert_eq!(mile.result, Some(json!(3218.0)));
        let error = run(json!({"value": 2})).await.error;
        assert_eq!(error.as_deref(), Some("missing field `unit`"));
    }
}
