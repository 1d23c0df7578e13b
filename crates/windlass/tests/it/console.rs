//! `windlass console` and the link of `windlass serve`, with a running daemon.

use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use windlass_testkit::AsyncClient;

use crate::support::{Daemon, Home, text};

fn words(home: &Home, arguments: &[&str]) -> String {
    let output = home.command(arguments).output().unwrap();
    let complaint = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{arguments:?}: {complaint}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// A client without a token.
fn page(daemon: &Daemon) -> AsyncClient {
    AsyncClient {
        address: daemon.client.address.parse().unwrap(),
        token: None,
        headers: Vec::new(),
    }
}

/// Logs in as the page of a link does; returns the cookie and the key of the session.
async fn log_in(daemon: &Daemon, link: &str) -> Result<[String; 2], u16> {
    let (url, code) = link.split_once('#').unwrap();
    let origin = url.strip_suffix("/console/login").unwrap();
    let page = page(daemon).with("origin", origin);
    let reply = page.post("/console/login", json!({ "code": code })).await;
    if reply.status != 200 {
        return Err(reply.status);
    }
    let cookie = reply.header("set-cookie").unwrap().split(';').next();
    Ok([cookie.unwrap().to_owned(), text(&reply.json()["key"])])
}

async fn status(daemon: &Daemon, [cookie, key]: &[String; 2]) -> u16 {
    let page = page(daemon).with("cookie", cookie);
    page.with("x-windlass-key", key)
        .get("/v1/threads")
        .await
        .status
}

#[tokio::test]
async fn link_logs_one_browser_in_until_all_are_logged_out() {
    let home = Home::new();
    let daemon = home.start();
    let link = words(&home, &["console", "--print"]);
    let session = log_in(&daemon, &link).await.unwrap();
    assert_eq!(status(&daemon, &session).await, 200);
    assert_eq!(log_in(&daemon, &link).await.err(), Some(401));
    let json: Value = serde_json::from_str(&words(&home, &["console", "--json"])).unwrap();
    let other = log_in(&daemon, &text(&json["url"])).await.unwrap();
    assert_eq!(status(&daemon, &other).await, 200);
    words(&home, &["console", "--log-out-all"]);
    assert_eq!(status(&daemon, &session).await, 401);
    assert_eq!(status(&daemon, &other).await, 401);
}

#[tokio::test]
async fn serve_prints_a_link() {
    let home = Home::new();
    let errors = home.path().join("errors");
    let mut serve = home.serve();
    serve.stderr(std::fs::File::create(&errors).unwrap());
    let daemon = Daemon::started(&mut serve);
    let printed = until(|| {
        let text = std::fs::read_to_string(&errors).unwrap();
        let start = text.find("http://")?;
        let link = text[start..].split_whitespace().next()?;
        link.contains('#').then(|| link.to_owned())
    });
    assert!(printed.starts_with(&format!("http://{}/console/login#", daemon.client.address)));
    let session = log_in(&daemon, &printed).await.unwrap();
    assert_eq!(status(&daemon, &session).await, 200);
}

#[tokio::test]
async fn session_survives_a_restart_and_ends_with_the_token() {
    let home = Home::new();
    let daemon = home.start();
    let link = words(&home, &["console", "--print"]);
    let session = log_in(&daemon, &link).await.unwrap();
    daemon.kill();
    let daemon = home.start();
    assert_eq!(status(&daemon, &session).await, 200);
    let file = home.data().join("logins.json");
    let stored = std::fs::read_to_string(&file).unwrap();
    for secret in &session {
        let secret = secret.rsplit('=').next().unwrap();
        assert!(!stored.contains(secret), "{stored}");
    }
    let mode = std::fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    daemon.kill();
    let daemon = home.start_with(&["--token", "another-token"]);
    assert_eq!(status(&daemon, &session).await, 401);
}

#[test]
fn command_needs_a_daemon() {
    let home = Home::new();
    let output = home.command(&["console"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let complaint = String::from_utf8(output.stderr).unwrap();
    assert!(complaint.contains("windlass serve"), "{complaint}");
}

/// Waits for a value.
fn until<T>(mut find: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        if let Some(value) = find() {
            return value;
        }
        assert!(Instant::now() < end);
        std::thread::sleep(Duration::from_millis(10));
    }
}
