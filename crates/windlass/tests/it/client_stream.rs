//! The event stream of the Rust client while daemons are killed, stopped and restarted.

use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::json;
use windlass_client::{Client, UnixConnector};
use windlass_protocol::operations::IdPath;
use windlass_protocol::{Call, RuntimeApi};
use windlass_testkit::Answer;

use crate::support::{Home, ScriptedModel, TOKEN};

/// Maximum wait for an event.
const PATIENCE: Duration = Duration::from_secs(60);

/// Follows a thread over the socket of the data directory, on a separate OS thread, until the receiver is dropped.
fn follow(home: &Home, thread: &str) -> Receiver<(u64, String)> {
    let socket = UnixConnector::new(home.data().join("daemon.sock"));
    let id = thread.rsplit('/').next().unwrap().to_owned();
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.unwrap().block_on(async {
            let client = Client::new(socket, Some(TOKEN.to_owned()));
            let events = client.stream_events(Call::new(IdPath { id }, ())).await;
            let mut events = events.unwrap();
            while let Some(event) = events.next().await.unwrap() {
                let event = (event.seq, event.payload.name().to_owned());
                if sender.send(event).is_err() {
                    return;
                }
            }
        });
    });
    receiver
}

/// Receives events up to the first one with this name.
#[track_caller]
fn until(events: &Receiver<(u64, String)>, name: &str) -> Vec<(u64, String)> {
    let mut received = Vec::new();
    while received.last().is_none_or(|(_, last)| last != name) {
        received.push(events.recv_timeout(PATIENCE).unwrap());
    }
    received
}

#[test]
fn stream_continues_after_the_daemon_is_killed_or_stopped() {
    let mut model = ScriptedModel::start();
    let home = Home::with_model(&model.url());
    let daemon = home.start();
    let thread = daemon.thread(&json!({}));
    let events = follow(&home, &thread);
    daemon.turn(&thread, "greet me");
    let mut exchange = model.next_request();
    model.say_half(&mut exchange, "Hel");
    let mut received = until(&events, "item.delta");
    daemon.kill();
    drop(exchange);

    let daemon = home.start();
    model.answer(&Answer::text(&["Hello", " again"]));
    received.extend(until(&events, "turn.completed"));
    assert!(daemon.stop().success());

    let daemon = home.start();
    daemon.turn(&thread, "once more");
    model.answer(&Answer::text(&["Hello"]));
    received.extend(until(&events, "turn.completed"));
    let recorded = daemon.client.events(&thread, 0).replay().into_iter();
    let recorded: Vec<_> = recorded.map(|frame| (frame.seq, frame.event)).collect();
    assert_eq!(received, recorded);
}
