//! Configured approval rules and environments.

use serde_json::{Value, json};

use crate::support::{Home, ScriptedModel, TOKEN, text};

#[test]
fn calls_follow_the_configured_approval_rules() {
    let calls = vec![
        ("write", json!({"path": "docs/a.md", "content": "a"})),
        ("write", json!({"path": "docs/../b.md", "content": "b"})),
        (
            "edit",
            json!({"path": "docs/a.md", "old_string": "a", "new_string": "b"}),
        ),
    ];
    let (model, requests) = ScriptedModel::calling(calls);
    let home = Home::with_model(&model.url());
    home.configure(
        r#"
        [tools]
        disabled = ["sh*"]
        [approvals]
        rules = [
            { tool = "write", arguments = { path = "docs/**" }, action = "allow" },
            { tool = "*", arguments = { path = "**/a.md", old_string = "*" }, action = "deny" },
        ]
        "#,
    );
    std::fs::create_dir(home.workspace.join("docs")).unwrap();
    let daemon = home.start();
    let thread = daemon.thread(&json!({}));
    let mut events = daemon.client.events(&thread, 0);
    daemon.turn(&thread, "go");
    let approval = events.until("approval.required").pop().unwrap();
    let written = home.workspace.join("docs/a.md");
    assert_eq!(std::fs::read_to_string(&written).unwrap(), "a", "not asked");
    let about = events_of(&daemon.detail(&thread));
    assert!(about.contains("docs/../b.md"), "{about}");
    let approval = text(&approval.data["payload"]["approval_id"]);
    let path = format!("/v1/approvals/{approval}");
    daemon
        .client
        .post(&path, &json!({"decision": "deny"}))
        .expect(200);
    events.until("turn.completed");
    assert_eq!(std::fs::read_to_string(&written).unwrap(), "a", "refused");
    let results = requests.results();
    let refused = results.last().unwrap();
    assert!(
        refused.contains("the operator's approval rules"),
        "{refused}"
    );
    let offered: Vec<_> = requests.tools();
    assert!(!offered.contains(&"shell".to_owned()), "{offered:?}");
    assert!(offered.contains(&"read".to_owned()), "{offered:?}");
}

fn events_of(detail: &Value) -> String {
    detail["pending_approvals"].to_string() + &detail["items"].to_string()
}

#[test]
fn unenforceable_rule_stops_the_daemon_from_starting() {
    let home = Home::new();
    for (config, why) in [
        (
            "approvals.rules = [{ tool = 'shell', command = 'a && b', action = 'deny' }]",
            "a few plain words",
        ),
        (
            "approvals.rules = [{ tool = 'shell', action = 'never' }]",
            "unknown value `never`",
        ),
        (
            "environments.docs.root = '/nowhere/at/all'",
            "the environment `docs` is not available",
        ),
        (
            "environments.local.root = '/'",
            "its root is the daemon's workspace",
        ),
        ("web.allow = ['10.0.0.0/99']", "write a network as"),
        ("environments.docs.rot = '/'", "did you mean `root`"),
        ("environments.docs.shell = false", "`root` is missing"),
    ] {
        let file = home.path().join("given.toml");
        std::fs::write(&file, config).unwrap();
        let mut command = home.command(&["serve", "--port", "0", "--config"]);
        let refused = command.arg(&file).output().unwrap();
        let stderr = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(
            !refused.status.success() && stderr.contains(why),
            "{config}: {stderr}"
        );
    }
}

#[test]
fn configured_environment_exists_and_cannot_be_removed() {
    let home = Home::new();
    let docs = home.path().join("docs");
    std::fs::create_dir(&docs).unwrap();
    let daemon = home.start();
    let own = json!({"id": "docs", "root": home.workspace});
    daemon.client.post("/v1/environments", &own).expect(201);
    assert!(daemon.stop().success());

    home.configure("[environments.docs]\nroot = \"docs\"\nshell = false\n");
    let daemon = home.start();
    let listed = daemon.client.get("/v1/environments").expect(200);
    let listed = listed["environments"].as_array().unwrap();
    let shown = |place: usize, key: &str| listed[place][key].clone();
    assert_eq!((listed.len(), shown(0, "id")), (2, json!("local")));
    assert_eq!(shown(1, "root"), json!(docs.canonicalize().unwrap()));
    assert_eq!(shown(1, "policy")["shell"], false);
    assert!(daemon.stop().success());

    // This also applies if the configuration file is named by a relative path.
    let daemon = home.start_with(&["--token", TOKEN, "--config", "windlass.toml"]);
    let removed = daemon
        .client
        .request("DELETE", "/v1/environments/docs", &[], "");
    assert_eq!(removed.code(), "environment_protected");
    let taken = daemon.client.post("/v1/environments", &own);
    assert_eq!(taken.code(), "environment_exists");
    let at = json!({"environments": [{"environment_id": "docs", "cwd": "."}]});
    let thread = daemon.thread(&at);
    assert_eq!(
        daemon.detail(&thread)["thread"]["workspace"],
        json!(docs.canonicalize().unwrap())
    );
}
