//! Tools that clients register and execute.

use serde_json::{Value, json};

use crate::support::{TestDaemon, assert_sound, text};

fn reservation() -> Value {
    json!({
        "namespace": "tau_bench", "name": "get_reservation", "description": "Look up a reservation.",
        "input_schema": {"type": "object", "properties": {"reservation_id": {"type": "string"}}, "required": ["reservation_id"]}
    })
}

#[tokio::test]
async fn r28_item_precedes_its_call_and_links_to_it() {
    let daemon = TestDaemon::start().await;
    let thread = daemon.thread(json!({})).await;
    let mut events = daemon.events(&thread, 0).await;
    let turn = daemon
        .turn(
            &thread,
            json!({"prompt": "LOOKUP it", "dynamic_tools": [reservation()]}),
        )
        .await;
    let mut frames = events.until("tool_call.requested").await;
    let requested = frames.last().unwrap().data.clone();
    let item = &frames[frames.len() - 2];
    assert_eq!(item.event, "item.started");
    assert_eq!(item.data["item_id"], requested["item_id"]);
    assert_eq!(
        item.data["payload"]["tool"]["id"],
        requested["payload"]["call_id"]
    );
    assert_eq!(
        item.data["payload"]["tool"]["name"],
        "tau_bench::get_reservation"
    );
    let payload = &requested["payload"];
    assert_eq!(
        (&payload["namespace"], &payload["tool"]),
        (&json!("tau_bench"), &json!("get_reservation"))
    );
    assert_eq!(payload["arguments"], json!({"reservation_id": "ABC123"}));
    let pending = &daemon.detail(&thread).await["pending_dynamic_tool_calls"][0];
    assert_eq!(pending, payload);
    let path = format!("{turn}/tool-calls/{}/result", text(&payload["call_id"]));
    let missing = daemon.client.post(&path, json!({"content": []})).await;
    assert_eq!(
        (missing.status, missing.code().as_str()),
        (422, "invalid_field")
    );
    let misnamed = json!({"success": true, "output": "sunny"});
    let misnamed = daemon.client.post(&path, misnamed).await;
    assert_eq!(misnamed.status, 422, "the call is not used up");
    assert_eq!(misnamed.json()["error"]["details"]["field"], "/content");
    let result = json!({"success": true, "content": [
        {"type": "input_text", "text": "{\"status\":\"confirmed\"}"},
        {"type": "input_image", "image_url": "http://127.0.0.1/x.png"}
    ]});
    let accepted = daemon.client.post(&path, result.clone()).await;
    assert_eq!((accepted.status, accepted.body.len()), (202, 0));
    frames.extend(events.until("turn.completed").await);
    assert_sound(&frames, 0);
    let done = frames
        .iter()
        .find(|frame| {
            frame.event == "item.completed" && frame.data["item_id"] == requested["item_id"]
        })
        .unwrap();
    let item = &done.data["payload"]["item"];
    assert_eq!(
        item["detail"],
        "{\"status\":\"confirmed\"}\n[image] http://127.0.0.1/x.png"
    );
    assert_eq!(item["metadata"]["dynamic_tool"]["status"], "completed");
    assert_eq!(
        daemon.client.post(&path, result).await.status,
        202,
        "an equal repeat"
    );
    let other = daemon.client.post(&path, json!({"success": true})).await;
    assert_eq!(
        (other.status, other.code().as_str()),
        (404, "tool_call_not_pending")
    );
    let resolved = frames
        .iter()
        .find(|frame| frame.event == "tool_call.resolved")
        .unwrap();
    assert_eq!(resolved.data["payload"]["result_accepted"], true);
    assert!(resolved.data["payload"].get("content").is_none());
}

#[tokio::test]
async fn r31_calls_with_the_same_provider_id_are_distinct_and_r45_requested_together() {
    let daemon = TestDaemon::start().await;
    let thread = daemon
        .thread(json!({"dynamic_tools": [reservation()]}))
        .await;
    let mut events = daemon.events(&thread, 0).await;
    let turn = daemon
        .turn(&thread, json!({"prompt": "TWICE please"}))
        .await;
    let first = events.until("tool_call.requested").await.pop().unwrap();
    let second = events.until("tool_call.requested").await.pop().unwrap();
    let calls = [&first, &second].map(|frame| text(&frame.data["payload"]["call_id"]));
    assert_ne!(calls[0], calls[1]);
    // Answered in reverse order; the model reads the results in the order of the calls.
    for (call, output) in calls.iter().zip(["one", "two"]).rev() {
        let body = json!({"success": true, "content": [{"type": "input_text", "text": output}]});
        let reply = daemon
            .client
            .post(&format!("{turn}/tool-calls/{call}/result"), body)
            .await;
        assert_eq!(reply.status, 202);
    }
    events.until("turn.completed").await;
    let messages = daemon.model.messages();
    let results: Vec<_> = messages
        .iter()
        .filter(|line| line.starts_with("tool_result: "))
        .collect();
    assert_eq!(results, ["tool_result: one", "tool_result: two"]);
}

#[tokio::test]
async fn r38_tool_is_offered_with_the_first_request() {
    let daemon = TestDaemon::start().await;
    let thread = daemon.thread(json!({})).await;
    daemon
        .turn(
            &thread,
            json!({"prompt": "hello", "dynamic_tools": [reservation()]}),
        )
        .await;
    daemon
        .events(&thread, 0)
        .await
        .until("turn.completed")
        .await;
    assert!(
        daemon
            .model
            .offered()
            .contains(&"tau_bench__get_reservation".to_owned())
    );
    daemon.say(&thread, "hello").await;
    assert!(
        !daemon
            .model
            .offered()
            .contains(&"tau_bench__get_reservation".to_owned()),
        "it was for one turn"
    );
}

#[tokio::test]
async fn r39_thread_tools_are_available_in_every_turn_and_fork() {
    let daemon = TestDaemon::start().await;
    let thread = daemon
        .thread(json!({"dynamic_tools": [reservation()]}))
        .await;
    for _ in 0..2 {
        daemon.say(&thread, "hello").await;
        assert!(
            daemon
                .model
                .offered()
                .contains(&"tau_bench__get_reservation".to_owned())
        );
    }
    let fork = daemon
        .client
        .raw("POST", &format!("{thread}/fork"), None)
        .await
        .expect(201);
    daemon
        .say(&format!("/v1/threads/{}", text(&fork["id"])), "hello")
        .await;
    assert!(
        daemon
            .model
            .offered()
            .contains(&"tau_bench__get_reservation".to_owned())
    );
    daemon
        .client
        .patch(&thread, json!({"dynamic_tools": []}))
        .await
        .expect(200);
    daemon.say(&thread, "hello").await;
    assert!(
        !daemon
            .model
            .offered()
            .contains(&"tau_bench__get_reservation".to_owned())
    );
}

#[tokio::test]
async fn r40_equal_names_in_two_namespaces_are_two_tools_and_built_ins_stay_visible() {
    let daemon = TestDaemon::start().await;
    let tool = |namespace: Option<&str>, name: &str| {
        let mut tool = json!({"name": name, "description": "", "input_schema": {"type": "object"}});
        if let Some(namespace) = namespace {
            tool["namespace"] = namespace.into();
        }
        tool
    };
    let thread = daemon.thread(json!({"dynamic_tools": [tool(Some("a"), "get"), tool(Some("b"), "get"), tool(Some("c"), "shell")]})).await;
    daemon.say(&thread, "hello").await;
    let offered = daemon.model.offered();
    for name in ["a__get", "b__get", "c__shell", "shell"] {
        assert!(offered.contains(&name.to_owned()), "{offered:?}");
    }
    for name in ["shell", "tool_search"] {
        let body = json!({"dynamic_tools": [tool(None, name)]});
        let refused = daemon.client.post("/v1/threads", body).await;
        assert_eq!(
            (refused.status, refused.code().as_str()),
            (422, "tool_name_taken"),
            "{name}"
        );
    }
}

#[tokio::test]
async fn deferred_tools_are_offered_after_discovery() {
    let daemon = TestDaemon::start().await;
    let tool = |n: usize, defer_loading: bool| {
        json!({"namespace": "ship", "name": format!("haul_{n}"), "description": "Hauls.", "defer_loading": defer_loading,
            "input_schema": {"type": "object"}})
    };
    let mut tools: Vec<_> = (0..100).map(|n| tool(n, true)).collect();
    tools.push(tool(100, false));
    // Within a namespace the name is available.
    tools.push(json!({"namespace": "ship", "name": "tool_search", "description": "", "input_schema": {"type": "object"}}));
    let thread = daemon.thread(json!({ "dynamic_tools": tools })).await;
    daemon.say(&thread, "hello").await;
    let offered = daemon.model.offered();
    let ours = offered.iter().filter(|name| name.contains("ship"));
    let ours: Vec<_> = ours.collect();
    assert_eq!(ours, ["ship__haul_100", "ship__tool_search"]);
    assert!(offered.contains(&"tool_search".to_owned()), "{offered:?}");
}

#[tokio::test]
async fn r41_invalid_arguments_are_returned_to_the_model() {
    let daemon = TestDaemon::start().await;
    let thread = daemon
        .thread(json!({"dynamic_tools": [reservation()]}))
        .await;
    let frames = daemon.say(&thread, "BADARGS please").await;
    assert!(
        frames
            .iter()
            .all(|frame| frame.event != "tool_call.requested")
    );
    let failed = frames
        .iter()
        .find(|frame| frame.event == "item.failed")
        .unwrap();
    assert!(text(&failed.data["payload"]["item"]["detail"]).contains("reservation_id"));
    assert!(
        daemon
            .model
            .messages()
            .iter()
            .any(|line| line.contains("invalid arguments"))
    );
}

#[tokio::test]
async fn r42_invalid_schema_is_refused_and_not_stored() {
    let daemon = TestDaemon::start().await;
    let bad = json!({"name": "x", "description": "", "input_schema": "nope"});
    let reply = daemon
        .client
        .post(
            "/v1/threads",
            json!({"dynamic_tools": [reservation(), bad]}),
        )
        .await;
    assert_eq!(
        (reply.status, reply.code().as_str()),
        (422, "invalid_tool_spec")
    );
    assert_eq!(reply.json()["error"]["details"]["index"], 1);
    assert_eq!(
        daemon.client.get("/v1/threads").await.expect(200),
        json!([])
    );
    let thread = daemon.thread(json!({})).await;
    let reply = daemon
        .client
        .post(
            &format!("{thread}/turns"),
            json!({"prompt": "x", "dynamic_tools": [bad_schema()]}),
        )
        .await;
    assert_eq!(reply.status, 422);
    assert_eq!(daemon.detail(&thread).await["latest_seq"], 1);
}

fn bad_schema() -> Value {
    json!({"name": "x", "description": "", "input_schema": {"type": "object", "properties": 7}})
}

#[tokio::test]
async fn r43_images_reach_the_model_as_images() {
    let daemon = TestDaemon::start().await;
    let thread = daemon
        .thread(json!({"dynamic_tools": [reservation()]}))
        .await;
    let mut events = daemon.events(&thread, 0).await;
    let turn = daemon.turn(&thread, json!({"prompt": "LOOKUP it"})).await;
    let requested = events.until("tool_call.requested").await.pop().unwrap();
    let path = format!(
        "{turn}/tool-calls/{}/result",
        text(&requested.data["payload"]["call_id"])
    );
    let image = |url: &str| json!({"success": true, "content": [{"type": "input_image", "image_url": url}]});
    let bad = daemon.client.post(&path, image("file:///etc/passwd")).await;
    assert_eq!((bad.status, bad.code().as_str()), (422, "invalid_field"));
    assert_eq!(
        daemon
            .client
            .post(&path, image("data:image/png;base64,AAAA"))
            .await
            .status,
        202
    );
    events.until("turn.completed").await;
    let requests = daemon.model.requests();
    let last = requests
        .last()
        .unwrap()
        .history
        .iter()
        .next_back()
        .unwrap()
        .clone();
    let image = last.content.iter().find_map(|part| match part {
        windlass_core::message::ContentPart::Image(image) => Some(image.clone()),
        _ => None,
    });
    assert_eq!(image.unwrap().base64.as_deref(), Some("AAAA"));
}

#[tokio::test]
async fn r44_call_reports_its_deadline() {
    let daemon = TestDaemon::start().await;
    let mut tool = reservation();
    tool["timeout_ms"] = json!(5000);
    let thread = daemon.thread(json!({"dynamic_tools": [tool]})).await;
    let mut events = daemon.events(&thread, 0).await;
    let turn = daemon.turn(&thread, json!({"prompt": "LOOKUP it"})).await;
    let requested = events.until("tool_call.requested").await.pop().unwrap();
    let at = |value: &Value| {
        text(value)
            .parse::<chrono::DateTime<chrono::Utc>>()
            .unwrap()
    };
    let waits = at(&requested.data["payload"]["expires_at"]) - at(&requested.data["timestamp"]);
    assert_eq!(waits.num_milliseconds(), 5000);
    daemon
        .client
        .raw("POST", &format!("{turn}/interrupt"), None)
        .await
        .expect(200);
    let frames = events.until("turn.completed").await;
    let names: Vec<_> = frames.iter().map(|frame| frame.event.as_str()).collect();
    assert_eq!(
        names,
        [
            "turn.interrupt_requested",
            "tool_call.canceled",
            "item.interrupted",
            "turn.completed"
        ]
    );
    let canceled = &frames[1].data["payload"];
    assert_eq!(
        (&canceled["reason"], &canceled["terminal"]),
        (&json!("turn_terminal"), &json!(true))
    );
    let late = daemon
        .client
        .post(
            &format!("{turn}/tool-calls/{}/result", text(&canceled["call_id"])),
            json!({"success": true}),
        )
        .await;
    assert_eq!(
        (late.status, late.code().as_str()),
        (404, "tool_call_not_pending")
    );
}

#[tokio::test]
async fn r46_racing_results_and_interrupt_end_the_call_once() {
    let daemon = TestDaemon::start().await;
    let thread = daemon
        .thread(json!({"dynamic_tools": [reservation()]}))
        .await;
    let mut events = daemon.events(&thread, 0).await;
    for round in 0..50 {
        let turn = daemon.turn(&thread, json!({"prompt": "LOOKUP it"})).await;
        let requested = events.until("tool_call.requested").await.pop().unwrap();
        let path = format!(
            "{turn}/tool-calls/{}/result",
            text(&requested.data["payload"]["call_id"])
        );
        let (one, two, stop) = tokio::join!(
            daemon.client.post(&path, json!({"success": true})),
            daemon.client.post(&path, json!({"success": false})),
            daemon
                .client
                .raw("POST", &format!("{turn}/interrupt"), None),
        );
        let accepted = [&one, &two]
            .iter()
            .filter(|reply| reply.status == 202)
            .count();
        let frames = events.until("turn.completed").await;
        let ends = frames
            .iter()
            .filter(|frame| frame.event.starts_with("tool_call."))
            .count();
        assert_eq!(
            ends, 1,
            "round {round}: {} {} {}",
            one.status, two.status, stop.status
        );
        let resolved = frames
            .iter()
            .any(|frame| frame.event == "tool_call.resolved");
        assert_eq!(accepted, usize::from(resolved), "round {round}");
    }
}

#[tokio::test]
async fn r47_turn_is_offered_exactly_the_allowed_tools() {
    let daemon = TestDaemon::start().await;
    let thread = daemon
        .thread(json!({"dynamic_tools": [reservation()]}))
        .await;
    daemon
        .turn(
            &thread,
            json!({"prompt": "LOOKUP it", "allowed_tools": ["shell"]}),
        )
        .await;
    let frames = daemon
        .events(&thread, 0)
        .await
        .until("turn.completed")
        .await;
    assert_eq!(daemon.model.offered(), ["shell"]);
    assert!(
        frames
            .iter()
            .all(|frame| frame.event != "tool_call.requested"),
        "what is not allowed is refused"
    );
    daemon
        .turn(
            &thread,
            json!({"prompt": "hello", "disallowed_tools": ["shell", "tau_bench::*", "request_*"]}),
        )
        .await;
    let since = frames.last().unwrap().id.unwrap();
    daemon
        .events(&thread, since)
        .await
        .until("turn.completed")
        .await;
    assert_eq!(daemon.model.offered(), ["clock", "stubborn", "again"]);
}
