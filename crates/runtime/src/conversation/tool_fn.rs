//! Closures as tools.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;
use uuid::Uuid;
use windlass_core::tools::{
    ClientSideTool, SideEffectClass, Tool, ToolDefinition, ToolExecutionResult, ToolHints,
    ToolPolicy,
};
use windlass_core::traits::ToolContext;
use windlass_core::typed_id::SessionId;
use windlass_macros::OpaqueDebug;

/// The error of a tool closure; the model receives its text. `?` and `.into()` convert most errors.
pub type ToolFnError = Box<dyn std::error::Error + Send + Sync>;

type ToolClosure = dyn Fn(Value, ToolContext) -> Pin<Box<dyn Future<Output = ToolExecutionResult> + Send>>
    + Send
    + Sync;

/// A tool made of a closure.
#[derive(OpaqueDebug, Clone)]
pub struct FnTool {
    name: String,
    description: String,
    parameters: Value,
    hints: ToolHints,
    policy: ToolPolicy,
    run: Arc<ToolClosure>,
}

/// Creates a tool from an async closure that receives the arguments and the session's context.
///
/// ```
/// use serde_json::{Value, json};
/// use windlass_runtime::tool_fn;
///
/// let schema = json!({
///     "type": "object",
///     "properties": { "a": { "type": "number" }, "b": { "type": "number" } },
///     "required": ["a", "b"]
/// });
/// let add = tool_fn("add", "Adds two numbers", schema, |args: Value, _ctx| async move {
///     let number = |name: &str| args[name].as_f64().ok_or(format!("`{name}` must be a number"));
///     Ok(json!({ "sum": number("a")? + number("b")? }))
/// });
/// # let _ = add;
/// ```
pub fn tool_fn<F, Fut, T>(
    name: impl Into<String>,
    description: impl Into<String>,
    schema: Value,
    run: F,
) -> FnTool
where
    F: Fn(Value, ToolContext) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<T, ToolFnError>> + Send + 'static,
    T: Into<Value>,
{
    FnTool {
        name: name.into(),
        description: description.into(),
        parameters: schema,
        hints: ToolHints::default(),
        policy: ToolPolicy::Auto,
        run: Arc::new(move |args, context| {
            let running = run(args, context);
            Box::pin(async move {
                match running.await {
                    Ok(value) => ToolExecutionResult::success(value),
                    Err(error) => ToolExecutionResult::tool_error(error.to_string()),
                }
            })
        }),
    }
}

/// Creates a tool that the embedding program runs: a call of it is pending until it is answered.
///
/// ```
/// use serde_json::json;
/// use windlass_runtime::client_tool;
///
/// let tool = client_tool("pick_colour", "Lets the user pick a colour", json!({ "type": "object" }));
/// assert_eq!(tool.name(), "pick_colour");
/// ```
pub fn client_tool(
    name: impl Into<String>,
    description: impl Into<String>,
    schema: Value,
) -> ToolDefinition {
    ToolDefinition::ClientSide(ClientSideTool {
        name: name.into(),
        description: description.into(),
        parameters: schema,
        ..ClientSideTool::default()
    })
}

impl FnTool {
    /// Requires approval for every call of the tool: the turn parks until [`Conversation::approve`] or [`refuse`](crate::Conversation::refuse).
    ///
    /// ```
    /// use serde_json::json;
    /// use windlass_core::tools::{Tool, ToolPolicy};
    /// use windlass_runtime::tool_fn;
    ///
    /// let pay = tool_fn("pay", "Pays a bill", json!({ "type": "object" }), |_, _| async { Ok("paid") });
    /// assert_eq!(pay.requires_approval().policy(), ToolPolicy::RequiresApproval);
    /// ```
    ///
    /// [`Conversation::approve`]: crate::Conversation::approve
    #[must_use]
    pub fn requires_approval(mut self) -> Self {
        self.policy = ToolPolicy::RequiresApproval;
        self
    }

    /// Declares the tool read-only, so that a call may be repeated after a crash.
    ///
    /// ```
    /// use serde_json::json;
    /// use windlass_core::tools::{SideEffectClass, Tool};
    /// use windlass_runtime::tool_fn;
    ///
    /// let look = tool_fn("look", "Looks around", json!({ "type": "object" }), |_, _| async { Ok("fog") });
    /// assert_eq!(look.read_only().hints().side_effects(), SideEffectClass::Pure);
    /// ```
    #[must_use]
    pub fn read_only(mut self) -> Self {
        self.hints = self
            .hints
            .with_readonly(true)
            .with_side_effect_class(SideEffectClass::Pure);
        self
    }

    /// Declares an argument secret: the tool receives it, and every record of the call contains `[secret:name]` instead.
    ///
    /// ```
    /// use serde_json::json;
    /// use windlass_core::llmsim_driver::{LlmSimConfig, SimToolCall, SimTurn};
    /// use windlass_runtime::{Conversation, tool_fn};
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let login = tool_fn("login", "Logs in", json!({ "type": "object" }), |args: serde_json::Value, _| async move {
    ///     Ok(args["password"] == "open sesame")
    /// });
    /// let call = SimToolCall::new("login", json!({ "password": "open sesame" }));
    /// let mut chat = Conversation::builder()
    ///     .simulator(LlmSimConfig::scripted(vec![
    ///         SimTurn::ToolCalls(vec![call]),
    ///         SimTurn::Assistant("You are in.".into()),
    ///     ]))
    ///     .tool(login.secret_argument("password"))
    ///     .start()
    ///     .await?;
    /// chat.say("Log in").await?;
    ///
    /// let messages = chat.messages().await?;
    /// assert_eq!(messages[1].tool_calls()[0].arguments["password"], "[secret:password]");
    /// assert_eq!(messages[2].tool_result_content().unwrap().result, Some(json!(true)));
    /// # Ok::<(), windlass_runtime::ConversationError>(())
    /// # }).unwrap();
    /// ```
    #[must_use]
    pub fn secret_argument(mut self, name: impl Into<String>) -> Self {
        let names = self.hints.secret_arguments.get_or_insert_default();
        names.push(name.into());
        self
    }

    /// Sets the tool's hints.
    ///
    /// ```
    /// use serde_json::json;
    /// use windlass_core::tools::{Tool, ToolHints};
    /// use windlass_runtime::tool_fn;
    ///
    /// let fetch = tool_fn("fetch", "Fetches a page", json!({ "type": "object" }), |_, _| async { Ok("…") })
    ///     .with_hints(ToolHints::default().with_open_world(true).with_timeout_ms(5_000));
    /// assert_eq!(fetch.hints().timeout_ms, Some(5_000));
    /// ```
    #[must_use]
    pub fn with_hints(mut self, hints: ToolHints) -> Self {
        self.hints = hints;
        self
    }
}

#[async_trait]
impl Tool for FnTool {
    fn name(&self) -> &str {
        &self.name
    }
    fn description(&self) -> &str {
        &self.description
    }
    fn parameters_schema(&self) -> Value {
        self.parameters.clone()
    }
    fn policy(&self) -> ToolPolicy {
        self.policy
    }
    fn hints(&self) -> ToolHints {
        self.hints.clone()
    }
    async fn execute(&self, arguments: Value) -> ToolExecutionResult {
        let nowhere = ToolContext::new(SessionId::from_uuid(Uuid::nil()));
        (self.run)(arguments, nowhere).await
    }
    async fn execute_with_context(
        &self,
        arguments: Value,
        context: &ToolContext,
    ) -> ToolExecutionResult {
        (self.run)(arguments, context.clone()).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[tokio::test]
    async fn closure_result_is_the_tool_result() {
        let parse = tool_fn("parse", "", json!({}), |args: Value, _| async move {
            let text = args["text"].as_str().ok_or("`text` is missing")?;
            Ok(text.parse::<i64>()?)
        });
        let read = async |args| parse.execute(args).await.into_tool_result("c", "parse");
        assert_eq!(read(json!({"text": "7"})).await.result, Some(json!(7)));
        let error = read(json!({"text": "x"})).await.error;
        assert_eq!(error.as_deref(), Some("invalid digit found in string"));
        assert_eq!(
            read(json!({})).await.error.as_deref(),
            Some("`text` is missing")
        );
    }

    #[test]
    fn hints_and_policy_are_part_of_the_definition() {
        let tool = || tool_fn("t", "d", json!({}), |_, _| async { Ok(()) });
        assert_eq!(tool().hints().side_effects(), SideEffectClass::AtMostOnce);
        assert_eq!(
            tool().read_only().hints().side_effects(),
            SideEffectClass::Pure
        );
        let definition = tool().requires_approval().to_definition();
        assert_eq!(definition.policy(), ToolPolicy::RequiresApproval);
    }
}
