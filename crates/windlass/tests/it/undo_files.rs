//! Undo with files, over the command line.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::json;

use crate::support::{Home, ScriptedModel};

fn stderr_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Returns a home whose model writes a file, and the ID of a thread with such a turn.
fn written(config: &str) -> (Home, String, ScriptedModel) {
    let call = json!({ "path": "made.txt", "content": "by the agent" });
    let (model, _) = ScriptedModel::calling(vec![("write", call)]);
    let home = Home::with_model(&model.url());
    home.configure(config);
    fs::write(home.path().join("theirs.txt"), "0").unwrap();
    let run = home.command(&["run", "--yes", "write it"]).output();
    let run = run.unwrap();
    assert!(run.status.success(), "{}", stderr_of(&run));
    assert!(home.path().join("made.txt").exists());
    let listed = home.command(&["threads", "list", "--json"]).output();
    let listed = listed.unwrap().stdout;
    let thread: serde_json::Value = serde_json::from_slice(&listed).unwrap();
    let id = crate::support::text(&thread["id"]);
    (home, id, model)
}

fn rewind(home: &Home, id: &str) -> Output {
    let rewound = home.command(&["threads", "rewind", id, "--files"]).output();
    rewound.unwrap()
}

#[test]
fn files_are_restored_from_another_process() {
    let (home, id, _model) = written("");
    let made = home.path().join("made.txt");
    fs::write(&made, "theirs").unwrap();
    let refused = rewind(&home, &id);
    assert!(!refused.status.success());
    assert!(
        stderr_of(&refused).contains("made.txt"),
        "{}",
        stderr_of(&refused)
    );
    assert_eq!(fs::read_to_string(&made).unwrap(), "theirs");
    fs::write(&made, "by the agent").unwrap();
    let rewound = rewind(&home, &id);
    assert!(rewound.status.success(), "{}", stderr_of(&rewound));
    let listed = "1 file was restored\n  removed   made.txt\n";
    assert!(
        stderr_of(&rewound).contains(listed),
        "{}",
        stderr_of(&rewound)
    );
    assert!(!made.exists());
    assert_eq!(
        fs::read_to_string(home.path().join("theirs.txt")).unwrap(),
        "0"
    );
}

#[test]
fn undo_without_checkpoints_names_the_setting() {
    let (home, id, _model) = written("[checkpoints]\nenabled = false\n");
    let refused = rewind(&home, &id);
    assert!(!refused.status.success());
    let stderr = stderr_of(&refused);
    assert!(stderr.contains("checkpoints.enabled"), "{stderr}");
    assert!(home.path().join("made.txt").exists());
    assert!(!home.data().join("checkpoints").exists());
}

fn only_room(data: &Path) -> PathBuf {
    let rooms = fs::read_dir(data.join("checkpoints/workspaces")).unwrap();
    let rooms: Vec<_> = rooms.map(|room| room.unwrap().path()).collect();
    let [room] = rooms.as_slice() else {
        panic!("{rooms:?}")
    };
    room.clone()
}

#[test]
fn killed_restore_finishes_at_the_next_start() {
    let call = json!({ "path": "made/file", "content": "by the agent" });
    let (model, _) = ScriptedModel::calling(vec![("write", call)]);
    let home = Home::with_model(&model.url());
    let daemon = home.start();
    let thread = daemon.thread(&json!({ "auto_approve": true }));
    let mut events = daemon.client.events(&thread, 0);
    daemon.turn(&thread, "write it");
    events.until("turn.completed");
    daemon.kill();
    // The file was removed, and the daemon died before it removed the directory.
    let made = home.workspace.join("made");
    fs::remove_file(made.join("file")).unwrap();
    let steps =
        json!([{ "path": "made", "from": { "kind": "directory", "mode": 0o755 }, "to": null }]);
    let restoring = json!({ "version": 1, "steps": steps });
    let room = only_room(&home.data());
    fs::write(room.join("restoring.json"), restoring.to_string()).unwrap();
    let daemon = home.start();
    assert!(!made.exists());
    assert!(!room.join("restoring.json").exists());
    // The client repeats its request.
    let path = format!("{thread}/undo");
    let undone = daemon.client.post(&path, &json!({ "files": true }));
    undone.expect(201);
}
