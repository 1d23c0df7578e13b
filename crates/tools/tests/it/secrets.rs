//! Secrets of the operator in commands: the command has them, and they appear nowhere else.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use windlass_core::capabilities::{AgentCapabilityConfig, Capability};
use windlass_core::events::EventData;
use windlass_core::llmsim_driver::{LlmSimConfig, SimToolCall, SimTurn};
use windlass_core::message::InputMessage;
use windlass_core::named_secrets::{NamedSecret, NamedSecrets};
use windlass_core::tools::{Tool, ToolExecutionResult};
use windlass_core::traits::ToolContext;
use windlass_core::turn_request::TurnRequest;
use windlass_runtime::{Conversation, RuntimeSettings};
use windlass_tools::{FilesCapability, OutputLimits, Outputs, ShellCapability};

use crate::outputs::path_in;
use crate::support::{TestWorkspace, sandboxes};

const VALUE: &str = "s3cr/t+value=0042";
/// Forms in which the secret must not appear: plain, percent-encoded, hexadecimal, and in base64 at any offset.
const FORMS: [&str; 7] = [
    VALUE,
    "s3cr%2Ft%2Bvalue%3D0042",
    "733363722f742b76616c75653d30303432",
    "733363722F742B76616C75653D30303432",
    "czNjci90K3ZhbHVlPTAwNDI",
    "MzY3IvdCt2YWx1ZT0wMDQy",
    "zM2NyL3QrdmFsdWU9MDA0M",
];

fn secrets() -> NamedSecrets {
    named(VALUE)
}

fn named(value: &str) -> NamedSecrets {
    let secret = NamedSecret {
        name: "TOKEN".to_owned(),
        value: value.to_owned(),
        in_commands: true,
        header: None,
        agents: vec!["ci".to_owned()],
    };
    NamedSecrets::new(vec![secret]).unwrap()
}

/// A conversation whose model makes these calls, one in each turn.
async fn conversation(workspace: &TestWorkspace, calls: Vec<SimToolCall>) -> Conversation {
    let turns = calls.into_iter().flat_map(|call| {
        [
            SimTurn::ToolCalls(vec![call]),
            SimTurn::Assistant("done".into()),
        ]
    });
    let files = FilesCapability::new(workspace.environments.clone());
    let shell = ShellCapability::new(workspace.environments.clone(), workspace.settings.clone());
    let settings = RuntimeSettings::default().secrets(secrets());
    let never = json!({ "approval": "never" });
    Conversation::builder()
        .simulator(LlmSimConfig::scripted(turns.collect()))
        .with_runtime(|runtime| {
            runtime
                .settings(settings)
                .capability(files)
                .capability(shell)
        })
        .capability(AgentCapabilityConfig::with_config("files", never.clone()))
        .capability(AgentCapabilityConfig::with_config("shell", never))
        .start()
        .await
        .unwrap()
}

fn shell(command: &str) -> SimToolCall {
    SimToolCall::new("shell", json!({ "command": command }))
}

/// Returns the last result that the model received.
async fn result(chat: &Conversation) -> Value {
    let messages = chat.messages().await.unwrap();
    let mut results = messages
        .iter()
        .filter_map(|message| message.tool_result_content());
    let last = results.next_back().unwrap();
    match (&last.result, &last.error) {
        (Some(result), _) => result.clone(),
        (None, error) => json!({ "error": error }),
    }
}

/// Checks that no recorded event contains the secret.
async fn assert_secret_is_masked(chat: &Conversation, what: &str) {
    let events = chat.runtime().events().await.unwrap();
    let recorded = serde_json::to_string(&events).unwrap();
    for form in FORMS {
        assert!(!recorded.contains(form), "{what}: {form} in {recorded}");
    }
}

#[tokio::test]
async fn printed_secret_is_masked_in_every_form() {
    if sandboxes().is_empty() {
        return;
    }
    let workspace = TestWorkspace::new();
    let commands = [
        "printf %s \"$TOKEN\"",
        "env",
        "printf %s \"$TOKEN\" | base64",
        "printf 'a%s' \"$TOKEN\" | base64",
        "printf 'ab%s' \"$TOKEN\" | base64",
        "printf %s \"$TOKEN\" | od -An -v -tx1 | tr -d ' \\n'",
        "printf %s \"$TOKEN\" | od -An -v -tx1 | tr -d ' \\n' | tr a-f A-F",
        "printf %s \"$TOKEN\" | sed 's,/,%2F,g; s,+,%2B,g; s,=,%3D,g'",
        "printf %s \"$TOKEN\" >&2; exit 3",
    ];
    let mut chat = conversation(&workspace, commands.map(shell).to_vec()).await;
    for command in commands {
        assert_eq!(chat.say("go").await.unwrap().text, "done");
        let ran = result(&chat).await;
        let output = ran["output"].as_str().unwrap();
        assert!(output.contains("[secret:TOKEN]"), "{command}: {ran}");
        assert_secret_is_masked(&chat, command).await;
    }
}

#[tokio::test]
async fn secret_printed_in_parts_is_masked_in_streamed_output() {
    if sandboxes().is_empty() {
        return;
    }
    let workspace = TestWorkspace::new();
    let command = "printf 'it is %s' \"${TOKEN:0:6}\"; sleep 0.4; printf %s \"${TOKEN:6:5}\"; sleep 0.4; echo \"${TOKEN:11}\"; printf s3";
    let mut chat = conversation(&workspace, vec![shell(command)]).await;
    chat.say("go").await.unwrap();
    let events = chat.runtime().events().await.unwrap();
    let shown: String = events
        .iter()
        .filter_map(|event| match &event.data {
            EventData::ToolOutputDelta(data) => Some(data.delta.as_str()),
            _ => None,
        })
        .collect();
    // The last characters are shown too, although a secret begins with them.
    assert_eq!(shown, "it is [secret:TOKEN]\ns3");
    assert_secret_is_masked(&chat, "pieces").await;
}

#[tokio::test]
async fn truncated_output_contains_no_partial_secret() {
    if sandboxes().is_empty() {
        return;
    }
    let workspace = TestWorkspace::new();
    // A secret at each boundary: the end of the retained beginning, the end of live output, and the start of the retained end.
    let command = "fill() { head -c $1 /dev/zero | tr '\\0' $2; }; \
        fill 16380 x; printf %s \"$TOKEN\"; fill 49135 y; printf %s \"$TOKEN\"; fill 60000 v; printf %s \"$TOKEN\"; fill 16375 z";
    let mut chat = conversation(&workspace, vec![shell(command)]).await;
    assert_eq!(chat.say("go").await.unwrap().text, "done");
    let ran = result(&chat).await;
    let output = ran["output"].as_str().unwrap();
    assert!(
        output.contains("xxx\n[… ") && output.contains(" …]\nzzz"),
        "{ran}"
    );
    let events = chat.runtime().events().await.unwrap();
    let recorded = serde_json::to_string(&events).unwrap();
    assert!(recorded.contains("more output is not shown while the command runs"));
    for half in ["s3cr", "alue=0042"] {
        assert!(!recorded.contains(half), "{half} in {recorded}");
    }
}

/// A tool that records the context it receives from the runtime.
#[derive(Clone, Default)]
struct ContextTool(Arc<Mutex<Option<ToolContext>>>);

impl Capability for ContextTool {
    fn id(&self) -> &str {
        "grab"
    }
    fn name(&self) -> &str {
        "Grab"
    }
    fn description(&self) -> &str {
        "Keeps a context."
    }
    fn tools(&self) -> Vec<Box<dyn Tool>> {
        vec![Box::new(self.clone())]
    }
}

#[async_trait]
impl Tool for ContextTool {
    fn name(&self) -> &str {
        "grab"
    }
    fn description(&self) -> &str {
        "Keeps a context."
    }
    fn parameters_schema(&self) -> Value {
        json!({ "type": "object" })
    }
    fn requires_context(&self) -> bool {
        true
    }
    async fn execute(&self, _arguments: Value) -> ToolExecutionResult {
        ToolExecutionResult::tool_error("no context")
    }
    async fn execute_with_context(
        &self,
        _arguments: Value,
        context: &ToolContext,
    ) -> ToolExecutionResult {
        *self.0.lock().unwrap() = Some(context.clone());
        ToolExecutionResult::success(json!("stored"))
    }
}

/// Returns the context of a tool in a conversation with the secret.
async fn context() -> (ToolContext, Conversation) {
    context_with(secrets()).await
}

pub(crate) async fn context_with(secrets: NamedSecrets) -> (ToolContext, Conversation) {
    let grab = ContextTool::default();
    let settings = RuntimeSettings::default().secrets(secrets);
    let turns = vec![
        SimTurn::ToolCalls(vec![SimToolCall::new("grab", json!({}))]),
        SimTurn::Assistant("done".into()),
    ];
    let with_grab = grab.clone();
    let mut chat = Conversation::builder()
        .simulator(LlmSimConfig::scripted(turns))
        .with_runtime(|runtime| runtime.settings(settings).capability(with_grab))
        .capability(AgentCapabilityConfig::new("grab"))
        .start()
        .await
        .unwrap();
    chat.say("go").await.unwrap();
    let context = grab.0.lock().unwrap().clone().unwrap();
    (context, chat)
}

/// The tools of a workspace, each called as in a conversation with the secret.
struct SessionCalls {
    tools: Vec<Box<dyn Tool>>,
    context: ToolContext,
}

impl SessionCalls {
    async fn call(&self, name: &str, arguments: Value) -> Value {
        let tool = self.tools.iter().find(|tool| tool.name() == name).unwrap();
        match tool.execute_with_context(arguments, &self.context).await {
            ToolExecutionResult::Success(value) => value,
            other => panic!("{other:?}"),
        }
    }
}

/// Fails if a text contains four consecutive characters of the secret outside the whole of it.
fn assert_no_partial_secret(text: &str, what: &str) {
    let rest = text.replace(VALUE, "");
    for at in 0..VALUE.len() - 3 {
        let piece = &VALUE[at..at + 4];
        assert!(!rest.contains(piece), "{what}: {piece}");
    }
}

#[tokio::test]
async fn gap_in_a_long_output_has_no_partial_secret() {
    if sandboxes().is_empty() {
        return;
    }
    let (context, _chat) = context().await;
    let workspace = TestWorkspace::new();
    let limits = OutputLimits {
        bytes_each: 40_000,
        ..OutputLimits::default()
    };
    let store = Outputs::open(workspace.outside().join("store"), limits).unwrap();
    workspace.environments.enable_outputs(store);
    let never = json!({ "approval": "never" });
    let shell = ShellCapability::new(workspace.environments.clone(), workspace.settings.clone());
    let mut tools = shell.tools_with_config(&never);
    tools.extend(FilesCapability::new(workspace.environments.clone()).tools_with_config(&never));
    let called = SessionCalls { tools, context };
    // The file becomes full inside the first secret, and the retained end begins inside the second.
    for half in [1, 6, 16] {
        let fill = |count: usize| format!("head -c {count} /dev/zero | tr '\\0' x");
        let command = format!(
            "{}; printf %s \"$TOKEN\"; {}; printf %s \"$TOKEN\"; {}; echo",
            fill(40_000 - half),
            fill(200_000),
            fill(64 * 1024 - 1 - half),
        );
        let ran = called.call("shell", json!({ "command": command })).await;
        let foreground = path_in(ran["remark"].as_str().unwrap());
        let behind = json!({ "command": command, "background": true });
        let id = called.call("shell", behind).await["id"].clone();
        let requests = json!({ "id": id, "wait_ms": 60_000, "after": 400_000 });
        let done = called.call("shell_output", requests).await;
        assert_eq!(done["status"], "exited", "{done}");
        for path in [foreground, format!("output:{}", id.as_str().unwrap())] {
            let read = called
                .call("read", json!({ "path": path, "start_line": 1 }))
                .await;
            let found = called.call("grep", json!({ "path": path, "pattern": "x$|left out" }));
            for shown in [read, found.await] {
                assert_no_partial_secret(&shown.to_string(), &format!("{half} {path}"));
            }
            let file = workspace.outside().join("store");
            let file = file.join(called.context.session_id.uuid().simple().to_string());
            let file = std::fs::read_to_string(file.join(&path["output:".len()..])).unwrap();
            assert!(file.contains("bytes left out"));
            assert_no_partial_secret(&file, &format!("{half} file"));
        }
        let mut after = 0;
        loop {
            let seen = called
                .call("shell_output", json!({ "id": id, "after": after }))
                .await;
            assert_no_partial_secret(seen["output"].as_str().unwrap(), &format!("{half} {after}"));
            match seen["next"].as_u64().unwrap() {
                next if next > after => after = next,
                _ => break,
            }
        }
    }
}

#[tokio::test]
async fn read_and_grep_show_no_partial_secret() {
    let (context, _chat) = context().await;
    let workspace = TestWorkspace::new();
    let tools = FilesCapability::new(workspace.environments.clone()).tools();
    let called = SessionCalls { tools, context };
    // `read` truncates lines after a number of bytes, `grep` after a number of characters; a long file is read in pieces of 64 KiB.
    for cut in [300, 4 * 1024, 64 * 1024] {
        for half in [1, 8, 16] {
            let line = format!("{}{VALUE}{}", "x".repeat(cut - half), "x".repeat(cut));
            let text = format!("first\n{line}\nlast\n");
            std::fs::write(workspace.root().join("long"), text).unwrap();
            let read = called.call("read", json!({ "path": "long" })).await;
            assert_no_partial_secret(&read.to_string(), &format!("read {cut} {half}"));
            assert_eq!(read["line_count"], 3);
            assert!(read["content"].as_str().unwrap().ends_with("\nlast\n"));
            let requests = json!({ "path": "long", "pattern": "first", "context": 3 });
            let found = called.call("grep", requests).await;
            assert_no_partial_secret(&found.to_string(), &format!("grep {cut} {half}"));
        }
    }
}

#[tokio::test]
async fn multiline_secret_is_masked() {
    let (context, _chat) = context_with(named("-- begin --\nabcdefgh\nijklmnop\n-- end --")).await;
    let workspace = TestWorkspace::new();
    let text = "one\n-- begin --\nabcdefgh\nijklmnop\n-- end --\nsix\nabcdefgh is no secret\n";
    std::fs::write(workspace.root().join("key"), text).unwrap();
    let tools = FilesCapability::new(workspace.environments.clone()).tools();
    let called = SessionCalls { tools, context };
    for line in 1..=6 {
        let requests = json!({ "path": "key", "start_line": line, "lines": 1 });
        let shown = called.call("read", requests).await["content"].clone();
        let expected = ["one\n", "[secret:TOKEN]\n", "\n", "\n", "\n", "six\n"][line - 1];
        assert_eq!(shown, expected, "{line}");
    }
    let found = called.call("grep", json!({ "pattern": "abc|six" })).await;
    let lines: Vec<_> = found["matches"].as_array().unwrap().iter().collect();
    let shown = lines
        .iter()
        .map(|it| (it["line"].as_u64(), it["text"].as_str()));
    let shown: Vec<_> = shown.collect();
    let six = (Some(6), Some("six"));
    let seven = (Some(7), Some("abcdefgh is no secret"));
    assert_eq!(shown, [(Some(3), Some("")), six, seven]);
    // A diff does not show it either, although its lines have a prefix.
    let edit = json!({ "path": "key", "old_string": "six", "new_string": "SIX" });
    let edited = called.call("edit", edit).await;
    let diff = edited["diff"].as_str().unwrap();
    assert!(
        diff.contains("+SIX") && !diff.contains("ijklmnop"),
        "{diff}"
    );
}

#[tokio::test]
async fn background_command_shows_no_partial_secret() {
    if sandboxes().is_empty() {
        return;
    }
    let workspace = TestWorkspace::new();
    let store = Outputs::open(workspace.outside().join("store"), OutputLimits::default()).unwrap();
    workspace.environments.enable_outputs(store);
    let (context, _chat) = context().await;
    let shell = ShellCapability::new(workspace.environments.clone(), workspace.settings.clone());
    let tools = shell.tools_with_config(&json!({ "approval": "never" }));
    let call = async |name: &str, arguments: Value| {
        let tool = tools.iter().find(|tool| tool.name() == name).unwrap();
        match tool.execute_with_context(arguments, &context).await {
            ToolExecutionResult::Success(value) => value,
            other => panic!("{other:?}"),
        }
    };
    let command = "printf 'it is %s' \"${TOKEN:0:6}\"; while ! test -e go; do sleep 0.05; done; echo \"${TOKEN:6}\"; sleep 1000";
    let begun = call("shell", json!({ "command": command, "background": true })).await;
    let id = &begun["id"];
    let look = async |after: Option<u64>, wait_ms: u64| {
        let arguments = json!({ "id": id, "after": after, "wait_ms": wait_ms });
        call("shell_output", arguments).await
    };
    let first = look(Some(0), 60_000).await;
    assert_eq!(
        (&first["output"], &first["next"]),
        (&json!("it is "), &json!(6))
    );
    // It waits for the next bytes instead of repeatedly returning nothing.
    let waiting = tokio::time::timeout(Duration::from_millis(300), look(Some(6), 60_000));
    assert!(waiting.await.is_err());
    assert_eq!(look(None, 0).await["output"], "it is ");
    std::fs::write(workspace.root().join("go"), "").unwrap();
    let second = look(Some(6), 60_000).await;
    assert_eq!(second["output"], format!("{VALUE}\n"));
    // A request with an offset inside the secret does not reveal a part of it.
    for after in 7..6 + VALUE.len() as u64 {
        let rest = look(Some(after), 0).await;
        assert_eq!(rest["output"], "\n", "{after}");
    }
    let stopped = call("shell_stop", json!({ "id": id })).await;
    assert_eq!(stopped["output"], format!("it is {VALUE}\n"));
    // A reader with a limit below the secret's length gets it complete and masked by the runtime, or not at all.
    let mut few = workspace.settings.clone();
    few.max_output_bytes = 7;
    let shell = ShellCapability::new(workspace.environments.clone(), few);
    let tools = shell.tools();
    let tool = tools.iter().find(|tool| tool.name() == "shell_output");
    let (mut after, mut pieces) = (0, Vec::new());
    loop {
        let arguments = json!({ "id": id, "after": after });
        let called = tool
            .unwrap()
            .execute_with_context(arguments, &context)
            .await;
        let ToolExecutionResult::Success(seen) = called else {
            panic!("{called:?}");
        };
        let piece = seen["output"].as_str().unwrap().to_owned();
        if piece.is_empty() {
            break;
        }
        pieces.push(piece);
        after = seen["next"].as_u64().unwrap();
    }
    assert_eq!(pieces, ["it is ", VALUE, "\n"]);
}

#[tokio::test]
async fn secret_is_masked_in_errors_and_other_results() {
    if sandboxes().is_empty() {
        return;
    }
    let workspace = TestWorkspace::new();
    let slow = json!({"command": "printf %s \"$TOKEN\"; sleep 600", "timeout_ms": 500});
    let calls = vec![
        SimToolCall::new("shell", slow),
        shell("printf %s \"$TOKEN\" > file"),
        SimToolCall::new("read", json!({"path": "file"})),
        SimToolCall::new("grep", json!({"pattern": "value"})),
    ];
    let mut chat = conversation(&workspace, calls).await;
    for (what, is_shown) in [
        ("time", true),
        ("write", false),
        ("read", true),
        ("grep", true),
    ] {
        chat.say("go").await.unwrap();
        let text = result(&chat).await.to_string();
        assert_eq!(text.contains("[secret:TOKEN]"), is_shown, "{what}: {text}");
        assert_secret_is_masked(&chat, what).await;
    }
    assert_eq!(workspace.text("file"), VALUE);
}

#[tokio::test]
async fn agent_threads_have_the_operators_secrets() {
    if sandboxes().is_empty() {
        return;
    }
    let workspace = TestWorkspace::new();
    let command = "echo \"[${TOKEN-none}]\"";
    let owners = [None, Some("ci"), Some("other")];
    let mut chat = conversation(&workspace, vec![shell(command); owners.len()]).await;
    for owner in owners {
        let input = InputMessage::user("go").with_turn_request(TurnRequest {
            owner: owner.map(str::to_owned),
            ..TurnRequest::default()
        });
        chat.say(input).await.unwrap();
        let expected = match owner {
            Some("other") => "[none]\n",
            _ => "[[secret:TOKEN]]\n",
        };
        assert_eq!(result(&chat).await["output"], expected, "{owner:?}");
    }
}

#[tokio::test]
async fn secret_is_not_in_process_arguments() {
    for way in sandboxes() {
        let workspace = TestWorkspace::confined(way, windlass_tools::Policy::default());
        let mut context = workspace.context();
        context.secrets = Some(secrets());
        let tool = workspace.tool("shell");
        let look = "cat /proc/[0-9]*/cmdline | tr '\\0' '\\n'; [ -n \"$TOKEN\" ] && echo has it";
        let ran = tool
            .execute_with_context(json!({ "command": look }), &context)
            .await;
        let windlass_core::tools::ToolExecutionResult::Success(ran) = ran else {
            panic!("{ran:?}");
        };
        let output = ran["output"].as_str().unwrap();
        assert!(output.contains("has it"), "{way:?}: {output}");
        assert!(!output.contains(VALUE), "{way:?}: {output}");
    }
}

#[test]
fn model_sees_only_secret_names() {
    let mut workspace = TestWorkspace::new();
    workspace.settings.secret_names = vec!["TOKEN".to_owned()];
    let error = workspace.tool("shell").description().to_owned();
    assert!(error.contains("TOKEN") && !error.contains(VALUE), "{error}");
}
