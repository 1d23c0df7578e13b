//! The list of all waits.

use serde_json::{Value, json};

use crate::support::{Client, MultiTokenDaemon, text, until};

async fn waiting(client: &Client, prompt: &str) -> String {
    let thread = client.post("/v1/threads", json!({"title": prompt})).await;
    let id = text(&thread.expect(201)["id"]);
    let path = format!("/v1/threads/{id}");
    let turn = client.post(&format!("{path}/turns"), json!({ "prompt": prompt }));
    turn.await.expect(201);
    until(client, &path, |detail| {
        detail["turns"][0]["waiting_for"][0].is_string()
    })
    .await;
    id
}

async fn pages(client: &Client, limit: usize) -> Vec<Value> {
    let (mut all, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = client.get(&format!("/v1/waits?limit={limit}&cursor={cursor}"));
        let page = page.await;
        let next = page.header("x-windlass-next-cursor").map(str::to_owned);
        let page = page.expect(200);
        assert!(page.as_array().unwrap().len() <= limit);
        all.extend(page.as_array().unwrap().clone());
        let Some(next) = next else {
            return all;
        };
        cursor = next;
    }
}

#[tokio::test]
async fn waits_of_all_threads_are_in_one_list() {
    let home = MultiTokenDaemon::start().await;
    let client = &home.daemon.client;
    let approval = waiting(client, "SHELL now").await;
    let question = waiting(client, "ASK me").await;
    let agent = home.client(&home.agent("a"));
    let of_agent = waiting(&agent, "SHELL again").await;
    let all = pages(client, 50).await;
    assert_eq!(all.len(), 3);
    assert_eq!(pages(client, 1).await, all);
    assert_eq!(pages(client, 2).await, all);
    let of = |id: &str| all.iter().find(|wait| wait["thread_id"] == id).unwrap();
    let wait = of(&approval);
    assert_eq!(
        (&wait["kind"], &wait["thread_title"]),
        (&json!("approval"), &json!("SHELL now"))
    );
    let detail = client
        .get(&format!("/v1/threads/{approval}"))
        .await
        .expect(200);
    assert_eq!(wait["approval"], detail["pending_approvals"][0]);
    let wait = of(&question);
    assert_eq!(wait["kind"], "user_input");
    assert!(wait["user_input"]["request"].is_object());
    // An agent sees the waits of its own threads.
    let own = pages(&agent, 50).await;
    assert_eq!(own.len(), 1);
    assert_eq!(own[0]["thread_id"], of_agent.as_str());
    // A decision removes the wait.
    let id = text(&of(&approval)["approval"]["id"]);
    let decided = client.post(&format!("/v1/approvals/{id}"), json!({"decision": "deny"}));
    decided.await.expect(200);
    assert_eq!(pages(client, 50).await.len(), 2);
    for cursor in ["x", "1", "a.b", "."] {
        let refused = client.get(&format!("/v1/waits?cursor={cursor}")).await;
        assert_eq!(refused.code(), "invalid_query", "{cursor}");
    }
}
