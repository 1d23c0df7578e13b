//! Invalid data directories.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::json;
use windlass_testkit::skipped;

use crate::support::{Daemon, Home, OTHER_USER, given_to_other_user, is_root};

fn stderr(out: &Output) -> String {
    String::from_utf8(out.stderr.clone()).unwrap()
}

fn token_create(home: &Home) -> Output {
    home.command(&["token", "create"]).output().unwrap()
}

#[test]
fn data_directory_link_is_followed_and_a_dangling_one_is_refused() {
    let home = Home::new();
    symlink("real", home.data()).unwrap();
    for arguments in [&["serve", "--port", "0"][..], &["token", "create"]] {
        let refused = home.command(arguments).output().unwrap();
        let message = stderr(&refused);
        assert_eq!(refused.status.code(), Some(2), "{message}");
        assert!(
            message.contains("is a symlink to real, which does not exist"),
            "{message}"
        );
    }
    assert!(!home.path().join("real").exists());

    fs::create_dir(home.path().join("real")).unwrap();
    let message = stderr(&token_create(&home));
    assert!(
        message.contains("is a symlink; ") && message.contains("/real is used"),
        "{message}"
    );
    let daemon = home.start();
    let thread = daemon.thread(&json!({}));
    daemon.detail(&thread);
    assert!(home.path().join("real/windlass.db").exists());
}

#[test]
fn file_at_the_data_path_is_refused_and_unchanged() {
    let home = Home::new();
    fs::write(home.data(), "mine").unwrap();
    let refused = home.command(&["serve", "--port", "0"]).output().unwrap();
    let message = stderr(&refused);
    assert_eq!(refused.status.code(), Some(2), "{message}");
    assert!(
        message.contains("cannot create the data directory") && message.contains("--data"),
        "{message}"
    );
    assert_eq!(fs::read(home.data()).unwrap(), b"mine");
}

/// Runs a command as a user without root's access to all files.
fn as_other_user(home: &Home, arguments: &[&str]) -> Option<Output> {
    let mut command = home.command(arguments);
    if is_root() {
        fs::set_permissions(home.path(), fs::Permissions::from_mode(0o755)).unwrap();
        command.uid(OTHER_USER).gid(OTHER_USER);
    }
    match command.output() {
        Ok(out) => Some(out),
        Err(error) => {
            skipped("a data directory of another user", &error.to_string());
            None
        }
    }
}

#[test]
fn unwritable_data_directory_is_refused_and_unchanged() {
    let home = Home::new();
    fs::create_dir(home.data()).unwrap();
    fs::set_permissions(home.data(), fs::Permissions::from_mode(0o555)).unwrap();
    let serve = ["serve", "--port", "0", "--token", "t"];
    let Some(refused) = as_other_user(&home, &serve) else {
        return;
    };
    let message = stderr(&refused);
    assert_eq!(refused.status.code(), Some(2), "{message}");
    assert!(
        message.contains("cannot write to the data directory") && message.contains("--data"),
        "{message}"
    );
    assert_eq!(fs::read_dir(home.data()).unwrap().count(), 0);
}

/// An unreadable directory may contain data, so it is not reported as empty.
#[test]
fn unreadable_data_directory_is_not_treated_as_empty() {
    let lists = [
        &["threads", "list"][..],
        &["tasks", "list"],
        &["automations", "list"],
        &["runs", "list"],
        &["store", "verify"],
    ];
    let refused = |out: &Output| {
        let message = stderr(out);
        assert_eq!(out.status.code(), Some(2), "{message}");
        assert!(message.contains("cannot be read"), "{message}");
    };
    let home = Home::new();
    fs::write(home.path().join("file"), "").unwrap();
    let below = home.path().join("file/data");
    for words in lists {
        let words = [words, &["--data", below.to_str().unwrap()]].concat();
        refused(&home.command(&words).output().unwrap());
    }
    fs::create_dir(home.data()).unwrap();
    fs::set_permissions(home.data(), fs::Permissions::from_mode(0o000)).unwrap();
    for words in lists {
        let Some(out) = as_other_user(&home, words) else {
            return;
        };
        refused(&out);
    }
    // A missing directory is reported as one without data.
    let none = Home::new().command(&["threads", "list"]).output().unwrap();
    assert!(none.status.success(), "{}", stderr(&none));
}

#[test]
fn data_directory_of_another_user_is_refused() {
    let home = Home::new();
    fs::create_dir(home.data()).unwrap();
    if std::os::unix::fs::chown(home.data(), Some(1), None).is_err() {
        return skipped("a data directory of another user", "only root can make one");
    }
    fs::set_permissions(home.data(), fs::Permissions::from_mode(0o777)).unwrap();
    let Some(refused) = as_other_user(&home, &["token", "create"]) else {
        return;
    };
    let message = stderr(&refused);
    assert!(
        message.contains("belongs to another user (uid 1)"),
        "{message}"
    );
    assert_eq!(fs::read_dir(home.data()).unwrap().count(), 0);
}

#[test]
fn data_directory_of_another_user_is_refused_to_root() {
    let home = Home::new();
    fs::create_dir(home.data()).unwrap();
    if !given_to_other_user(&home.data()) {
        return skipped("a data directory of another user", "only root can make one");
    }
    for words in [
        &["serve", "--port", "0"][..],
        &["token", "create"],
        &["run", "hi"],
    ] {
        let refused = home.command(words).output().unwrap();
        let message = stderr(&refused);
        assert_eq!(refused.status.code(), Some(2), "{words:?}: {message}");
        assert!(message.contains("another user (uid 65534)"), "{message}");
    }
    assert_eq!(fs::read_dir(home.data()).unwrap().count(), 0);
}

/// Any user could have placed a socket in a world-writable directory and would get the token.
#[test]
fn no_token_is_sent_to_a_socket_in_a_world_writable_directory() {
    let home = Home::new();
    fs::create_dir(home.data()).unwrap();
    fs::set_permissions(home.data(), fs::Permissions::from_mode(0o1777)).unwrap();
    let socket = UnixListener::bind(home.data().join("daemon.sock")).unwrap();
    let mut command = home.command(&["run", "hello"]);
    let refused = command.env("WINDLASS_RUNTIME_TOKEN", "secret").output();
    let refused = refused.unwrap();
    let message = stderr(&refused);
    assert_eq!(refused.status.code(), Some(2), "{message}");
    assert!(message.contains("all users can write"), "{message}");
    socket.set_nonblocking(true).unwrap();
    assert!(socket.accept().is_err(), "a client connected");
}

#[test]
fn no_token_is_sent_to_a_daemon_of_another_user() {
    let home = Home::new();
    fs::create_dir(home.data()).unwrap();
    if !given_to_other_user(&home.data()) {
        return skipped("a daemon of another user", "only root can start one");
    }
    fs::set_permissions(home.path(), fs::Permissions::from_mode(0o755)).unwrap();
    if as_other_user(&home, &["--version"]).is_none() {
        return;
    }
    let mut serve = home.command(&["serve", "--port", "0"]);
    let _daemon = Daemon::started(serve.uid(OTHER_USER).gid(OTHER_USER));
    let mut command = home.command(&["run", "hello"]);
    let refused = command.env("WINDLASS_RUNTIME_TOKEN", "secret").output();
    let refused = refused.unwrap();
    let message = stderr(&refused);
    assert_eq!(refused.status.code(), Some(2), "{message}");
    assert!(message.contains("another user (uid 65534)"), "{message}");
}

#[test]
fn without_a_home_the_data_path_must_be_set() {
    let home = Home::new();
    let mut command = home.command(&["threads", "list"]);
    let refused = command.env_remove("WINDLASS_DATA").output().unwrap();
    let message = stderr(&refused);
    assert_eq!(refused.status.code(), Some(2), "{message}");
    assert!(
        message.contains("WINDLASS_DATA") && message.contains("HOME"),
        "{message}"
    );
    // An empty variable is treated as unset.
    let mut command = home.command(&["token", "create"]);
    let made = command.env("WINDLASS_DATA", "").env("HOME", home.path());
    let made = made.output().unwrap();
    assert!(made.status.success(), "{}", stderr(&made));
    let state = home.path().join(".local/state/windlass");
    assert!(state.join("tokens.json").exists());
}

fn git(directory: &Path, arguments: &[&str]) -> Option<String> {
    let mut git = Command::new("git");
    let out = git
        .args(arguments)
        .current_dir(directory)
        .env("HOME", directory);
    Some(String::from_utf8(out.output().ok()?.stdout).unwrap())
}

#[test]
fn data_directory_in_a_git_repository_is_ignored_by_git() {
    let home = Home::new();
    fs::create_dir(home.path().join(".git")).unwrap();
    let message = stderr(&token_create(&home));
    assert!(message.contains("in the git repository"), "{message}");
    assert_eq!(fs::read(home.data().join(".gitignore")).unwrap(), b"*\n");
    let again = stderr(&token_create(&home));
    assert!(!again.contains("git"), "{again}");

    fs::remove_dir(home.path().join(".git")).unwrap();
    match git(home.path(), &["init", "-q"]) {
        Some(_) => {
            let status = git(home.path(), &["status", "--porcelain"]).unwrap();
            assert_eq!(status, "", "nothing of it is offered to be committed");
        }
        None => skipped("a data directory in a git repository", "there is no git"),
    }
}

/// Lists the entries of a directory with their modes, starting with the directory itself.
fn picture(directory: &Path) -> Vec<(String, u32)> {
    let mode = |path: &Path| fs::symlink_metadata(path).unwrap().permissions().mode();
    let entries = fs::read_dir(directory).unwrap().map(Result::unwrap);
    let mut all: Vec<_> = entries
        .map(|entry| {
            let name = entry.file_name().into_string().unwrap();
            (name, mode(&entry.path()))
        })
        .collect();
    all.push((String::new(), mode(directory)));
    all.sort();
    all
}

#[test]
fn directory_with_other_files_is_refused_and_unchanged() {
    for names in [
        &["main.rs", "windlass.toml"][..],
        &[".git"],
        &["checkpoints", "outputs"],
        &["token", "notes"],
    ] {
        let home = Home::new();
        fs::create_dir(home.data()).unwrap();
        for name in names {
            fs::create_dir(home.data().join(name)).unwrap();
        }
        fs::set_permissions(home.data(), fs::Permissions::from_mode(0o775)).unwrap();
        let before = picture(&home.data());
        for words in [
            &["serve", "--port", "0"][..],
            &["token", "create"],
            &["run", "hello"],
            &["tasks", "add", "hello"],
            &["threads", "list"],
            &["doctor"],
        ] {
            let out = home.command(words).output().unwrap();
            let message = stderr(&out);
            assert_eq!(picture(&home.data()), before, "{words:?}: {message}");
            if ["serve", "token", "run", "tasks"].contains(&words[0]) {
                assert_eq!(out.status.code(), Some(2), "{words:?}: {message}");
                assert!(
                    message.contains("not a data directory of Windlass")
                        && message.contains("--data"),
                    "{words:?}: {message}"
                );
            }
        }
    }
}

#[test]
fn empty_and_existing_data_directories_are_accepted() {
    let home = Home::new();
    fs::create_dir(home.data()).unwrap();
    fs::write(home.data().join(".gitkeep"), "").unwrap();
    fs::set_permissions(home.data(), fs::Permissions::from_mode(0o777)).unwrap();
    // Files that were created before the store identify the directory too.
    assert!(token_create(&home).status.success());
    assert_eq!(picture(&home.data())[0].1 & 0o777, 0o700);
    home.configure("[limits]\nthreads = 50\n");
    home.start().stop();
    home.start().stop();
}

#[test]
fn refused_start_creates_no_files() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let start = |words: &[&str], config: Option<&str>, why: &str| {
        let home = Home::new();
        fs::create_dir(home.path().join("empty")).unwrap();
        let empty = home.path().join("empty");
        fs::set_permissions(&empty, fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(home.path().join("c.toml"), config.unwrap_or_default()).unwrap();
        let before = (picture(home.path()), picture(&empty));
        for data in ["data", "a/b", "empty"] {
            let mut command = home.command(words);
            command.arg("--config").arg("c.toml");
            let refused = command
                .env("WINDLASS_DATA", home.path().join(data))
                .env("XDG_CONFIG_HOME", home.path().join("config"))
                .output()
                .unwrap();
            let message = stderr(&refused);
            assert_eq!(refused.status.code(), Some(2), "{words:?}: {message}");
            assert!(message.contains(why), "{words:?}: {message}");
            let after = (picture(home.path()), picture(&empty));
            assert_eq!(after, before, "{words:?} {config:?}: {message}");
        }
    };
    let serve = ["serve", "--port", "0", "--token", "t"];
    let with = |more: &[&'static str]| [&serve[..], more].concat();
    start(&["serve", "--port", &port], None, "cannot listen");
    start(&with(&["--workspace", "gone"]), None, "workspace");
    start(&with(&["--secrets-key-file", "gone"]), None, "no key");
    start(&with(&["--unix-socket", "gone/x"]), None, "Unix socket");
    start(&with(&["--unix-socket", "c.toml"]), None, "not a socket");
    start(&with(&["--model", "acme/x"]), None, "acme");
    start(&["serve", "--host", "192.0.2.1"], None, "without a token");
    for (config, why) in [
        ("[tasks]\nworkers = 9\n", "tasks.workers"),
        ("[retention]\nmax_age_days = 0\n", "max_age_days"),
        ("[environments.x]\nroot = '/does/not/exist'\n", "`x`"),
        ("[mcp_servers.x]\n", "mcp_servers.x"),
        ("nonsense", "c.toml"),
    ] {
        start(&serve, Some(config), why);
    }
    start(&["run", "hello", "--model", "acme/x"], None, "acme");
}

/// A directory on another device than the one for temporary files.
pub(crate) fn other_device() -> Option<tempfile::TempDir> {
    let here = fs::metadata(std::env::temp_dir()).unwrap().dev();
    let candidates = [
        Path::new("/dev/shm"),
        Path::new("/run"),
        Path::new("/var/tmp"),
    ];
    let is_other = |path: &&Path| fs::metadata(path).is_ok_and(|found| found.dev() != here);
    let mut made = candidates.iter().filter(|path| is_other(path));
    let found = made.find_map(|path| tempfile::tempdir_in(path).ok());
    if found.is_none() {
        skipped(
            "a data directory on another device",
            "there is none to write on",
        );
    }
    found
}

/// Under Landlock, a command can change the mode of any file of the same user.
#[test]
fn a9_changed_file_modes_are_corrected_at_startup() {
    let home = Home::new();
    let names = ["secrets.key", "tokens.json", "windlass.db"];
    let made = home.command(&["token", "create"]).output().unwrap();
    assert!(made.status.success(), "{}", stderr(&made));
    home.start().stop();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    let set = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    for (of_files, of_directory) in [(0o644, 0o755), (0o666, 0o777), (0o000, 0o000)] {
        for name in names {
            set(&home.data().join(name), of_files);
        }
        set(&home.data(), of_directory);
        home.start().stop();
        assert_eq!(mode(&home.data()), 0o700);
        for name in names {
            assert_eq!(mode(&home.data().join(name)), 0o600, "{name}");
        }
    }
}
