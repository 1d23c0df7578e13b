//! Secrets of the operator in commands: the command has them, and nobody else sees them.

use serde_json::{Value, json};
use windlass_core::capabilities::AgentCapabilityConfig;
use windlass_core::events::EventData;
use windlass_core::llmsim_driver::{LlmSimConfig, SimToolCall, SimTurn};
use windlass_core::message::InputMessage;
use windlass_core::named_secrets::{NamedSecret, NamedSecrets};
use windlass_core::turn_request::TurnRequest;
use windlass_runtime::{Conversation, RuntimeSettings};
use windlass_tools::{FilesCapability, ShellCapability};

use crate::support::{Place, sandboxes};

const VALUE: &str = "s3cr/t+value=0042";
/// How it must not stand anywhere: itself, as a part of an address, in hexadecimal digits, and in base64 wherever it begins.
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
    let secret = NamedSecret {
        name: "TOKEN".to_owned(),
        value: VALUE.to_owned(),
        in_commands: true,
        header: None,
        agents: vec!["ci".to_owned()],
    };
    NamedSecrets::new(vec![secret]).unwrap()
}

/// A conversation whose model makes these calls, one in each turn.
async fn conversation(place: &Place, calls: Vec<SimToolCall>) -> Conversation {
    let turns = calls.into_iter().flat_map(|call| {
        [
            SimTurn::ToolCalls(vec![call]),
            SimTurn::Assistant("done".into()),
        ]
    });
    let files = FilesCapability::new(place.environments.clone());
    let shell = ShellCapability::new(place.environments.clone(), place.settings.clone());
    let settings = RuntimeSettings {
        secrets: secrets(),
        ..RuntimeSettings::default()
    };
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

/// Returns what the model got last.
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

/// Looks through everything that is recorded.
async fn nothing_shows(chat: &Conversation, what: &str) {
    let events = chat.runtime().events().await.unwrap();
    let recorded = serde_json::to_string(&events).unwrap();
    for form in FORMS {
        assert!(!recorded.contains(form), "{what}: {form} in {recorded}");
    }
}

#[tokio::test]
async fn a_secret_that_a_command_prints_is_masked_in_every_form() {
    if sandboxes().is_empty() {
        return;
    }
    let place = Place::new();
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
    let mut chat = conversation(&place, commands.map(shell).to_vec()).await;
    for command in commands {
        assert_eq!(chat.say("go").await.unwrap().text, "done");
        let ran = result(&chat).await;
        let output = ran["output"].as_str().unwrap();
        assert!(output.contains("[secret:TOKEN]"), "{command}: {ran}");
        nothing_shows(&chat, command).await;
    }
}

#[tokio::test]
async fn a_secret_that_is_printed_in_pieces_is_masked_while_the_command_runs() {
    if sandboxes().is_empty() {
        return;
    }
    let place = Place::new();
    let command = "printf 'it is %s' \"${TOKEN:0:6}\"; sleep 0.4; printf %s \"${TOKEN:6:5}\"; sleep 0.4; echo \"${TOKEN:11}\"; printf s3";
    let mut chat = conversation(&place, vec![shell(command)]).await;
    chat.say("go").await.unwrap();
    let events = chat.runtime().events().await.unwrap();
    let shown: String = events
        .iter()
        .filter_map(|event| match &event.data {
            EventData::ToolOutputDelta(data) => Some(data.delta.as_str()),
            _ => None,
        })
        .collect();
    // Also the last letters are shown, though a secret begins like them.
    assert_eq!(shown, "it is [secret:TOKEN]\ns3");
    nothing_shows(&chat, "pieces").await;
}

#[tokio::test]
async fn a_secret_is_masked_in_errors_and_in_what_other_tools_return() {
    if sandboxes().is_empty() {
        return;
    }
    let place = Place::new();
    let slow = json!({"command": "printf %s \"$TOKEN\"; sleep 600", "timeout_ms": 500});
    let calls = vec![
        SimToolCall::new("shell", slow),
        shell("printf %s \"$TOKEN\" > kept"),
        SimToolCall::new("read", json!({"path": "kept"})),
        SimToolCall::new("grep", json!({"pattern": "value"})),
    ];
    let mut chat = conversation(&place, calls).await;
    for (what, is_shown) in [
        ("time", true),
        ("write", false),
        ("read", true),
        ("grep", true),
    ] {
        chat.say("go").await.unwrap();
        let said = result(&chat).await.to_string();
        assert_eq!(said.contains("[secret:TOKEN]"), is_shown, "{what}: {said}");
        nothing_shows(&chat, what).await;
    }
    assert_eq!(place.text("kept"), VALUE);
}

#[tokio::test]
async fn threads_of_agents_have_the_secrets_that_the_operator_gives_them() {
    if sandboxes().is_empty() {
        return;
    }
    let place = Place::new();
    let command = "echo \"[${TOKEN-none}]\"";
    let owners = [None, Some("ci"), Some("other")];
    let mut chat = conversation(&place, vec![shell(command); owners.len()]).await;
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
async fn a_secret_stands_in_no_list_of_arguments() {
    for way in sandboxes() {
        let place = Place::confined(way, windlass_tools::Policy::default());
        let mut context = place.context();
        context.secrets = Some(secrets());
        let tool = place.tool("shell");
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
fn the_model_is_told_names_alone() {
    let mut place = Place::new();
    place.settings.secret_names = vec!["TOKEN".to_owned()];
    let told = place.tool("shell").description().to_owned();
    assert!(told.contains("TOKEN") && !told.contains(VALUE), "{told}");
}
