//! `windlass token`, with a running daemon.

use serde_json::{Value, json};

use crate::support::{Client, Home, text};

fn words(home: &Home, arguments: &[&str]) -> String {
    let output = home.command(arguments).output().unwrap();
    let complaint = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{arguments:?}: {complaint}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn create(home: &Home, scope: &str) -> (String, String) {
    let made = words(home, &["token", "create", "--scope", scope, "--json"]);
    let made: Value = serde_json::from_str(&made).unwrap();
    (text(&made["id"]), text(&made["token"]))
}

fn refusal(client: &Client, method: &str, path: &str, body: &str) -> (u16, String) {
    let reply = client.request(method, path, &[], body);
    (reply.status, reply.code())
}

#[test]
fn token_is_valid_at_once_and_until_it_is_revoked() {
    let home = Home::new();
    let daemon = home.start();
    let (id, secret) = create(&home, "client");
    let client = daemon.client.with_token(&secret);
    assert_eq!(client.get("/v1/threads").status, 200);
    let listed = words(&home, &["token", "list"]);
    assert!(
        listed.contains(&id) && !listed.contains(&secret),
        "{listed}"
    );
    words(&home, &["token", "revoke", &id]);
    assert_eq!(client.get("/v1/threads").status, 401);
    let again = home.command(&["token", "revoke", &id]).output().unwrap();
    assert_eq!(again.status.code(), Some(2));
    let scope = home.command(&["token", "create", "--scope", "root"]);
    assert_eq!({ scope }.output().unwrap().status.code(), Some(2));
}

#[test]
fn client_token_uses_threads_and_cannot_change_the_daemon() {
    let home = Home::new();
    let daemon = home.start();
    let client = daemon.client.with_token(&create(&home, "client").1);
    let admin = daemon.client.with_token(&create(&home, "admin").1);
    let environment = json!({"id": "data", "root": home.path()}).to_string();
    let path = "/v1/environments";
    assert_eq!(
        refusal(&client, "POST", path, &environment),
        (403, "forbidden".to_owned())
    );
    admin.request("POST", path, &[], &environment).expect(201);
    assert_eq!(client.get("/v1/environments/data").status, 200);
    assert_eq!(
        refusal(&client, "DELETE", "/v1/environments/data", ""),
        (403, "forbidden".to_owned())
    );
    let thread = client.post("/v1/threads", &json!({"mode": "yolo"}));
    assert_eq!(thread.expect(201)["agent"], Value::Null);
}

#[test]
fn agent_token_owns_its_threads_and_cannot_approve_calls() {
    let home = Home::new();
    let daemon = home.start();
    let agent = daemon.client.with_token(&create(&home, "agent:one").1);
    let twin = daemon.client.with_token(&create(&home, "agent:one").1);
    let other = daemon.client.with_token(&create(&home, "agent:two").1);
    let thread = agent.post("/v1/threads", &json!({})).expect(201);
    assert_eq!(thread["agent"], "one");
    let path = format!("/v1/threads/{}", text(&thread["id"]));
    let turns = format!("{path}/turns");
    let mut events = twin.events(&path, 0);
    agent.post(&turns, &json!({"prompt": "hi"})).expect(201);
    events.until("turn.completed");

    let strange = daemon.thread(&json!({}));
    for (client, path) in [(&agent, &strange), (&other, &path)] {
        for (method, path, body) in [
            ("GET", path.clone(), ""),
            ("GET", format!("{path}/events"), ""),
            ("POST", format!("{path}/turns"), r#"{"prompt":"hi"}"#),
            ("POST", format!("{path}/fork"), ""),
            ("PATCH", path.clone(), r#"{"title":"mine"}"#),
        ] {
            let refused = refusal(client, method, &path, body);
            assert_eq!(refused, (404, "thread_not_found".to_owned()), "{path}");
        }
    }
    let count = |client: &Client, path| client.get(path).expect(200).as_array().unwrap().len();
    for list in ["/v1/threads", "/v1/threads/summary"] {
        assert_eq!((count(&agent, list), count(&other, list)), (1, 0));
        assert_eq!(count(&daemon.client, list), 2);
    }
    let yolo = r#"{"mode":"yolo"}"#;
    let trusting = r#"{"prompt":"hi","auto_approve":true}"#;
    for (method, path, body) in [
        ("POST", "/v1/approvals/appr_1", r#"{"decision":"allow"}"#),
        ("GET", "/v1/usage", ""),
        ("GET", "/metrics", ""),
        ("POST", "/v1/environments", r#"{"id":"x","root":"/"}"#),
        ("POST", "/v1/threads", yolo),
        ("PATCH", path.as_str(), r#"{"trust_mode":true}"#),
        ("POST", turns.as_str(), trusting),
        ("POST", "/v1/stream", trusting),
    ] {
        let refused = refusal(&agent, method, path, body);
        assert_eq!(refused, (403, "forbidden".to_owned()), "{method} {path}");
    }
    let fork = agent.post(&format!("{path}/fork"), &json!({})).expect(201);
    assert_eq!(fork["agent"], "one");

    // The token may not retry a turn that another client started without approvals.
    let trusting = json!({"prompt": "hi", "auto_approve": true});
    daemon.client.post(&turns, &trusting).expect(201);
    events.until("turn.completed");
    let retry = format!("{path}/retry");
    let refused = refusal(&agent, "POST", &retry, "{}");
    assert_eq!(refused, (403, "forbidden".to_owned()));
    daemon.client.post(&retry, &json!({})).expect(201);
}
