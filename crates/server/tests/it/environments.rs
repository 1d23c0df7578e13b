//! Environments: registration, selection and confinement of turns.

use serde_json::json;

use crate::support::{Setup, TestDaemon, text};

#[tokio::test]
async fn r48_unknown_environment_is_refused_and_no_turn_is_recorded() {
    let daemon = TestDaemon::start().await;
    let thread = daemon.thread(json!({})).await;
    let reply = daemon
        .client
        .post(
            &format!("{thread}/turns"),
            json!({"prompt": "x", "environment_id": "nope"}),
        )
        .await;
    assert_eq!(
        (reply.status, reply.code().as_str()),
        (404, "environment_not_found")
    );
    assert_eq!(daemon.detail(&thread).await["turns"], json!([]));
    let reply = daemon
        .client
        .post(
            "/v1/threads",
            json!({"environments": [{"environment_id": "nope", "cwd": "."}]}),
        )
        .await;
    assert_eq!(reply.code(), "environment_not_found");
}

#[tokio::test]
async fn environments_are_registered_selected_and_removed() {
    let daemon = TestDaemon::start().await;
    let elsewhere = tempfile::tempdir().unwrap();
    let root = elsewhere.path().canonicalize().unwrap();
    std::fs::create_dir(root.join("inner")).unwrap();
    let body = json!({"id": "staging", "root": elsewhere.path(), "policy": {"shell": false, "network": "none"}});
    let made = daemon
        .client
        .post("/v1/environments", body.clone())
        .await
        .expect(201);
    assert_eq!(
        made["policy"],
        json!({"write": true, "shell": false, "network": "none"})
    );
    assert_eq!(
        daemon.client.post("/v1/environments", body).await.code(),
        "environment_exists"
    );
    let listed = daemon.client.get("/v1/environments").await.expect(200);
    let ids: Vec<_> = listed["environments"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["id"].clone())
        .collect();
    assert_eq!(ids, ["local", "staging"]);
    for (body, code) in [
        (json!({"id": "Bad", "root": "/"}), "invalid_field"),
        (json!({"id": "x", "root": "relative"}), "invalid_field"),
        (
            json!({"id": "x", "root": "/does/not/exist"}),
            "cwd_not_found",
        ),
        (
            json!({"id": "x", "root": "/", "kind": "ssh"}),
            "unsupported_kind",
        ),
        (json!({"id": "local", "root": "/"}), "environment_exists"),
    ] {
        let reply = daemon.client.post("/v1/environments", body).await;
        assert_eq!(reply.code(), code);
    }
    let thread = daemon
        .thread(json!({"environments": [{"environment_id": "staging", "cwd": "inner"}, {"environment_id": "local", "cwd": "."}]}))
        .await;
    let start = |body| daemon.client.post(&format!("{thread}/turns"), body);
    let turn = start(json!({"prompt": "SLOW please"})).await.expect(201);
    assert_eq!(
        turn["turn"]["environment"],
        json!({"environment_id": "staging", "cwd": root.join("inner")})
    );
    let used = daemon
        .client
        .raw("DELETE", "/v1/environments/staging", None)
        .await;
    assert_eq!(
        (used.status, used.code().as_str()),
        (409, "environment_in_use")
    );
    daemon.model.open();
    let ended = daemon
        .events(&thread, 0)
        .await
        .until("turn.completed")
        .await;
    assert_eq!(
        ended.last().unwrap().data["payload"]["turn"]["environment"]["environment_id"],
        "staging"
    );
    let turn = start(json!({"prompt": "hello", "environment_id": "local"}))
        .await
        .expect(201);
    assert_eq!(
        turn["turn"]["environment"]["cwd"],
        json!(daemon.workspace.path().canonicalize().unwrap())
    );
    let since = ended.last().unwrap().id.unwrap();
    daemon
        .events(&thread, since)
        .await
        .until("turn.completed")
        .await;
    assert_eq!(
        daemon
            .client
            .raw("DELETE", "/v1/environments/staging", None)
            .await
            .status,
        204
    );
    assert_eq!(
        daemon.client.get("/v1/environments/staging").await.code(),
        "environment_not_found"
    );
    assert_eq!(
        daemon
            .client
            .raw("DELETE", "/v1/environments/local", None)
            .await
            .code(),
        "environment_protected"
    );
    assert_eq!(
        start(json!({"prompt": "hello"})).await.code(),
        "environment_not_found",
        "the default is gone"
    );
}

/// A daemon with file and shell tools, and one file in its workspace.
async fn with_tools() -> TestDaemon {
    let setup = Setup {
        has_tools: true,
        ..Setup::default()
    };
    let daemon = setup.start().await;
    std::fs::write(daemon.workspace.path().join("log.txt"), "all hands\n").unwrap();
    daemon
}

#[tokio::test]
async fn tools_of_a_turn_work_in_its_environment() {
    let daemon = with_tools().await;
    let elsewhere = tempfile::tempdir().unwrap();
    std::fs::write(elsewhere.path().join("log.txt"), "at anchor\n").unwrap();
    let body = json!({"id": "staging", "root": elsewhere.path()});
    daemon
        .client
        .post("/v1/environments", body)
        .await
        .expect(201);
    let thread = daemon.thread(json!({})).await;
    daemon
        .say(&thread, r#"CALL read {"path": "log.txt"}"#)
        .await;
    assert!(daemon.model.messages().concat().contains("all hands"));

    let mut events = daemon.events(&thread, 0).await;
    let prompt = r#"CALL read {"path": "log.txt"}"#;
    let body = json!({"prompt": prompt, "environment_id": "staging"});
    daemon.turn(&thread, body).await;
    events.until("turn.completed").await;
    events.until("turn.completed").await;
    assert!(daemon.model.messages().concat().contains("at anchor"));
}

#[tokio::test]
async fn changing_tool_needs_an_approval() {
    let daemon = with_tools().await;
    let thread = daemon.thread(json!({})).await;
    let mut events = daemon.events(&thread, 0).await;
    let prompt = r#"CALL write {"path": "new.txt", "content": "ahoy"}"#;
    daemon.turn(&thread, json!({ "prompt": prompt })).await;
    let frames = events.until("approval.required").await;
    let made = daemon.workspace.path().join("new.txt");
    assert!(!made.exists());
    let id = text(&frames.last().unwrap().data["payload"]["approval_id"]);
    let path = format!("/v1/approvals/{id}");
    let decision = daemon.client.post(&path, json!({"decision": "allow"}));
    decision.await.expect(200);
    events.until("turn.completed").await;
    assert_eq!(std::fs::read_to_string(made).unwrap(), "ahoy");
}

#[tokio::test]
async fn forbidden_tools_are_not_offered() {
    let daemon = with_tools().await;
    let elsewhere = tempfile::tempdir().unwrap();
    let policy = json!({"write": false, "shell": false});
    let body = json!({"id": "archive", "root": elsewhere.path(), "policy": policy});
    daemon
        .client
        .post("/v1/environments", body)
        .await
        .expect(201);
    for (thread, offered) in [
        (
            json!({"allow_shell": true}),
            ["read", "write", "edit", "shell"].as_slice(),
        ),
        (json!({"allow_shell": false}), &["read", "write", "edit"]),
        (json!({"mode": "plan", "allow_shell": true}), &["read"]),
        (
            json!({"allow_shell": true, "environments": [{"environment_id": "archive", "cwd": "."}]}),
            &["read"],
        ),
    ] {
        let path = daemon.thread(thread.clone()).await;
        daemon.say(&path, "hello").await;
        let known = ["read", "write", "edit", "shell"];
        let mut seen = daemon.model.offered();
        seen.retain(|name| known.contains(&name.as_str()));
        seen.sort_by_key(|name| known.iter().position(|known| known == name));
        assert_eq!(seen, offered, "{thread}");
    }
}

#[tokio::test]
async fn r49_directory_outside_the_root_is_refused_also_through_links() {
    let daemon = TestDaemon::start().await;
    let root = daemon.workspace.path();
    std::fs::create_dir(root.join("inside")).unwrap();
    std::os::unix::fs::symlink("/", root.join("out")).unwrap();
    for (cwd, code) in [
        ("/", "cwd_outside_root"),
        ("..", "cwd_outside_root"),
        ("inside/../..", "cwd_outside_root"),
        ("out", "cwd_outside_root"),
        ("missing", "cwd_not_found"),
    ] {
        let environments = json!([{"environment_id": "local", "cwd": cwd}]);
        let reply = daemon
            .client
            .post("/v1/threads", json!({ "environments": environments }))
            .await;
        assert_eq!((reply.status, reply.code().as_str()), (422, code), "{cwd}");
        let reply = daemon
            .client
            .post("/v1/threads", json!({ "workspace": cwd }))
            .await;
        assert_eq!((reply.status, reply.code().as_str()), (422, code), "{cwd}");
    }
    let reply = daemon
        .client
        .post("/v1/threads", json!({"workspace": "/"}))
        .await
        .json();
    assert!(
        reply["error"]["message"]
            .as_str()
            .unwrap()
            .contains("--workspace"),
        "{reply}"
    );
    let thread = daemon
        .thread(json!({"workspace": root.join("inside")}))
        .await;
    let moved = daemon
        .client
        .patch(&thread, json!({"workspace": "/"}))
        .await;
    assert_eq!(moved.code(), "cwd_outside_root");
    assert_eq!(
        daemon
            .client
            .get("/v1/threads")
            .await
            .expect(200)
            .as_array()
            .unwrap()
            .len(),
        1
    );
}
