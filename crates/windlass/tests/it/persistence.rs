//! The files of a daemon, and write access to them.

use serde_json::{Value, json};
use windlass_testkit::Answer;

use crate::support::{Home, ScriptedModel, TOKEN, text};

#[test]
fn threads_environments_and_answers_survive_a_restart() {
    let home = Home::new();
    let daemon = home.start();
    let path = daemon.thread(&json!({"title": "first"}));
    daemon.client.events(&path, 0).until("thread.started");
    let mut events = daemon.client.events(&path, 0);
    daemon.turn(&path, "hello");
    events.until("turn.completed");
    let patched = daemon
        .client
        .request("PATCH", &path, &[], r#"{"title": "second"}"#);
    patched.expect(200);
    let environment = json!({"id": "staging", "root": home.path()});
    daemon
        .client
        .post("/v1/environments", &environment)
        .expect(201);
    let key = [("idempotency-key", "once")];
    let body = json!({"title": "made once"}).to_string();
    let create = |client: &crate::support::Client| {
        let reply = client.request("POST", "/v1/threads", &key, &body);
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
    let conflict = daemon.client.request("POST", "/v1/threads", &key, &other);
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
fn r54_second_daemon_on_the_same_data_is_refused() {
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
fn r55_damaged_record_stops_only_its_thread() {
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
fn r55_torn_log_tail_is_dropped_at_startup() {
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

#[test]
fn lists_are_exact_after_a_crash_following_a_change() {
    let home = Home::new();
    for number in 0..4 {
        let daemon = home.start();
        let thread = daemon.thread(&json!({"title": format!("number {number}")}));
        let mut events = daemon.client.events(&thread, 0);
        daemon.turn(&thread, "hello");
        events.until("turn.completed");
        let list = daemon.client.get("/v1/threads/summary").expect(200);
        daemon.turn(&thread, "again");
        events.until("turn.completed");
        daemon.kill();

        let daemon = home.start();
        let again = daemon.client.get("/v1/threads/summary").expect(200);
        let lines = again.as_array().unwrap();
        assert_eq!(lines.len(), list.as_array().unwrap().len());
        assert_eq!(lines[0]["title"], format!("number {number}"));
        assert_eq!(lines[0]["preview"], "Echo: again");
        assert_eq!(lines[1..], list.as_array().unwrap()[1..]);
        daemon.kill();
    }
}

#[test]
fn secrets_key_is_created_once_and_readable_by_its_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    let home = Home::new();
    home.start().kill();
    let path = home.data().join("secrets.key");
    let key = std::fs::read_to_string(&path).unwrap();
    assert_eq!(key.len(), 64);
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    home.start().kill();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), key);

    let refusal = |arguments: &[&str]| {
        let serve = ["serve", "--port", "0", "--token", TOKEN];
        let refused = home.command(&[&serve[..], arguments].concat()).output();
        let refused = refused.unwrap();
        assert_eq!(refused.status.code(), Some(2));
        String::from_utf8(refused.stderr).unwrap()
    };
    // The mode of an explicitly named file is the operator's responsibility.
    let named = home.path().join("named.key");
    std::fs::write(&named, &key).unwrap();
    let open = std::fs::Permissions::from_mode(0o644);
    std::fs::set_permissions(&named, open).unwrap();
    let complaint = refusal(&["--secrets-key-file", named.to_str().unwrap()]);
    assert!(complaint.contains("chmod 600"), "{complaint}");
    let complaint = refusal(&["--secrets-key-file", "nowhere"]);
    assert!(complaint.contains("nowhere"), "{complaint}");
    std::fs::write(&path, "short").unwrap();
    let complaint = refusal(&[]);
    assert!(complaint.contains("64 hexadecimal digits"), "{complaint}");
    assert!(!complaint.contains("short"), "{complaint}");
}

#[test]
fn wrong_secrets_key_is_refused() {
    let home = Home::new();
    home.start().kill();
    let database = rusqlite::Connection::open(home.data().join("windlass.db")).unwrap();
    let sealed = "INSERT INTO secrets VALUES (x'00', 'api_key', x'01', x'02', x'03', 0, 0)";
    assert_eq!(database.execute(sealed, []).unwrap(), 1);
    database.close().unwrap();
    let refused = home.command(&["serve", "--port", "0", "--token", TOKEN]);
    let refused = { refused }.output().unwrap();
    let complaint = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(2), "{complaint}");
    for word in ["api_key", "another key", "--secrets-key-file"] {
        assert!(complaint.contains(word), "{complaint}");
    }
}

#[test]
fn thread_with_a_removed_model_reports_it_and_accepts_another() {
    let model =
        ScriptedModel::answering(|request| Answer::text(&[request["model"].as_str().unwrap()]));
    let home = Home::with_model(&model.url());
    home.configure(r#"models = ["anthropic/old-model"]"#);
    let daemon = home.start();
    let thread = daemon.thread(&json!({"model": "anthropic/old-model"}));
    let mut events = daemon.client.events(&thread, 0);
    daemon.turn(&thread, "hello");
    events.until("turn.completed");
    daemon.kill();

    // The thread's own provider is called, and no other model answers instead.
    home.configure("");
    let daemon = home.start();
    let mut events = daemon.client.events(&thread, 0);
    daemon.turn(&thread, "hello");
    events.until("turn.completed");
    events.until("turn.completed");
    let items = daemon.detail(&thread)["items"].clone();
    assert_eq!(items[3]["detail"], "old-model");
    daemon.kill();

    home.configure(r#"unknown_models = "refuse""#);
    let daemon = home.start();
    let path = format!("{thread}/turns");
    let refused = daemon.client.post(&path, &json!({"prompt": "hello"}));
    assert_eq!(
        (refused.status, refused.code().as_str()),
        (422, "invalid_field")
    );
    for word in ["anthropic/old-model", "no longer configured", "PATCH"] {
        assert!(refused.body.contains(word), "{}", refused.body);
    }
    assert_eq!(daemon.detail(&thread)["turns"].as_array().unwrap().len(), 2);
    let patched = daemon
        .client
        .request("PATCH", &thread, &[], r#"{"model": "auto"}"#);
    patched.expect(200);
    let since = daemon.detail(&thread)["latest_seq"].as_u64().unwrap();
    let mut events = daemon.client.events(&thread, since);
    daemon.turn(&thread, "hello");
    events.until("turn.completed");
}

#[test]
fn invalid_retention_is_refused() {
    let home = Home::new();
    let config = home.path().join("windlass.toml");
    for (retention, word) in [
        ("text_chunk_hours = 2", "at least"),
        ("max_age_days = 0", "stores nothing"),
        ("max_weeks = 1", "max_weeks"),
    ] {
        std::fs::write(&config, format!("[retention]\n{retention}\n")).unwrap();
        let serve = ["serve", "--port", "0", "--token", TOKEN];
        let mut refused = home.command(&serve);
        let refused = refused.arg("--config").arg(&config).output().unwrap();
        let complaint = String::from_utf8(refused.stderr).unwrap();
        assert_eq!(refused.status.code(), Some(2), "{complaint}");
        assert!(complaint.contains(word), "{complaint}");
    }
    home.configure("[retention]\nmax_age_days = 30\nevery_minutes = 5\n");
    home.start();
}

#[test]
fn doctor_reports_a_limit_that_retention_cannot_meet() {
    let home = Home::new();
    let daemon = home.start();
    daemon.thread(&json!({"title": "never removed"}));
    daemon.stop();
    for (max_bytes, expected) in [(1, 1), (1_000_000_000, 0)] {
        home.configure(&format!("[retention]\nmax_bytes = {max_bytes}\n"));
        let doctor = home.command(&["doctor", "--json"]).output().unwrap();
        let findings = String::from_utf8(doctor.stdout).unwrap();
        let findings = findings
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap());
        let lacking: Vec<_> = findings
            .filter(|finding| finding["about"] == "retention" && finding["status"] == "lacking")
            .collect();
        assert_eq!(lacking.len(), expected, "{max_bytes}: {lacking:?}");
        let text = format!("retention.max_bytes is {max_bytes};");
        assert!(
            lacking
                .iter()
                .all(|it| it["text"].as_str().unwrap().contains(&text)),
            "{lacking:?}"
        );
    }
}

#[test]
fn failed_start_creates_no_secrets_key() {
    let home = Home::new();
    std::fs::create_dir_all(home.data()).unwrap();
    std::fs::write(home.data().join("windlass.db"), "a different database").unwrap();
    let refused = home.command(&["serve", "--port", "0", "--token", TOKEN]);
    let refused = { refused }.output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(!home.data().join("secrets.key").exists());
}

#[test]
fn older_database_is_accepted_only_with_consent() {
    let home = Home::new();
    let daemon = home.start();
    let thread = daemon.thread(&json!({}));
    let backup = home.data().join("backup");
    let database = rusqlite::Connection::open(home.data().join("windlass.db")).unwrap();
    let name = backup.to_str().unwrap();
    database.execute("VACUUM INTO ?1", [name]).unwrap();
    database.close().unwrap();
    let mut events = daemon.client.events(&thread, 0);
    daemon.turn(&thread, "hello");
    events.until("turn.completed");
    daemon.kill();
    std::fs::remove_file(home.data().join("windlass.db-wal")).unwrap();
    std::fs::rename(&backup, home.data().join("windlass.db")).unwrap();

    let refused = home.command(&["serve", "--port", "0", "--token", TOKEN]);
    let refused = { refused }.output().unwrap();
    let complaint = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(2), "{complaint}");
    assert!(complaint.contains("--accept-lost-commits"), "{complaint}");
    let daemon = home.start_with(&["--token", TOKEN, "--accept-lost-commits"]);
    assert_eq!(daemon.detail(&thread)["turns"], json!([]));
    daemon.kill();
    home.start().kill();
}
