//! The built-in capabilities in turns.

use serde_json::{Value, json};
use windlass_core::capabilities::{Capability, SkillContribution};
use windlass_core::capability_types::AgentCapabilityConfig;
use windlass_core::error::AgentLoopError;
use windlass_core::llmsim_driver::LlmSimConfig;
use windlass_core::message::InputMessage;

use super::{calls, results, says, scripted};
use crate::{Conversation, ConversationError};

/// Runs one turn in which the model makes these calls one after the other.
async fn run(
    capability: impl Into<AgentCapabilityConfig>,
    turns: Vec<(&str, Value)>,
) -> (Conversation, Vec<Value>) {
    let script = turns.into_iter().map(|(tool, args)| calls(tool, args));
    let script = script.chain([says("done")]).collect();
    let (builder, _) = scripted(LlmSimConfig::scripted(script));
    let mut chat = builder.capability(capability).start().await.unwrap();
    let reply = chat.say("Go, and mind the boat").await.unwrap();
    assert_eq!(reply.text, "done");
    let results = results(&chat).await;
    (chat, results)
}

#[tokio::test]
async fn files_are_written_edited_listed_searched_and_deleted() {
    let edit = json!({"path": "/a/b.txt", "old_string": "two", "new_string": "three"});
    let (chat, results) = run(
        "session_file_system",
        vec![
            (
                "write_file",
                json!({"path": "/a/b.txt", "content": "one\ntwo\n"}),
            ),
            ("edit_file", edit.clone()),
            ("edit_file", edit),
            ("grep_files", json!({"pattern": "^thr.e$"})),
            ("list_directory", json!({"path": "/a"})),
            ("list_directory", json!({"path": "/nowhere"})),
            ("delete_file", json!({"path": "/a", "recursive": true})),
            ("stat_file", json!({"path": "/a"})),
        ],
    )
    .await;
    assert_eq!(results[1]["line"], 2);
    assert!(
        results[2]
            .as_str()
            .unwrap()
            .contains("0 matches in /a/b.txt")
    );
    assert_eq!(results[3]["matches"][0]["line_number"], 2);
    assert_eq!(results[4]["entries"][0]["name"], "b.txt");
    assert_eq!(results[5], "there is nothing at /nowhere");
    assert_eq!(results[7]["kind"], "missing");
    assert_eq!(chat.read_file("/a/b.txt").await.unwrap(), None);
}

#[tokio::test]
async fn instructions_are_read_anew_for_every_turn() {
    let write = calls(
        "write_file",
        json!({"path": "/AGENTS.md", "content": "Use spaces."}),
    );
    let (builder, requests) = scripted(LlmSimConfig::scripted(vec![write, says("ok")]));
    let builder = builder
        .capability("agent_instructions")
        .capability("session_file_system");
    let mut chat = builder
        .file("/AGENTS.md", "Use tabs.")
        .start()
        .await
        .unwrap();
    chat.say("Change it").await.unwrap();
    chat.say("And now?").await.unwrap();
    let requests = requests.lock().unwrap();
    let says = |call: usize, text: &str| requests[call].system_prompt.contains(text);
    assert!(says(0, "Use tabs.") && says(1, "Use tabs."));
    assert!(says(2, "Use spaces.") && !says(2, "Use tabs."));
}

struct WithSkill;

impl Capability for WithSkill {
    fn id(&self) -> &str {
        "with_skill"
    }
    fn name(&self) -> &str {
        "With a skill"
    }
    fn description(&self) -> &str {
        ""
    }
    fn contribute_skills(&self) -> Vec<SkillContribution> {
        vec![SkillContribution {
            name: "knots".into(),
            description: "Ties \"knots\":\n---\nall of them".into(),
            instructions: "Over, under, through.".into(),
            files: [("bowline.md".to_owned(), "A loop.".to_owned())].into(),
        }]
    }
}

#[tokio::test]
async fn r31_skills_of_capabilities_are_read_only() {
    let path = "/.agents/skills/knots/SKILL.md";
    let script = vec![
        calls("activate_skill", json!({"name": "knots"})),
        calls("write_file", json!({"path": path, "content": "x"})),
        says("ok"),
    ];
    let (builder, requests) = scripted(LlmSimConfig::scripted(script));
    let builder = builder
        .add_capability(WithSkill)
        .capability("skills")
        .capability("session_file_system");
    let mut chat = builder.start().await.unwrap();
    chat.say("Tie").await.unwrap();
    let results = results(&chat).await;
    assert_eq!(results[0]["instructions"], "Over, under, through.");
    assert_eq!(results[0]["description"], "Ties \"knots\": --- all of them");
    assert_eq!(
        results[0]["files"],
        json!(["/.agents/skills/knots/bowline.md"])
    );
    assert_eq!(results[1], format!("file is read-only: {path}"));
    assert!(
        requests.lock().unwrap()[0]
            .system_prompt
            .contains("- knots: Ties")
    );
}

#[tokio::test]
async fn r22_tools_can_search_the_history() {
    let query = json!({"search": "BOAT"});
    let (_, results) = run(
        "infinity_context",
        vec![("query_history", query.clone()), ("query_history", query)],
    )
    .await;
    for found in results {
        assert_eq!(found["count"], 1, "{found}");
        assert_eq!(found["messages"][0]["text"], "Go, and mind the boat");
    }
}

#[tokio::test]
async fn session_tools_read_and_rename_the_session() {
    let (chat, results) = run(
        "session",
        vec![
            ("write_session_title", json!({"title": "Boats"})),
            ("get_session_info", json!({})),
        ],
    )
    .await;
    assert_eq!(
        (&results[1]["title"], &results[1]["status"]),
        (&json!("Boats"), &json!("active"))
    );
    let session = chat.runtime().session(chat.session_id()).await.unwrap();
    assert_eq!(session.title.as_deref(), Some("Boats"));
}

#[tokio::test]
async fn r71_secret_is_returned_only_when_requested_by_name() {
    let (_, results) = run(
        "session_storage",
        vec![
            (
                "secret_store",
                json!({"operation": "set", "name": "pin", "value": "4711"}),
            ),
            ("secret_store", json!({"operation": "list"})),
            ("kv_store", json!({"operation": "get", "key": "pin"})),
            ("secret_store", json!({"operation": "get", "name": "pin"})),
        ],
    )
    .await;
    let shown: Vec<_> = results
        .iter()
        .map(|r| r.to_string().contains("4711"))
        .collect();
    assert_eq!(shown, [false, false, false, true]);
    assert_eq!(results[2]["found"], false);
}

#[tokio::test]
async fn answer_outside_of_the_options_is_refused_and_the_question_stays_open() {
    let closed = |id: &str| json!({"id": id, "question": "Which?", "options": [{"label": "Red"}, {"label": "Blue"}]});
    let mut open = closed("open");
    open["allow_free_text"] = json!(true);
    let asks = |questions: Value| calls("request_user_input", json!({ "questions": questions }));
    let script = vec![
        asks(json!([closed("colour"), open])),
        asks(json!([closed("colour")])),
        says("done"),
    ];
    let (builder, _) = scripted(LlmSimConfig::scripted(script));
    let mut chat = builder.capability("ask_user").start().await.unwrap();
    let waiting = chat.say("Paint").await.unwrap();
    let answer = |colour: &str| {
        json!({"answers": [
            {"id": "colour", "label": colour, "value": colour},
            {"id": "open", "label": "Other", "value": "green"},
        ]})
    };
    let refused = chat.answer(&waiting.pending[0], answer("Green")).await;
    match refused.unwrap_err() {
        ConversationError::Runtime(AgentLoopError::InvalidAnswer(misfit)) => {
            assert_eq!(
                (misfit.question.as_str(), misfit.options),
                ("colour", vec!["Red".to_owned(), "Blue".to_owned()])
            );
        }
        other => panic!("{other}"),
    }
    let waiting = chat
        .answer(&waiting.pending[0], answer("Blue"))
        .await
        .unwrap();
    let again = &waiting.pending[0];
    assert!(chat.answer(again, "Green").await.is_err());
    assert_eq!(chat.answer(again, "Red").await.unwrap().text, "done");
    assert_eq!(results(&chat).await, [answer("Blue"), json!("Red")]);
}

#[tokio::test]
async fn repeated_call_is_blocked_at_the_configured_count_in_every_turn() {
    let add = ("add", json!({"a": 1, "b": 1}));
    let guard = AgentCapabilityConfig::with_config("loop_detection", json!({"max_repeats": 2}));
    let script = vec![calls(add.0, add.1.clone()); 4];
    let script = script
        .into_iter()
        .chain([says("done"), calls(add.0, add.1), says("ok")]);
    let (builder, _) = scripted(LlmSimConfig::scripted(script.collect()));
    let mut chat = builder
        .capability("test_math")
        .capability(guard)
        .start()
        .await
        .unwrap();
    chat.say("Add").await.unwrap();
    chat.say("Add again").await.unwrap();
    let is_blocked = |result: &Value| {
        result
            .as_str()
            .is_some_and(|text| text.starts_with("blocked: `add`"))
    };
    let blocked: Vec<_> = results(&chat).await.iter().map(is_blocked).collect();
    assert_eq!(blocked, [false, false, true, true, false]);
}

#[tokio::test]
async fn metadata_is_shown_to_the_model_and_not_stored() {
    let (builder, requests) = scripted(LlmSimConfig::fixed("ok"));
    let mut chat = builder
        .capability("message_metadata")
        .start()
        .await
        .unwrap();
    let input = InputMessage {
        metadata: Some([("ticket".to_owned(), json!("A-1"))].into()),
        ..InputMessage::user("Hi")
    };
    chat.say(input).await.unwrap();
    let seen = requests.lock().unwrap()[0]
        .history
        .last()
        .unwrap()
        .text()
        .unwrap()
        .to_owned();
    assert!(
        seen.starts_with("[metadata {")
            && seen.contains("\"ticket\":\"A-1\"")
            && seen.ends_with("]\nHi"),
        "{seen}"
    );
    assert_eq!(chat.messages().await.unwrap()[0].text(), Some("Hi"));
}

#[tokio::test]
async fn todo_list_current_time_and_noop_work_in_a_turn() {
    let todos = json!({"todos": [{"content": "Sail", "status": "in_progress"}]});
    let (_, results) = run("stateless_todo_list", vec![("write_todos", todos)]).await;
    assert_eq!(results[0]["in_progress"], 1);
    let (_, results) = run(
        "current_time",
        vec![("get_current_time", json!({"utc_offset": "+02:00"}))],
    )
    .await;
    assert!(results[0]["time"].as_str().unwrap().ends_with("+02:00"));
    run("noop", vec![]).await;
}

#[tokio::test]
async fn invalid_configuration_is_refused_at_the_start() {
    for (id, config) in [
        ("loop_detection", json!({"max_repeats": 0})),
        ("agent_instructions", json!({"max_bytes": "much"})),
        ("message_metadata", json!({"tim": true})),
    ] {
        let (builder, _) = scripted(LlmSimConfig::default());
        let capability = AgentCapabilityConfig::with_config(id, config);
        let error = builder.capability(capability).start().await.unwrap_err();
        assert!(error.to_string().contains(&format!("`{id}`")), "{error}");
    }
}
