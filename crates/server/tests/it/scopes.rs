//! Required scopes of the routes: the table, and its enforcement by the daemon.

use serde_json::json;
use windlass_protocol::operations::{OPERATIONS, RequiredScope};

use crate::support::MultiTokenDaemon;

const SNAPSHOT: &str = include_str!("scopes.txt");

/// Set `WINDLASS_BLESS=1` to regenerate the table, and review the diff.
#[test]
fn scopes_match_the_reviewed_table() {
    let mut rows: Vec<_> = OPERATIONS.iter().collect();
    rows.sort_by_key(|it| (it.path, it.method.as_str()));
    let rows = rows.into_iter();
    let table: String = rows
        .map(|it| format!("{:6} {}: {}\n", it.method.as_str(), it.path, it.scope))
        .collect();
    if std::env::var_os("WINDLASS_BLESS").is_some() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/scopes.txt");
        std::fs::write(file, &table).unwrap();
    }
    assert_eq!(table, SNAPSHOT);
}

#[tokio::test]
async fn each_scope_may_call_exactly_its_routes() {
    let home = MultiTokenDaemon::start().await;
    let secret = |scope| home.token(scope).1;
    let (client, agent, admin) = (secret("client"), secret("agent:a"), secret("admin"));
    let of = |token: &str| home.client(token);
    let made = async || {
        let made = of(&admin).post("/v1/threads", json!({})).await.expect(201);
        made["id"].as_str().unwrap().to_owned()
    };
    let (others, removed) = (made().await, made().await);
    for operation in OPERATIONS {
        let (method, path, required) = (operation.method.as_str(), operation.path, operation.scope);
        let id = match (method, path) {
            // A stream of events would not end.
            (_, path) if path.ends_with("/events") => "thr_none",
            ("DELETE", _) => &removed,
            _ => &others,
        };
        let path = path.replace("{id}", id).replace(['{', '}'], "");
        let ask = async |token: Option<&str>| {
            let client = match token {
                Some(token) => of(token),
                None => of("unknown"),
            };
            // The missing body is invalid everywhere; a token without the scope is refused before the body is read.
            client.raw(method, &path, None).await.status
        };
        let route = format!("{method} {path}");
        assert_eq!(
            ask(None).await == 401,
            required != RequiredScope::Anyone,
            "{route}"
        );
        // For an agent, threads of other owners do not exist.
        let expected: &[u16] = match required {
            RequiredScope::Admin | RequiredScope::Client => &[403],
            RequiredScope::Owner => &[404],
            RequiredScope::Agent | RequiredScope::Anyone => &[],
        };
        let status = ask(Some(&agent)).await;
        match expected {
            [] => assert_ne!(status, 403, "agent: {route}"),
            expected => assert!(expected.contains(&status), "agent: {route}: {status}"),
        }
        // After the agent: a client may remove the thread that the agent must not see.
        let is_refused = ask(Some(&client)).await == 403;
        assert_eq!(
            is_refused,
            required == RequiredScope::Admin,
            "client: {route}"
        );
    }
}

/// The scope check uses the raw path and the handler the decoded one; they must agree.
#[tokio::test]
async fn other_spellings_of_a_path_do_not_bypass_ownership() {
    let home = MultiTokenDaemon::start().await;
    let (agent, admin) = (home.agent("a"), home.token("admin").1);
    let of = |token: &str| home.client(token);
    let made = async |token: &str| {
        let thread = of(token).post("/v1/threads", json!({})).await.expect(201);
        thread["id"].as_str().unwrap().to_owned()
    };
    let (own, others) = (made(&agent).await, made(&admin).await);
    let encoded: String = others.bytes().map(|byte| format!("%{byte:02X}")).collect();
    for id in [
        encoded,
        others.replace('_', "%5F"),
        others.replace('_', "%5f"),
        format!("{own}/../{others}"),
        format!("{own}%2F..%2F{others}"),
        format!("./{others}"),
        format!("/{others}"),
        format!("{own};{others}"),
        format!("{others}%00"),
        format!("{others}%20"),
        others.to_uppercase(),
    ] {
        for (method, verb) in [
            ("GET", ""),
            ("HEAD", ""),
            ("POST", "/fork"),
            ("POST", "/resume"),
        ] {
            let path = format!("/v1/threads/{id}{verb}");
            let status = of(&agent).raw(method, &path, None).await.status;
            assert!(
                [400, 404, 405].contains(&status),
                "{method} {path}: {status}"
            );
        }
    }
    let threads = of(&admin).get("/v1/threads").await.expect(200);
    assert_eq!(threads.as_array().unwrap().len(), 2, "one was forked");
}

#[tokio::test]
async fn agent_cannot_steer_a_turn_without_approvals_of_another_client() {
    let home = MultiTokenDaemon::start().await;
    let agent = home.client(&home.agent("a"));
    let operator = &home.daemon.client;
    let made = agent.post("/v1/threads", json!({})).await.expect(201);
    let thread = format!("/v1/threads/{}", made["id"].as_str().unwrap());
    for (is_trusted, expected) in [(true, 403), (false, 200)] {
        let mut events = home.daemon.events(&thread, 0).await;
        let prompt = json!({"prompt": "SLOW", "auto_approve": is_trusted});
        let begun = operator.post(&format!("{thread}/turns"), prompt);
        let turn = begun.await.expect(201)["turn"]["id"].clone();
        let turn = format!("{thread}/turns/{}", turn.as_str().unwrap());
        let steered = agent.post(&format!("{turn}/steer"), json!({"prompt": "run it"}));
        let steered = steered.await;
        assert_eq!(steered.status, expected, "{is_trusted}");
        operator
            .post(&format!("{turn}/interrupt"), json!({}))
            .await
            .expect(200);
        events.until("turn.completed").await;
    }
}

#[tokio::test]
async fn agent_refusal_names_the_forbidden_operation() {
    let home = MultiTokenDaemon::start().await;
    let agent = home.client(&home.agent("a"));
    let thread = agent.post("/v1/threads", json!({})).await.expect(201);
    let replay = format!("/v1/threads/{}/replay", thread["id"].as_str().unwrap());
    for (path, words) in [
        ("/v1/approvals/apr_1", "decides no approvals"),
        (replay.as_str(), "replays nothing"),
        ("/v1/user-input/thr_1/x", "answers no questions"),
        ("/v1/snapshots/x/restore", "restores no snapshots"),
    ] {
        let answer = agent.post(path, json!({})).await;
        let message = answer.json()["error"]["message"].to_string();
        assert_eq!(answer.status, 403, "{path}");
        assert!(message.contains(words), "{path}: {message}");
    }
}
