//! `docs/events.md` documents every event, with an example of the shape that the daemon sends.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::{Value, json};
use windlass_protocol::{EventName, RuntimeEventEnvelope};
use windlass_testkit::Answer;

use crate::support::{Daemon, Frame, Home, ScriptedModel, text};

/// Names that clients know and that Windlass does not send yet. Their sections state this.
const NEVER_SENT: [EventName; 5] = [
    EventName::SandboxDenied,
    EventName::AgentSpawned,
    EventName::AgentProgress,
    EventName::AgentCompleted,
    EventName::AgentList,
];

fn page() -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/events.md");
    std::fs::read_to_string(page).unwrap()
}

/// Returns the sections of the page whose headings are event names.
fn sections() -> BTreeMap<String, String> {
    let page = page();
    let sections = page.split("\n### ").skip(1);
    let named = sections.map(|section| {
        let (title, rest) = section.split_once('\n').unwrap();
        // The next chapter is not part of the section.
        let rest = rest.split("\n## ").next().unwrap_or_default();
        (title.trim_matches('`').to_owned(), rest.to_owned())
    });
    named.collect()
}

fn example(section: &str) -> Option<Value> {
    let (_, rest) = section.split_once("```json\n")?;
    let (example, _) = rest.split_once("```")?;
    Some(serde_json::from_str(example).unwrap())
}

#[test]
fn every_event_has_a_section_with_a_valid_example() {
    let sections = sections();
    let names: BTreeSet<&str> = EventName::ALL.iter().map(|name| name.as_str()).collect();
    let documented: BTreeSet<&str> = sections.keys().map(String::as_str).collect();
    assert_eq!(documented, names);
    for name in EventName::ALL {
        let section = &sections[name.as_str()];
        let Some(example) = example(section) else {
            assert!(NEVER_SENT.contains(name), "{name:?} has no example");
            assert!(section.contains("not sent"), "{name:?}: {section}");
            continue;
        };
        assert!(!NEVER_SENT.contains(name), "{name:?} has an example");
        assert_eq!(example["kind"], name.as_str());
        let event: RuntimeEventEnvelope = serde_json::from_value(example.clone()).unwrap();
        assert_eq!(event.payload.name(), name.as_str());
        assert_eq!(serde_json::to_value(&event).unwrap(), example, "{name:?}");
    }
}

const QUESTION: &str = r#"{"questions":[{"header":"Colour","id":"colour","question":"Which colour?","options":[{"label":"Red","description":"warm"},{"label":"Blue","description":"cold"}]}]}"#;

/// A model whose behaviour depends on the last word of the prompt.
fn model() -> ScriptedModel {
    ScriptedModel::answering(|request| {
        let messages = request["messages"].as_array().unwrap();
        let blocks = messages.last().unwrap()["content"].as_array().unwrap();
        let last = blocks.last().unwrap();
        let call = match last["text"].as_str().unwrap_or_default() {
            "What is the weather?" => ("weather", "{}"),
            "Run it." => ("shell", r#"{"command":"make test"}"#),
            "Read it." => ("read", r#"{"path":"missing.txt"}"#),
            "Paint it." => ("request_user_input", QUESTION),
            _ => return Answer::text(&["It is up."]),
        };
        Answer::default().with_call("toolu_1", call.0, &[call.1])
    })
}

/// The event that parks a turn, and the function that resolves it; its text argument is the path of the turn.
type PendingStep<'a> = (&'a str, &'a dyn Fn(&str, &Frame));

/// The first event of each name that the daemon sent.
struct SentEvents {
    events: BTreeMap<String, Value>,
}

impl SentEvents {
    /// Runs a turn to its end, resolving `wait` if the turn parks.
    fn turn(&mut self, daemon: &Daemon, thread: &str, prompt: &str, wait: Option<PendingStep<'_>>) {
        let since = daemon.detail(thread)["latest_seq"].as_u64().unwrap();
        let mut events = daemon.client.events(thread, since);
        let turn = daemon.turn(thread, prompt);
        let mut frames = Vec::new();
        if let Some((name, act)) = wait {
            frames = events.until(name);
            act(&turn, frames.last().unwrap());
        }
        frames.extend(events.until("turn.completed"));
        self.keep(frames);
    }

    fn keep(&mut self, frames: Vec<Frame>) {
        for frame in frames {
            self.events.entry(frame.event).or_insert(frame.data);
        }
    }
}

fn thread_of(daemon: &Daemon) -> String {
    let weather = json!({
        "name": "weather", "description": "Tells the weather.", "input_schema": {"type": "object"},
    });
    daemon.thread(&json!({"dynamic_tools": [weather], "allow_shell": true}))
}

/// Makes a daemon send every known event.
fn all_sent_events() -> BTreeMap<String, Value> {
    let model = model();
    let home = Home::with_model(&model.url());
    let mut sent = SentEvents {
        events: BTreeMap::new(),
    };
    let daemon = home.start();
    let thread = thread_of(&daemon);
    let client = &daemon.client;
    let post = |path: String, body: Value| {
        let answer = client.post(&path, &body);
        let status = answer.status;
        assert!(status < 300, "{path}: {}", answer.body);
        answer.expect(status)
    };
    let title = json!({"title": "The crate"}).to_string();
    client.request("PATCH", &thread, &[], &title).expect(200);
    sent.keep(client.events(&thread, 0).replay());
    sent.turn(&daemon, &thread, "Lift the crate.", None);
    let since = daemon.detail(&thread)["latest_seq"].as_u64().unwrap();
    let body = json!({"prompt": "Weigh it.", "output_schema": {"type": "object"}});
    post(format!("{thread}/turns"), body);
    sent.keep(client.events(&thread, since).until("turn.completed"));
    let fork = post(format!("{thread}/fork"), json!({}));
    let fork = format!("/v1/threads/{}", text(&fork["id"]));
    sent.keep(client.events(&fork, 0).replay());

    let answer_call = |turn: &str, frame: &Frame| {
        post(format!("{turn}/steer"), json!({"prompt": "Be brief."}));
        let call = text(&frame.data["payload"]["call_id"]);
        let result = json!({"success": true, "content": [{"type": "input_text", "text": "rain"}]});
        post(format!("{turn}/tool-calls/{call}/result"), result);
    };
    let weather = "What is the weather?";
    sent.turn(
        &daemon,
        &thread,
        weather,
        Some(("tool_call.requested", &answer_call)),
    );
    let stop = |turn: &str, _: &Frame| {
        post(format!("{turn}/interrupt"), json!({}));
    };
    sent.turn(
        &daemon,
        &thread,
        weather,
        Some(("tool_call.requested", &stop)),
    );
    let deny = |_: &str, frame: &Frame| {
        let id = text(&frame.data["payload"]["approval_id"]);
        post(format!("/v1/approvals/{id}"), json!({"decision": "deny"}));
    };
    sent.turn(
        &daemon,
        &thread,
        "Run it.",
        Some(("approval.required", &deny)),
    );
    sent.turn(&daemon, &thread, "Read it.", None);
    let id_of = thread.trim_start_matches("/v1/threads/");
    let answer = |_: &str, frame: &Frame| {
        let id = text(&frame.data["payload"]["input_id"]);
        let answers = json!({"answers": [{"id": "colour", "label": "Red", "value": "Red"}]});
        post(format!("/v1/user-input/{id_of}/{id}"), answers);
    };
    let frame = "user_input.required";
    sent.turn(&daemon, &thread, "Paint it.", Some((frame, &answer)));
    sent.turn(&daemon, &thread, "Paint it.", Some((frame, &stop)));
    daemon.stop();

    // This approval gets no decision.
    home.configure("[limits]\nwait_seconds = 1\n");
    let daemon = home.start();
    let thread = thread_of(&daemon);
    sent.turn(&daemon, &thread, "Run it.", None);
    sent.turn(&daemon, &thread, weather, None);
    queue_events(&mut sent);
    sent.events
}

/// Edits the queue of a thread whose model does not answer.
fn queue_events(sent: &mut SentEvents) {
    let model = ScriptedModel::start();
    let home = Home::with_model(&model.url());
    let daemon = home.start();
    let thread = daemon.thread(&json!({}));
    daemon.turn(&thread, "Lift the crate.");
    let queue = |prompt: &str| {
        let body = json!({"prompt": prompt, "on_busy": "queue"});
        let queued = daemon.client.post(&format!("{thread}/turns"), &body);
        let queued = queued.expect(201);
        format!("{thread}/queue/{}", text(&queued["turn"]["id"]))
    };
    let (first, second) = (queue("Lower it."), queue("Paint it."));
    let edit = json!({"prompt": "Lower it slowly.", "position": 1}).to_string();
    let client = &daemon.client;
    client.request("PATCH", &first, &[], &edit).expect(200);
    assert_eq!(client.request("DELETE", &second, &[], "").status, 204);
    let path = format!("{thread}/events?include=queue");
    sent.keep(client.follow(&path, 0).until("input.removed"));
}

/// Returns the field names of an envelope, of its payload, and of the objects in it.
fn shape(event: &Value) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let object = |value: &Value| value.as_object().cloned().unwrap_or_default();
    for (name, value) in object(event) {
        names.insert(name.clone());
        for (inner, value) in object(&value).into_iter().filter(|_| name == "payload") {
            names.insert(format!("payload.{inner}"));
            let deeper = object(&value).into_iter();
            names.extend(deeper.map(|(name, _)| format!("payload.{inner}.{name}")));
        }
    }
    names
}

#[test]
fn examples_have_the_shape_of_real_events() {
    let sent = all_sent_events();
    let names: BTreeSet<&str> = sent.keys().map(String::as_str).collect();
    let known = EventName::ALL
        .iter()
        .filter(|name| !NEVER_SENT.contains(name));
    let known: BTreeSet<&str> = known.map(|name| name.as_str()).collect();
    assert_eq!(names, known);
    let sections = sections();
    for (name, event) in &sent {
        let shown = sections.get(name).and_then(|section| example(section));
        let shown = shown.unwrap_or_default();
        assert_eq!(
            shape(&shown),
            shape(event),
            "the example of {name} is out of date; this is one:\n{}",
            serde_json::to_string_pretty(event).unwrap()
        );
    }
}
