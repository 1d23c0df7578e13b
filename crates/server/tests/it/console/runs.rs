//! The list of all runs.

use serde_json::{Value, json};

use crate::support::{Client, MultiTokenDaemon, text};

async fn list(client: &Client, query: &str) -> Vec<Value> {
    let list = client.get(&format!("/v1/runs?{query}")).await.expect(200);
    list.as_array().unwrap().clone()
}

fn intents(runs: &[Value]) -> Vec<String> {
    runs.iter().map(|run| text(&run["intent"])).collect()
}

#[tokio::test]
async fn turns_and_reported_runs_are_in_one_list() {
    let home = MultiTokenDaemon::start().await;
    let (daemon, client) = (&home.daemon, &home.daemon.client);
    let thread = daemon.thread(json!({})).await;
    daemon.say(&thread, "hello").await;
    let token = home.agent("builder");
    let mut socket = home.bound("builder", &token).await;
    let reported = socket.start("builder").await;
    daemon.say(&thread, "ERR500 now").await;
    daemon.turn(&thread, json!({"prompt": "SHELL now"})).await;
    crate::support::until(client, &thread, |detail| {
        detail["turns"][2]["waiting_for"][0] == "approval"
    })
    .await;
    let all = list(client, "").await;
    assert_eq!(intents(&all), ["SHELL now", "ERR500 now", "do it", "hello"]);
    let states: Vec<_> = all.iter().map(|run| text(&run["status"])).collect();
    assert_eq!(states, ["in_progress", "failure", "in_progress", "success"]);
    let hello = &all[3];
    assert_eq!(
        (&hello["kind"], &hello["agent"]),
        (&json!("turn"), &json!("windlass:main"))
    );
    assert_eq!(hello["model"], "demo-model");
    assert!(hello["usage"]["input_tokens"].as_u64().unwrap() > 0);
    assert_eq!(
        hello["thread_id"],
        thread.trim_start_matches("/v1/threads/")
    );
    assert_eq!(
        (&all[2]["kind"], &all[2]["id"]),
        (&json!("reported"), &json!(reported))
    );
    for (query, expected) in [
        ("status=waiting", vec!["SHELL now"]),
        ("status=failure", vec!["ERR500 now"]),
        ("status=success,failure", vec!["ERR500 now", "hello"]),
        ("status=completed", vec!["ERR500 now", "hello"]),
        ("status=waiting,success", vec!["SHELL now", "hello"]),
        ("status=cancelled", vec![]),
        ("kind=reported", vec!["do it"]),
        ("kind=turn&status=in_progress", vec!["SHELL now"]),
        ("agent=builder", vec!["do it"]),
        ("agent=windlass:main&q=HELLO", vec!["hello"]),
        ("q=now", vec!["SHELL now", "ERR500 now"]),
        ("q=%25", vec![]),
    ] {
        assert_eq!(intents(&list(client, query).await), expected, "{query}");
    }
    for query in ["status=lost", "kind=x", "cursor=x"] {
        let refused = client.get(&format!("/v1/runs?{query}")).await;
        assert_eq!(refused.code(), "invalid_query", "{query}");
    }
    // An agent sees its own runs only.
    let agent = home.client(&token);
    assert_eq!(intents(&list(&agent, "").await), ["do it"]);
    assert_eq!(list(&agent, "agent=windlass:main").await, [] as [Value; 0]);
}

#[tokio::test]
async fn pages_contain_every_run_once() {
    let home = MultiTokenDaemon::start().await;
    let client = &home.daemon.client;
    let mut socket = home.bound("a", &home.agent("a")).await;
    for _ in 0..7 {
        let run = socket.start("a").await;
        socket.complete(&run).await;
    }
    for filter in ["", "status=success", "q=do"] {
        for limit in [1, 3, 7, 200] {
            let (mut seen, mut cursor) = (Vec::new(), String::new());
            loop {
                let query = format!("/v1/runs?{filter}&limit={limit}&cursor={cursor}");
                let page = client.get(&query).await;
                let next = page.header("x-windlass-next-cursor").map(str::to_owned);
                let page = page.expect(200);
                seen.extend(page.as_array().unwrap().iter().map(|run| text(&run["id"])));
                match next {
                    Some(next) => cursor = next,
                    None => break,
                }
            }
            let count = seen.len();
            seen.sort_unstable();
            seen.dedup();
            assert_eq!((count, seen.len()), (7, 7), "{filter} {limit}");
        }
    }
}
