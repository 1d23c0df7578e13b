//! A disk that is temporarily full. The test mounts its own disk, which needs a process in a separate mount namespace.

use std::fs::{self, File};
use std::io::Write;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use serde_json::json;
use windlass_testkit::{Answer, skipped};

use crate::support::{Home, ScriptedModel};

#[test]
fn daemon_reports_a_full_disk_and_recovers() {
    let may_mount = Command::new("unshare").args(["-rm", "true"]).status();
    if !may_mount.is_ok_and(|status| status.success()) {
        return skipped("full_disk", "nothing can be mounted here");
    }
    let inside = Command::new("unshare")
        .args(["-rm", "--"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "full_disk::inside", "--ignored"])
        .output()
        .unwrap();
    let stdout = String::from_utf8_lossy(&inside.stdout);
    assert!(inside.status.success(), "{stdout}");
    assert!(stdout.contains("1 passed"), "{stdout}");
}

fn until(holds: impl Fn() -> bool) {
    while !holds() {
        sleep(Duration::from_millis(100));
    }
}

#[test]
#[ignore = "needs a view of its own; the other test runs it there"]
fn inside() {
    let mut model = ScriptedModel::start();
    let home = Home::with_model(&model.url());
    fs::create_dir(home.data()).unwrap();
    let disk = home.data();
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=16m,mode=700", "none"])
        .arg(&disk)
        .status();
    assert!(mounted.unwrap().success());
    let log = home.path().join("log");
    let daemon = home.start_logging(File::create(&log).unwrap());
    daemon.client.get("/ready").expect(200);
    let thread = daemon.thread(&json!({}));
    let mut events = daemon.client.events(&thread, 0);
    daemon.turn(&thread, "hello");
    let exchange = model.next_request();

    // Fills the remaining space with ever smaller writes.
    let filler = disk.join("filler");
    let mut file = File::create(&filler).unwrap();
    for size in [1 << 20, 4096, 1] {
        while file.write_all(&vec![0; size]).is_ok() {}
    }
    until(|| daemon.client.get("/ready").status == 503);
    // Also uses up the space that the database's log has already allocated.
    for bytes in [100_000, 0] {
        let body = json!({ "system_prompt": "x".repeat(bytes) });
        while daemon.client.post("/v1/threads", &body).status != 503 {}
    }
    let answer = "The answer is here. ".repeat(50_000);
    model.say(exchange, &Answer::text(&[&answer]));
    until(|| {
        fs::read_to_string(&log)
            .unwrap()
            .contains("the thread stopped")
    });
    assert_eq!(daemon.detail(&thread)["turns"][0]["status"], "in_progress");

    drop(file);
    fs::remove_file(&filler).unwrap();
    // The turn retries its model call automatically.
    model.answer(&Answer::text(&["It is over."]));
    events.until("turn.completed");
    assert_eq!(daemon.detail(&thread)["turns"][0]["status"], "completed");
    until(|| daemon.client.get("/ready").status == 200);
    daemon.stop();
}
