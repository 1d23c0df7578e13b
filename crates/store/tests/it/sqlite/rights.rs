//! Permissions of the files of a store.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use windlass_store::{SqliteOptions, SqliteStore};

use super::support::{StoreHome, child_directory, custom, fill, fill_slowly, run_again};

const TEST: &str = "sqlite::rights::files_are_private_with_any_umask";

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// Lists the files of a store with their rights.
fn modes(directory: &Path) -> Vec<(String, u32)> {
    let files = fs::read_dir(directory).unwrap().map(Result::unwrap);
    files
        .map(|file| {
            let name = file.file_name().into_string().unwrap();
            (name, mode(&file.path()))
        })
        .collect()
}

fn assert_private(directory: &Path) {
    assert_eq!(mode(directory), 0o700);
    let modes = modes(directory);
    assert!(modes.iter().all(|(_, mode)| *mode == 0o600), "{modes:?}");
}

#[tokio::test]
async fn files_are_private_with_any_umask() {
    if let Some(directory) = child_directory() {
        let store = SqliteStore::open(SqliteOptions::new(&directory)).await;
        let store = store.unwrap();
        fill_slowly(&store, "s", vec![custom("a"), custom("b")]).await;
        assert!(modes(&directory).len() >= 5, "{:?}", modes(&directory));
        assert_private(&directory);
        return store.close().await;
    }
    let home = StoreHome::new();
    let again = run_again(TEST, &home.file("made/by/the/store"));
    // The umask applies to the whole process, so a separate one sets it.
    let mut shell = Command::new("sh");
    shell.args(["-c", "umask 000; exec \"$0\" \"$@\""]);
    shell.arg(again.get_program()).args(again.get_args());
    for (name, value) in again.get_envs() {
        shell.env(name, value.unwrap());
    }
    let done = shell.output().unwrap();
    assert!(done.status.success(), "{done:?}");
    assert_private(&home.file("made/by/the/store"));
}

#[tokio::test]
async fn open_makes_existing_files_private() {
    let home = StoreHome::new();
    let store = home.open().await;
    fill(&store, "s", vec![custom("a")]).await;
    store.close().await;
    let open_to_all = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    for (name, _) in modes(home.path()) {
        open_to_all(&home.file(&name), 0o644);
    }
    open_to_all(home.path(), 0o755);
    let store = home.open().await;
    fill(&store, "s", vec![custom("b")]).await;
    assert_private(home.path());
    store.close().await;
    assert_private(home.path());
}
