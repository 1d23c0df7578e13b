//! The commands of `docs/http.md` work as described, with the real binary.

use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use windlass_testkit::skipped;

/// The port that the page uses.
const PORT: &str = "7878";
/// Turns a hang into a failure.
const PATIENCE: &str = "120";

/// A code block and its heading.
struct Block {
    heading: String,
    language: String,
    text: String,
}

fn blocks() -> Vec<Block> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/http.md");
    let page = std::fs::read_to_string(page).unwrap();
    let (mut heading, mut blocks) = (String::new(), Vec::new());
    let mut open: Option<Block> = None;
    for line in page.lines() {
        match (&mut open, line.strip_prefix("```")) {
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (Some(block), None) => block.text += &format!("{line}\n"),
            (None, Some(language)) => {
                open = Some(Block {
                    heading: heading.clone(),
                    language: language.to_owned(),
                    text: String::new(),
                });
            }
            (None, None) => {
                if let Some(title) = line.strip_prefix("## ") {
                    heading = title.to_owned();
                }
            }
        }
    }
    blocks
}

fn is_here(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output();
    found.is_ok_and(|out| out.status.success())
}

/// Returns a program that a block needs and that is not installed.
fn lacks(block: &Block) -> Option<&'static str> {
    let needs = |program: &&str| block.text.contains(&format!("{program} "));
    ["curl", "python3"]
        .into_iter()
        .filter(needs)
        .find(|program| !is_here(program))
}

#[test]
fn every_tutorial_block_works() {
    let home = tempfile::tempdir().unwrap();
    let programs = home.path().join("programs");
    std::fs::create_dir(&programs).unwrap();
    symlink(env!("CARGO_BIN_EXE_windlass"), programs.join("windlass")).unwrap();
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port().to_string();
    drop(free);

    let mut script =
        "set -euo pipefail\ntrap 'kill $(jobs -p) 2> /dev/null || true' EXIT\n".to_owned();
    let (mut ran, mut left_out) = (Vec::new(), Vec::new());
    for block in blocks() {
        let text = block.text.replace(PORT, &port);
        match block.language.as_str() {
            "sh" if lacks(&block).is_some() => {
                let what = format!("docs/http.md, {}", block.heading);
                skipped(
                    &what,
                    &format!("{} is not installed", lacks(&block).unwrap()),
                );
                left_out.push(block.heading);
            }
            "sh" => {
                script += &format!("echo '== {}'\n{text}", block.heading);
                ran.push(block.heading);
            }
            "python" => {
                let name = text.lines().next().and_then(|line| line.strip_prefix("# "));
                std::fs::write(home.path().join(name.unwrap()), &text).unwrap();
            }
            other => panic!("no rule for a block of `{other}`"),
        }
    }
    if left_out.iter().any(|heading| heading == "A daemon") {
        // Without curl, nothing can be tested.
        return;
    }
    let path = std::env::var("PATH").unwrap();
    let out = Command::new("timeout")
        .args([PATIENCE, "bash", "-c", &script])
        .current_dir(home.path())
        .env_clear()
        .env("PATH", format!("{}:{path}", programs.display()))
        .env("HOME", home.path())
        .output()
        .unwrap();
    let stdout = String::from_utf8_lossy(&out.stdout).into_owned();
    let stderr = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(out.status.success(), "{:?}\n{stdout}\n{stderr}", out.status);
    for heading in &ran {
        assert!(
            stdout.contains(&format!("== {heading}")),
            "{heading}: {stdout}"
        );
    }
    assert!(stdout.contains("event: approval.required"), "{stdout}");
    assert!(stdout.contains("\"resumed\":true"), "{stdout}");
    if left_out.is_empty() {
        assert!(stdout.contains("[allowed: shell "), "{stdout}");
        assert!(
            stdout
                .trim_end()
                .ends_with("[completed]\n== Stop the daemon"),
            "{stdout}"
        );
    }
}
