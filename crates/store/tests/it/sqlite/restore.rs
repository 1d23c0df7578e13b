//! Restoring a backup into a data directory.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use windlass_store::sqlite::{
    HostFile, Prefer, RestoreError, RestoreOptions, RestoreStep, SqliteOptions, restore,
};
use windlass_store::{SqliteError, SqliteStore};

use super::support::{StoreHome, custom, fill, fill_slowly, read};

/// Passes the target of the restore to the child process.
const PLACE: &str = "WINDLASS_TEST_RESTORE_PLACE";
/// Passes the step after which the child process waits to be killed.
const STEP: &str = "WINDLASS_TEST_RESTORE_STEP";

/// A data directory with two records, and a backup of when there was one.
struct RestoreFixture {
    home: StoreHome,
}

impl RestoreFixture {
    async fn new() -> Self {
        let fixture = Self {
            home: StoreHome::new(),
        };
        let store = SqliteStore::open(SqliteOptions::new(fixture.data())).await;
        let store = store.unwrap();
        fill(&store, "s", vec![custom("first")]).await;
        fs::write(fixture.data().join("tokens.json"), "old tokens").unwrap();
        fs::write(fixture.data().join("secrets.key"), "old key").unwrap();
        let files = ["tokens.json", "secrets.key"].map(|name| fixture.data().join(name));
        let made = store.back_up(fixture.backup(), files.into(), |_| {}).await;
        made.unwrap();
        fill_slowly(&store, "s", vec![custom("second"), custom("third")]).await;
        store.close().await;
        for (name, text) in [
            ("tokens.json", "new tokens"),
            ("secrets.key", "new key"),
            ("trusted.json", "trust"),
        ] {
            fs::write(fixture.data().join(name), text).unwrap();
        }
        fixture
    }

    fn data(&self) -> PathBuf {
        self.home.file("data")
    }

    fn backup(&self) -> PathBuf {
        self.home.file("backup")
    }

    fn options(&self) -> RestoreOptions {
        options(self.home.path())
    }

    async fn refusal(&self) -> RestoreError {
        let before = self.contents();
        let error = restore(self.options(), |_| {}).await.unwrap_err();
        assert_eq!(self.contents(), before, "nothing is changed");
        error
    }

    /// Returns the names and contents of all files, except the lock.
    fn contents(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let mut files = Vec::new();
        let mut directories = vec![self.home.path().to_owned()];
        while let Some(directory) = directories.pop() {
            for entry in fs::read_dir(directory).unwrap() {
                let path = entry.unwrap().path();
                // Links are not followed: a target may be endless.
                let kind = fs::symlink_metadata(&path).unwrap().file_type();
                if kind.is_dir() {
                    directories.push(path);
                } else if kind.is_file() && !path.ends_with("windlass.lock") {
                    files.push((path.clone(), fs::read(&path).unwrap()));
                }
            }
        }
        files.sort();
        files
    }

    /// Returns the directories next to the data and its backup.
    fn others(&self) -> Vec<String> {
        let entries = fs::read_dir(self.home.path()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut others: Vec<String> = names
            .filter(|name| name != "data" && name != "backup")
            .collect();
        others.sort();
        others
    }
}

fn options(fixture: &Path) -> RestoreOptions {
    let belonging = |name: &str, prefer| HostFile {
        name: name.to_owned(),
        prefer,
    };
    RestoreOptions {
        from: fixture.join("backup"),
        into: fixture.join("data"),
        host_files: vec![
            belonging("tokens.json", Prefer::Present),
            belonging("secrets.key", Prefer::Backup),
            belonging("trusted.json", Prefer::Present),
        ],
        chain_key: None,
    }
}

/// Opens a directory and returns how many records are in it, after it was verified and written to.
async fn sound(directory: &Path) -> usize {
    let store = SqliteStore::open(SqliteOptions::new(directory)).await;
    let store = store.unwrap();
    assert_eq!(store.verify().await.unwrap().findings, []);
    let count = read(&store, "s").await.unwrap().len();
    fill(&store, "t", vec![custom("on")]).await;
    store.close().await;
    count
}

fn text(directory: &Path, name: &str) -> String {
    fs::read_to_string(directory.join(name)).unwrap()
}

#[tokio::test]
async fn restore_replaces_the_directory_and_retains_the_former_one() {
    let fixture = RestoreFixture::new().await;
    let report = restore(fixture.options(), |_| {}).await.unwrap();
    let data = fixture.data();
    assert_eq!(sound(&data).await, 1);
    assert_eq!(
        text(&data, "tokens.json"),
        "new tokens",
        "revoked tokens stay revoked"
    );
    assert_eq!(
        text(&data, "secrets.key"),
        "old key",
        "it belongs to the secrets"
    );
    assert_eq!(text(&data, "trusted.json"), "trust");
    let taken = [
        ("secrets.key", Prefer::Backup),
        ("tokens.json", Prefer::Present),
        ("trusted.json", Prefer::Present),
    ];
    let taken = taken.map(|(name, prefer)| (name.to_owned(), prefer));
    assert_eq!(report.taken, taken);
    let former = report.former.unwrap();
    assert!(
        former
            .file_name()
            .unwrap()
            .to_string_lossy()
            .starts_with("data.before-restore-")
    );
    assert_eq!(sound(&former).await, 3);
    assert_eq!(text(&former, "secrets.key"), "new key");
    assert_eq!(
        fixture.others(),
        [former.file_name().unwrap().to_str().unwrap()]
    );
    assert!(!data.join("windlass.unfinished").exists());
    // The backup is still one.
    fs::remove_dir_all(&data).unwrap();
    restore(fixture.options(), |_| {}).await.unwrap();
    assert_eq!(sound(&data).await, 1);
    assert_eq!(text(&data, "tokens.json"), "old tokens");
}

#[tokio::test]
async fn restore_fills_a_missing_or_empty_directory_and_follows_a_link() {
    let fixture = RestoreFixture::new().await;
    let data = fixture.data();
    fs::remove_dir_all(&data).unwrap();
    fs::create_dir(&data).unwrap();
    assert_eq!(
        restore(fixture.options(), |_| {}).await.unwrap().former,
        None
    );
    assert_eq!(sound(&data).await, 1);
    assert_eq!(fixture.others(), [""; 0]);

    fs::rename(&data, fixture.home.file("real")).unwrap();
    std::os::unix::fs::symlink("real", &data).unwrap();
    let former = restore(fixture.options(), |_| {})
        .await
        .unwrap()
        .former
        .unwrap();
    assert!(data.is_symlink());
    assert_eq!(sound(&data).await, 1);
    assert!(
        former
            .file_name()
            .unwrap()
            .to_string_lossy()
            .starts_with("real.")
    );

    fs::remove_file(&data).unwrap();
    std::os::unix::fs::symlink("nowhere", &data).unwrap();
    let error = fixture.refusal().await;
    assert!(error.to_string().contains("not a directory"), "{error}");
}

#[tokio::test]
async fn directory_in_use_is_refused() {
    let fixture = RestoreFixture::new().await;
    let store = SqliteStore::open(SqliteOptions::new(fixture.data())).await;
    let store = store.unwrap();
    let error = fixture.refusal().await;
    let holder = std::process::id().to_string();
    assert!(
        matches!(&error, RestoreError::Store(SqliteError::Locked { holder: named, .. }) if *named == holder),
        "{error}"
    );
    store.close().await;
}

/// Changes the text of a backup's `backup.json`.
fn edit(fixture: &RestoreFixture, edit: impl Fn(&mut serde_json::Value)) {
    let file = fixture.backup().join("backup.json");
    let mut manifest = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    edit(&mut manifest);
    fs::write(&file, manifest.to_string()).unwrap();
}

#[tokio::test]
async fn backup_of_another_version_is_refused() {
    type Edit = fn(&mut serde_json::Value);
    let edits: [Edit; 3] = [
        |manifest| manifest["windlass_backup"] = 2.into(),
        |manifest| manifest["schema"] = 99.into(),
        |manifest| manifest["files"]["../../evil"] = manifest["files"]["windlass.db"].clone(),
    ];
    for change in edits {
        let fixture = RestoreFixture::new().await;
        edit(&fixture, change);
        let error = fixture.refusal().await;
        assert!(
            matches!(error, RestoreError::OtherVersion { .. }),
            "{error}"
        );
        assert!(error.to_string().contains("another version"), "{error}");
    }
}

#[tokio::test]
async fn invalid_or_damaged_backup_is_refused() {
    let fixture = RestoreFixture::new().await;
    let database = fixture.backup().join("windlass.db");
    let good = fs::read(&database).unwrap();
    let mut bad = good.clone();
    *bad.last_mut().unwrap() ^= 1;
    fs::write(&database, &bad).unwrap();
    let error = fixture.refusal().await;
    assert!(matches!(error, RestoreError::Changed { .. }), "{error}");

    fs::remove_file(&database).unwrap();
    std::os::unix::fs::symlink("/dev/zero", &database).unwrap();
    let error = fixture.refusal().await;
    assert!(
        matches!(error, RestoreError::Store(SqliteError::Io { .. })),
        "{error}"
    );
    fs::remove_file(&database).unwrap();
    fs::write(&database, &good).unwrap();

    edit(&fixture, |manifest| manifest["commits"] = 1.into());
    let error = fixture.refusal().await;
    assert!(error.to_string().contains("another database"), "{error}");
    fs::write(fixture.backup().join("backup.json"), "{").unwrap();
    let error = fixture.refusal().await;
    assert!(
        error.to_string().contains("backup.json cannot be read"),
        "{error}"
    );
    fs::remove_file(fixture.backup().join("backup.json")).unwrap();
    let error = fixture.refusal().await;
    assert!(matches!(error, RestoreError::NotABackup(_)), "{error}");
    fs::remove_dir_all(fixture.backup()).unwrap();
    let error = fixture.refusal().await;
    assert!(matches!(error, RestoreError::NotABackup(_)), "{error}");
}

#[tokio::test]
async fn backup_that_does_not_verify_is_refused() {
    let fixture = RestoreFixture::new().await;
    fs::remove_dir_all(fixture.backup()).unwrap();
    {
        let database = rusqlite::Connection::open(fixture.data().join("windlass.db")).unwrap();
        let changed = database.execute(
            "UPDATE records SET chain = zeroblob(32) WHERE position = 2",
            [],
        );
        assert_eq!(changed.unwrap(), 1);
    }
    let store = SqliteStore::open_read_only(SqliteOptions::new(fixture.data())).await;
    let store = store.unwrap();
    store
        .back_up(fixture.backup(), Vec::new(), |_| {})
        .await
        .unwrap();
    store.close().await;
    let error = fixture.refusal().await;
    assert!(matches!(error, RestoreError::Unsound { .. }), "{error}");
}

/// Restores in a separate process, which reports its step and waits there.
#[tokio::test]
#[ignore = "the child of another test"]
async fn child() {
    let (fixture, last) = (std::env::var(PLACE).unwrap(), std::env::var(STEP).unwrap());
    let step = move |step: RestoreStep| {
        if format!("{step:?}") == last {
            writeln!(std::io::stdout(), "reached {last}").unwrap();
            loop {
                std::thread::park();
            }
        }
    };
    restore(options(Path::new(&fixture)), step).await.unwrap();
}

fn killed_after(step: RestoreStep, fixture: &Path) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "sqlite::restore::child",
            "--ignored",
            "--nocapture",
        ])
        .env(PLACE, fixture)
        .env(STEP, format!("{step:?}"))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    wait_for(&mut child, &format!("reached {step:?}"));
    child.kill().unwrap();
    child.wait().unwrap();
}

#[track_caller]
fn wait_for(child: &mut Child, word: &str) {
    let lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
    let mut lines = lines.map_while(Result::ok);
    assert!(
        lines.any(|line| line.contains(word)),
        "it ended before `{word}`"
    );
}

#[tokio::test]
async fn killed_restore_is_complete_or_absent_and_can_be_repeated() {
    for step in RestoreStep::ALL {
        let fixture = RestoreFixture::new().await;
        killed_after(step, fixture.home.path());
        let is_new = matches!(step, RestoreStep::InPlace | RestoreStep::FormerMoved);
        let data = fixture.data();
        assert_eq!(sound(&data).await, if is_new { 1 } else { 3 }, "{step:?}");
        let key = if is_new { "old key" } else { "new key" };
        assert_eq!(text(&data, "secrets.key"), key, "{step:?}");
        assert_eq!(text(&data, "tokens.json"), "new tokens", "{step:?}");

        let former = restore(fixture.options(), |_| {}).await.unwrap().former;
        assert_eq!(sound(&data).await, 1, "{step:?}");
        assert_eq!(sound(&former.unwrap()).await, if is_new { 1 } else { 3 });
        let others = fixture.others();
        assert!(
            others
                .iter()
                .all(|name| name.starts_with("data.before-restore-")),
            "{step:?}: {others:?}"
        );
        let expected = if is_new { 2 } else { 1 };
        assert_eq!(
            others.len(),
            expected,
            "{step:?}: the former content is never lost: {others:?}"
        );
    }
}
