//! The commands of `docs/operations.md` work as described, in their order.

use std::path::Path;
use std::process::Command;

use serde_json::json;

use crate::support::{Daemon, Home};

/// Returns the lines of all shell blocks, in order.
fn commands() -> Vec<String> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operations.md");
    let page = std::fs::read_to_string(page).unwrap();
    let blocks = page.split("```sh\n").skip(1);
    let lines = blocks.flat_map(|block| block.split("```").next().unwrap_or_default().lines());
    lines.map(str::to_owned).collect()
}

fn turn(daemon: &Daemon, thread: &str) {
    let mut events = daemon.client.events(thread, 0);
    events.replay();
    daemon.turn(thread, "hello");
    events.until("turn.completed");
}

#[test]
fn every_command_of_the_page_succeeds_in_order() {
    let home = Home::new();
    let here = home.path().to_str().unwrap();
    std::fs::create_dir_all(home.path().join("var/backups")).unwrap();
    let mut daemon = Some(home.start());
    let thread = daemon.as_ref().unwrap().thread(&json!({}));
    turn(daemon.as_ref().unwrap(), &thread);
    let commands = commands();
    assert!(commands.len() > 10, "{commands:?}");
    for command in commands {
        let words: Vec<String> = command
            .split_whitespace()
            .map(|word| {
                if word.starts_with("/var/") || word.starts_with("/srv/") {
                    format!("{here}{word}")
                } else {
                    word.to_owned()
                }
            })
            .collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match words.as_slice() {
            ["systemctl", "stop", "windlass"] => {
                assert!(daemon.take().unwrap().stop().success());
            }
            ["systemctl", "start", "windlass"] => {
                let started = daemon.insert(home.start());
                turn(started, &thread);
            }
            ["windlass", arguments @ ..] => {
                let out = home.command(arguments).output().unwrap();
                assert!(out.status.success(), "{command}: {out:?}");
            }
            _ => panic!("no rule for `{command}`"),
        }
    }
    let moved = home.path().join("srv/windlass-moved");
    let data = [
        "--token",
        crate::support::TOKEN,
        "--data",
        moved.to_str().unwrap(),
    ];
    turn(&home.start_with(&data), &thread);
}

#[test]
fn configuration_pages_name_existing_commands() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let page = std::fs::read_to_string(page).unwrap();
    let home = Home::new();
    let lines = page
        .lines()
        .filter(|line| line.starts_with("windlass config"));
    let mut seen = 0;
    for line in lines {
        let command = line.split('#').next().unwrap_or_default();
        let arguments: Vec<&str> = command.split_whitespace().skip(1).collect();
        let out = Command::output(&mut home.command(&arguments)).unwrap();
        assert!(out.status.success(), "{line}: {out:?}");
        seen += 1;
    }
    assert_eq!(seen, 6);
}
