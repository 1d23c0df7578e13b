//! Undo with files, over the command line.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::json;

use crate::support::{Home, Model};

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Returns a home whose model writes a file, and the ID of a thread in which it did.
fn written(config: &str) -> (Home, String, Model) {
    let call = json!({ "path": "made.txt", "content": "by the agent" });
    let (model, _) = Model::calling(vec![("write", call)]);
    let home = Home::with_model(&model.url());
    home.configure(config);
    fs::write(home.path().join("theirs.txt"), "0").unwrap();
    let run = home.command(&["run", "--yes", "write it"]).output();
    let run = run.unwrap();
    assert!(run.status.success(), "{}", told(&run));
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
fn another_process_brings_the_files_back() {
    let (home, id, _model) = written("");
    let made = home.path().join("made.txt");
    fs::write(&made, "theirs").unwrap();
    let refused = rewind(&home, &id);
    assert!(!refused.status.success());
    assert!(told(&refused).contains("made.txt"), "{}", told(&refused));
    assert_eq!(fs::read_to_string(&made).unwrap(), "theirs");
    fs::write(&made, "by the agent").unwrap();
    let rewound = rewind(&home, &id);
    assert!(rewound.status.success(), "{}", told(&rewound));
    let listed = "1 file was restored\n  removed   made.txt\n";
    assert!(told(&rewound).contains(listed), "{}", told(&rewound));
    assert!(!made.exists());
    assert_eq!(
        fs::read_to_string(home.path().join("theirs.txt")).unwrap(),
        "0"
    );
}

#[test]
fn who_turned_it_off_is_told() {
    let (home, id, _model) = written("[checkpoints]\nenabled = false\n");
    let refused = rewind(&home, &id);
    assert!(!refused.status.success());
    let told = told(&refused);
    assert!(told.contains("checkpoints.enabled"), "{told}");
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
fn the_next_start_finishes_a_restore_that_was_killed() {
    let call = json!({ "path": "made/file", "content": "by the agent" });
    let (model, _) = Model::calling(vec![("write", call)]);
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
