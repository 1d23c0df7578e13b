//! What a daemon keeps, and who may write it.

use serde_json::json;

use crate::support::{Home, TOKEN, text};

#[test]
fn threads_environments_and_answers_are_there_after_a_restart() {
    let home = Home::new();
    let daemon = home.start();
    let path = daemon.thread(&json!({"title": "first"}));
    daemon.client.events(&path, 0).until("thread.started");
    let mut events = daemon.client.events(&path, 0);
    daemon.turn(&path, "hello");
    events.until("turn.completed");
    let patched = daemon
        .client
        .request("PATCH", &path, "", r#"{"title": "second"}"#);
    patched.expect(200);
    let environment = json!({"id": "staging", "root": home.data()});
    daemon
        .client
        .post("/v1/environments", &environment)
        .expect(201);
    let key = "idempotency-key: once\r\n";
    let body = json!({"title": "made once"}).to_string();
    let create = |client: &crate::support::Client| {
        let reply = client.request("POST", "/v1/threads", key, &body);
        reply.expect(201)
    };
    let made = create(&daemon.client);
    let (detail, list) = (daemon.detail(&path), daemon.client.get("/v1/threads"));
    let usage = daemon.client.get("/v1/usage?group_by=thread").expect(200);
    daemon.kill();

    let daemon = home.start();
    assert_eq!(daemon.detail(&path), detail);
    assert_eq!(
        daemon.client.get("/v1/threads").expect(200),
        list.expect(200)
    );
    assert_eq!(
        daemon.client.get("/v1/usage?group_by=thread").expect(200),
        usage
    );
    assert_eq!(detail["thread"]["title"], "second");
    let environments = daemon.client.get("/v1/environments").expect(200);
    assert_eq!(environments["environments"][1]["id"], "staging");
    assert_eq!(create(&daemon.client), made, "the first answer again");
    let other = json!({"title": "another"}).to_string();
    let conflict = daemon.client.request("POST", "/v1/threads", key, &other);
    assert_eq!(
        (conflict.status, conflict.code().as_str()),
        (409, "idempotency_conflict")
    );
    let mut events = daemon
        .client
        .events(&path, detail["latest_seq"].as_u64().unwrap());
    daemon.turn(&path, "again");
    events.until("turn.completed");
    let summary = daemon.client.get("/v1/threads/summary").expect(200);
    assert_eq!(summary.as_array().unwrap().len(), 2);
    assert_eq!(summary[0]["preview"], "Echo: again");
}

#[test]
fn r54_a_second_daemon_on_the_data_refuses_to_start_and_names_the_first() {
    let home = Home::new();
    let first = home.start_with(&[]);
    let token = std::fs::read_to_string(home.data().join("token")).unwrap();
    let second = home.command(&["serve", "--port", "0"]).output().unwrap();
    assert_eq!(second.status.code(), Some(2));
    let complaint = String::from_utf8(second.stderr).unwrap();
    let (pid, data) = (first.pid().to_string(), home.data());
    assert!(
        complaint.contains(&pid) && complaint.contains(data.to_str().unwrap()),
        "{complaint}"
    );
    let still = first.client.with_token(&token).get("/v1/threads");
    assert_eq!(still.status, 200, "the token of the first still counts");
    assert_eq!(
        first.client.with_token(TOKEN).get("/v1/threads").status,
        401
    );
    first.kill();
    home.start();
}

#[test]
fn r55_a_damaged_record_stops_its_thread_visibly_and_no_other() {
    let home = Home::new();
    let daemon = home.start();
    let threads = [daemon.thread(&json!({})), daemon.thread(&json!({}))];
    for thread in &threads {
        let mut events = daemon.client.events(thread, 0);
        daemon.turn(thread, "hello");
        events.until("turn.completed");
    }
    daemon.kill();
    let id = threads[0].trim_start_matches("/v1/threads/thr_");
    let database = rusqlite::Connection::open(home.data().join("windlass.db")).unwrap();
    let changed = database.execute(
        "UPDATE records SET body = zeroblob(length(body)) WHERE seq = 4 AND form <> 1 AND stream = \
         (SELECT id FROM streams WHERE key LIKE ?1)",
        [format!("%{id}")],
    );
    assert_eq!(changed.unwrap(), 1);
    database.close().unwrap();

    let daemon = home.start();
    let damaged = daemon.client.get(&threads[0]);
    assert_eq!(
        (damaged.status, damaged.code().as_str()),
        (503, "store_unavailable"),
        "{}",
        damaged.body
    );
    let refused = daemon.client.post(
        &format!("{}/turns", threads[0]),
        &json!({"prompt": "hello"}),
    );
    assert_eq!(refused.status, 503, "{}", refused.body);
    assert_eq!(
        daemon.detail(&threads[1])["turns"][0]["status"],
        "completed"
    );
    let mut events = daemon.client.events(&threads[1], 0);
    daemon.turn(&threads[1], "still there?");
    events.until("turn.completed");
    events.until("turn.completed");
    let listed = daemon.client.get("/v1/threads").expect(200);
    let listed: Vec<_> = listed.as_array().unwrap().iter().collect();
    assert!(
        listed
            .iter()
            .any(|thread| threads[1].ends_with(&text(&thread["id"]))),
        "{listed:?}"
    );
}

#[test]
fn r55_a_torn_end_of_the_log_is_dropped_at_the_start() {
    use std::io::Write;
    let home = Home::new();
    let daemon = home.start();
    let thread = daemon.thread(&json!({}));
    let mut events = daemon.client.events(&thread, 0);
    daemon.turn(&thread, "hello");
    events.until("turn.completed");
    let detail = daemon.detail(&thread);
    daemon.kill();
    let log = home.data().join("windlass.db-wal");
    let mut log = std::fs::OpenOptions::new().append(true).open(log).unwrap();
    log.write_all(&[7; 1500]).unwrap();

    let daemon = home.start();
    assert_eq!(daemon.detail(&thread), detail);
    let mut events = daemon
        .client
        .events(&thread, detail["latest_seq"].as_u64().unwrap());
    daemon.turn(&thread, "again");
    events.until("turn.completed");
}
