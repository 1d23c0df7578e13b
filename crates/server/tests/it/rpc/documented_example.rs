//! The example of `docs/runs.md`, frame by frame.

use serde_json::Value;

use crate::support::MultiTokenDaemon;

const PAGE: &str = include_str!("../../../../../docs/runs.md");

/// Masks values that differ each time.
fn masked(mut frame: Value) -> Value {
    match &mut frame {
        Value::Object(fields) => {
            for (name, value) in fields {
                let is_new = matches!(
                    name.as_str(),
                    "run_id"
                        | "client_id"
                        | "started_at"
                        | "ended_at"
                        | "recorded_at"
                        | "timestamp"
                );
                *value = if is_new {
                    "…".into()
                } else {
                    masked(value.take())
                };
            }
        }
        Value::Array(values) => values
            .iter_mut()
            .for_each(|value| *value = masked(value.take())),
        _ => {}
    }
    frame
}

#[tokio::test]
async fn documented_example_works() {
    let home = MultiTokenDaemon::start().await;
    let (_, token) = home.token("agent:builder");
    let (_, example) = PAGE.split_once("```text\n").unwrap();
    let (example, _) = example.split_once("```").unwrap();
    let mut socket = home.silent().await;
    let (mut run_id, mut requests) = (String::new(), 0);
    for line in example.lines() {
        let (arrow, frame) = line.split_once(' ').unwrap();
        if arrow == "→" {
            requests += 1;
            let frame = frame
                .replace("<token>", &token)
                .replace("<run_id>", &run_id);
            socket.send(frame).await;
            continue;
        }
        let answer = socket.frame().await.unwrap();
        if let Some(started) = answer["result"]["run_id"].as_str() {
            run_id = started.to_owned();
        }
        let written: Value = serde_json::from_str(frame).unwrap();
        assert_eq!(masked(answer), masked(written), "{line}");
    }
    assert!(requests >= 6, "the example has lost its frames");
}
