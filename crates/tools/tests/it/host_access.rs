//! An external agent's access to the host's files and programs.

use std::collections::BTreeMap;
use std::os::unix::fs::symlink;
use std::path::Path;

use windlass_core::backend::{HostAccess, HostAccessError, TerminalRequest};
use windlass_testkit::{sleepers, unique_sleep};
use windlass_tools::{Policy, TurnHostAccess};

use crate::support::{TestWorkspace, sandboxes, soon};

fn access(workspace: &TestWorkspace) -> TurnHostAccess {
    TurnHostAccess::new(
        workspace.environments.clone(),
        workspace.settings.clone(),
        None,
    )
}

fn run(command: &str, arguments: &[&str]) -> TerminalRequest {
    TerminalRequest {
        command: command.to_owned(),
        arguments: arguments.iter().map(|it| (*it).to_owned()).collect(),
        variables: BTreeMap::from([("WORD".to_owned(), "said".to_owned())]),
        cwd: None,
        max_output_bytes: None,
    }
}

#[tokio::test]
async fn files_are_accessible_only_inside_the_root() {
    let workspace = TestWorkspace::new().files(&[("f", "one\ntwo\nthree\n"), ("b", "a\0b")]);
    std::fs::write(workspace.outside().join("secret"), "secret").unwrap();
    symlink(workspace.outside(), workspace.root().join("link")).unwrap();
    let host = access(&workspace);
    let read = |path: &'static str, line, limit| host.read_text(Path::new(path), line, limit);
    assert_eq!(read("f", None, None).await.unwrap(), "one\ntwo\nthree\n");
    assert_eq!(read("f", Some(2), Some(1)).await.unwrap(), "two\n");
    assert_eq!(read("f", Some(9), None).await.unwrap(), "");
    let absolute = workspace.root().join("f");
    assert!(host.read_text(&absolute, None, None).await.is_ok());
    assert!(matches!(
        read("none", None, None).await,
        Err(HostAccessError::NotFound(_))
    ));
    for path in ["link/secret", "../outside/secret", "/etc/passwd", "b", ""] {
        assert!(read(path, None, None).await.is_err(), "{path}");
    }
    host.write_text(Path::new("new/g"), "text").await.unwrap();
    assert_eq!(workspace.text("new/g"), "text");
    for path in ["link/made", "../outside/made"] {
        assert!(
            host.write_text(Path::new(path), "x").await.is_err(),
            "{path}"
        );
    }
    assert!(!workspace.outside().join("made").exists());
}

#[tokio::test]
async fn read_only_environment_offers_no_writes() {
    let workspace = TestWorkspace::with(Policy::read_only()).files(&[("f", "text")]);
    let host = access(&workspace);
    let offers = host.offers();
    assert!(offers.read_text && !offers.write_text);
    assert!(host.write_text(Path::new("f"), "x").await.is_err());
    assert_eq!(workspace.text("f"), "text");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn programs_run_confined_and_end_with_their_agent() {
    for way in sandboxes() {
        let workspace = TestWorkspace::confined(way, Policy::default());
        std::fs::write(workspace.outside().join("file"), "old").unwrap();
        let host = access(&workspace);
        let line = "echo $WORD; echo x > ../outside/file; exit 7";
        let id = host.start_terminal(run(line, &[])).await.unwrap();
        let exit = host.wait_for_terminal(&id).await.unwrap();
        assert_eq!(exit.code, Some(7), "{way:?}");
        let output = host.terminal_output(&id).await.unwrap();
        assert!(output.text.contains("said"), "{way:?}: {output:?}");
        assert_eq!(output.exit, Some(exit));
        let content = std::fs::read_to_string(workspace.outside().join("file"));
        assert_eq!(content.unwrap(), "old", "{way:?}");
        host.release_terminal(&id).await.unwrap();
        assert!(host.terminal_output(&id).await.is_err());

        let (killed, left) = (unique_sleep(), unique_sleep());
        let sleep = |seconds: &str| run(&format!("exec sleep {seconds}"), &[]);
        let id = host.start_terminal(sleep(&killed)).await.unwrap();
        soon("it sleeps", || !sleepers(&killed).is_empty());
        host.kill_terminal(&id).await.unwrap();
        host.wait_for_terminal(&id).await.unwrap();
        assert!(sleepers(&killed).is_empty(), "{way:?}");
        host.start_terminal(sleep(&left)).await.unwrap();
        soon("it sleeps", || !sleepers(&left).is_empty());
        drop(host);
        soon("it is gone with its agent", || sleepers(&left).is_empty());
    }
}

#[tokio::test]
async fn number_of_terminals_is_limited() {
    let Some(way) = sandboxes().pop() else {
        return;
    };
    let workspace = TestWorkspace::confined(way, Policy::default());
    let host = access(&workspace);
    for _ in 0..32 {
        host.start_terminal(run("true", &[])).await.unwrap();
    }
    let refused = host.start_terminal(run("true", &[])).await;
    assert!(matches!(refused, Err(HostAccessError::NotAllowed(_))));
    host.release_all();
    // The limit also applies to concurrent requests.
    let host = std::sync::Arc::new(host);
    let mut starts = tokio::task::JoinSet::new();
    for _ in 0..40 {
        let host = std::sync::Arc::clone(&host);
        starts.spawn(async move { host.start_terminal(run("true", &[])).await });
    }
    let started = starts.join_all().await;
    assert_eq!(started.iter().filter(|it| it.is_ok()).count(), 32);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn releasing_all_terminals_ends_their_programs() {
    for way in sandboxes() {
        let workspace = TestWorkspace::confined(way, Policy::default());
        let (host, left) = (access(&workspace), unique_sleep());
        let sleep = run(&format!("exec sleep {left}"), &[]);
        let id = host.start_terminal(sleep).await.unwrap();
        soon("it sleeps", || !sleepers(&left).is_empty());
        host.release_all();
        soon("it is gone", || sleepers(&left).is_empty());
        assert!(host.terminal_output(&id).await.is_err(), "{way:?}");
    }
}

#[tokio::test]
async fn sandbox_restriction_applies_to_terminals() {
    for way in sandboxes() {
        let workspace = TestWorkspace::confined(way, Policy::default());
        let home = tempfile::tempdir_in("/var/tmp").unwrap();
        let letter = home.path().canonicalize().unwrap().join("letter");
        std::fs::write(&letter, "dear").unwrap();
        let hidden = letter.clone();
        let host = access(&workspace).with_sandbox_restriction(move |sandbox| {
            let more = sandbox.bounds.hidden.with([hidden.as_path()]);
            sandbox.bounds.hidden = std::sync::Arc::new(more);
            Ok(())
        });
        let line = format!("cat {}; echo read", letter.display());
        let id = host.start_terminal(run(&line, &[])).await.unwrap();
        host.wait_for_terminal(&id).await.unwrap();
        let output = host.terminal_output(&id).await.unwrap().text;
        assert!(
            output.contains("read") && !output.contains("dear"),
            "{way:?}: {output}"
        );
        let host = access(&workspace).with_sandbox_restriction(|_| Err("not here".to_owned()));
        let refused = host.start_terminal(run("true", &[])).await;
        assert!(matches!(refused, Err(HostAccessError::NotAllowed(_))));
    }
}
