//! A daemon that is stopped while a turn is running.

use std::time::Duration;

use serde_json::json;
use windlass_core::typed_id::SessionId;

use crate::support::{Setup, text};

#[tokio::test]
async fn turn_is_released_when_its_tool_exceeds_the_stop_deadline() {
    let daemon = Setup::settings(|settings| settings.grace = Duration::from_millis(20));
    let daemon = daemon.start().await;
    let thread = daemon.thread(json!({})).await;
    let mut events = daemon.events(&thread, 0).await;
    daemon.turn(&thread, json!({"prompt": "AGAIN"})).await;
    loop {
        let started = events.until("item.started").await;
        let item = &started.last().unwrap().data["payload"]["item"];
        if text(&item["kind"]) == "tool_call" {
            break;
        }
    }
    daemon.stop.cancel();
    daemon.running.await.unwrap();
    let sessions = daemon.runtime.session_ids().await.unwrap();
    let session: SessionId = sessions[0];
    let recorded = daemon.runtime.events_for(session).await.unwrap();
    assert_eq!(recorded.last().unwrap().event_type, "turn.released");
}
