//! Pages of the web: who is asked, what is reached, and what the configuration says of it.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::thread;

use serde_json::json;

use crate::support::{Home, Model, text};

/// Serves one page on this machine until the test is over; returns its address.
fn page() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let lines = BufReader::new(stream.try_clone().unwrap()).lines();
            lines
                .map_while(Result::ok)
                .take_while(|line| !line.is_empty())
                .for_each(drop);
            let body = "<title>Here</title><p>a page of this machine";
            let length = body.len();
            let _ = write!(
                stream,
                "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
            );
        }
    });
    address
}

#[test]
fn a_host_that_the_operator_names_is_read_and_others_are_asked_about() {
    let (open, other) = (page(), page());
    let calls = vec![
        ("web_fetch", json!({ "url": format!("http://{open}/a") })),
        ("web_fetch", json!({ "url": format!("http://{other}/b") })),
    ];
    let (model, told) = Model::calling(calls);
    let home = Home::with_model(&model.url());
    home.configure(&format!("[web]\nallow = [\"{open}\"]\n"));
    let daemon = home.start();
    let thread = daemon.thread(&json!({}));
    let mut events = daemon.client.events(&thread, 0);
    daemon.turn(&thread, "go");
    let asked = events.until("approval.required").pop().unwrap();
    let read = told.results().pop().unwrap();
    assert!(read.contains("a page of this machine"), "{read}");
    let approval = text(&asked.data["payload"]["approval_id"]);
    let path = format!("/v1/approvals/{approval}");
    daemon
        .client
        .post(&path, &json!({"decision": "allow"}))
        .expect(200);
    events.until("turn.completed");
    let refused = told.results().pop().unwrap();
    assert!(refused.contains("not on the public internet"), "{refused}");
    assert!(told.tools().contains(&"web_fetch".to_owned()));
}

#[test]
fn a_turn_in_an_environment_without_a_network_reads_no_page() {
    let open = page();
    let call = ("web_fetch", json!({ "url": format!("http://{open}/") }));
    let (model, told) = Model::calling(vec![call]);
    let home = Home::with_model(&model.url());
    std::fs::create_dir(home.path().join("inside")).unwrap();
    home.configure(&format!(
        "[web]\nallow = [\"{open}\"]\n[environments.inside]\nroot = \"inside\"\nnetwork = \"none\"\n"
    ));
    let daemon = home.start();
    let at = json!({"environments": [{"environment_id": "inside", "cwd": "."}]});
    let thread = daemon.thread(&at);
    let mut events = daemon.client.events(&thread, 0);
    daemon.turn(&thread, "go");
    events.until("turn.completed");
    let refused = told.results().pop().unwrap();
    assert!(
        refused.contains("environment `inside` has no network"),
        "{refused}"
    );
}

#[test]
fn the_web_can_be_switched_off() {
    let (model, told) = Model::calling(vec![("list", json!({}))]);
    let home = Home::with_model(&model.url());
    home.configure("[web]\nenabled = false\n");
    let daemon = home.start();
    let thread = daemon.thread(&json!({}));
    let mut events = daemon.client.events(&thread, 0);
    daemon.turn(&thread, "go");
    events.until("turn.completed");
    let offered = told.tools();
    assert!(offered.contains(&"list".to_owned()), "{offered:?}");
    assert!(!offered.contains(&"web_fetch".to_owned()), "{offered:?}");
}
