//! An external agent with unlimited output exhausts neither the daemon's memory nor its disk.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use crate::support::{Daemon, Frame, Home, Sandbox};

/// An ACP agent that answers a prompt with a gigabyte of text.
const FLOODING: &str = r#"#!/bin/sh
while read -r line; do
  case "$line" in
    *'"initialize"'*) echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}' ;;
    *'"session/new"'*) echo '{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s"}}' ;;
    *'"session/prompt"'*)
      text=$(head -c 8000 /dev/zero | tr '\0' x)
      content='{"type":"text","text":"'$text'"}'
      update='{"sessionUpdate":"agent_message_chunk","content":'$content'}'
      yes '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":'$update'}}' | head -c 1000000000 &
      flood=$! ;;
    *'"session/cancel"'*)
      kill $flood; wait $flood
      # The last line was cut.
      echo; echo '{"jsonrpc":"2.0","id":3,"result":{"stopReason":"cancelled"}}' ;;
  esac
done
"#;
const MIB: u64 = 1024 * 1024;
/// A turn records 16 MiB. The daemon alone takes about 50 MiB, a text is in memory and on disk several times, and the allocator retains free pages.
/// The limits still detect half of the agent's output.
const MAX_RESIDENT: u64 = 512 * MIB;
const MAX_STORED: u64 = 128 * MIB;

/// Returns the daemon's peak resident set size, in bytes.
fn peak_resident(daemon: &Daemon) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", daemon.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.unwrap().trim().trim_end_matches(" kB");
    kib.parse::<u64>().unwrap() * 1024
}

fn stored(home: &Home) -> u64 {
    let files = fs::read_dir(home.data()).unwrap().flatten();
    let sizes = files.filter_map(|file| file.metadata().ok().filter(fs::Metadata::is_file));
    sizes.map(|metadata| metadata.len()).sum()
}

/// Runs the agent until the daemon stops it. Returns the daemon and the size of the recorded text, in bytes.
fn flood(home: &Home, sandbox: Sandbox, config: &str) -> (Daemon, usize) {
    let program = home.workspace.join("agent");
    fs::write(&program, FLOODING).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    home.configure(&format!(
        "[shell]\nsandbox = '{}'\n[backends.flooding]\nkind = 'acp'\ncommand = '{}'\n{config}",
        sandbox.name(),
        program.display()
    ));
    let daemon = home.start();
    let thread = daemon.thread(&json!({"backend": "flooding"}));
    let mut events = daemon.client.events(&thread, 0);
    daemon.turn(&thread, "tell me everything");
    let frames = events.until("turn.completed");
    let turn = &frames.last().unwrap().data["payload"]["turn"];
    assert_eq!(turn["status"], "failed", "{sandbox:?}: {turn}");
    let failed = frames.iter().any(|frame| {
        let metadata = &frame.data["payload"]["item"]["metadata"];
        metadata["error_code"] == "backend_output_limit"
    });
    assert!(failed, "{sandbox:?}: {turn}");
    let deltas = frames.iter().filter(|frame| frame.event == "item.delta");
    let text = |frame: &Frame| frame.data["payload"]["delta"].as_str().map_or(0, str::len);
    (daemon, deltas.map(text).sum())
}

#[test]
fn configured_limit_of_recorded_agent_output_applies() {
    let limit = 100_000;
    for sandbox in Sandbox::all("backend_output") {
        let home = Home::new();
        let config = format!("[limits]\nbackend_output_bytes = {limit}\n");
        let (_daemon, recorded) = flood(&home, sandbox, &config);
        assert!((1..=limit).contains(&recorded), "{recorded} bytes");
    }
}

#[test]
fn agent_with_endless_output_is_stopped() {
    for sandbox in Sandbox::all("backend_output") {
        let home = Home::new();
        let (daemon, _) = flood(&home, sandbox, "");
        let resident = peak_resident(&daemon);
        assert!(
            resident < MAX_RESIDENT,
            "{sandbox:?}: {} MiB",
            resident / MIB
        );
        daemon.stop();
        let stored = stored(&home);
        assert!(stored < MAX_STORED, "{sandbox:?}: {} MiB", stored / MIB);
    }
}
