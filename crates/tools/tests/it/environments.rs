//! The registry, and the environment of a turn.

use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::json;
use windlass_core::turn_environment::TurnEnvironment;
use windlass_tools::{Environment, EnvironmentError, Environments, Policy};

use crate::support::TestWorkspace;

#[test]
fn directory_outside_the_root_is_refused_in_every_form() {
    let workspace = TestWorkspace::new().files(&[("sub/f", "")]);
    let (root, outside) = (workspace.root(), workspace.outside());
    symlink(&outside, root.join("link")).unwrap();
    symlink(root.join("sub"), outside.join("back")).unwrap();
    let code = |cwd: &Path| {
        let turn = TurnEnvironment::new("local", cwd);
        let resolved = workspace.environments.resolve(Some(&turn));
        resolved.map(|at| at.cwd()).map_err(|error| error.code())
    };
    for cwd in ["", ".", "sub", "sub/..", "link/back"] {
        assert!(code(Path::new(cwd)).is_ok(), "{cwd}");
    }
    assert_eq!(code(&root.join("sub")), Ok(root.join("sub")));
    assert_eq!(code(&outside.join("back")), Ok(root.join("sub")));
    for cwd in [Path::new(".."), Path::new("/"), Path::new("link"), &outside] {
        assert_eq!(code(cwd), Err("cwd_outside_root"), "{}", cwd.display());
    }
    for cwd in ["missing", "sub/f"] {
        assert_eq!(code(Path::new(cwd)), Err("cwd_not_found"), "{cwd}");
    }
}

#[test]
fn root_must_be_a_directory_and_is_canonicalized() {
    let workspace = TestWorkspace::new().files(&[("f", "")]);
    let made = |root: &Path| Environment::new("e", root, Policy::default());
    for root in ["missing", "f"] {
        let error = made(&workspace.root().join(root)).unwrap_err();
        assert!(
            matches!(error, EnvironmentError::RootNotFound { .. }),
            "{error}"
        );
    }
    let link = workspace.outside().join("link");
    symlink(workspace.root(), &link).unwrap();
    assert_eq!(made(&link).unwrap().root(), workspace.root());
    let gone = Environment::stored("e", workspace.root().join("gone"), Policy::default());
    let environments = Environments::with_default(gone);
    let error = environments.resolve(None).unwrap_err();
    assert!(error.to_string().contains("/gone: "), "{error}");
}

#[test]
fn all_handles_share_the_registry() {
    let workspace = TestWorkspace::new();
    let environments = Environments::new();
    let seen_by_tools = environments.clone();
    let error = seen_by_tools.resolve(None).unwrap_err();
    assert!(matches!(error, EnvironmentError::NoDefault));
    environments.put(Environment::new("b", workspace.root(), Policy::default()).unwrap());
    environments.put(Environment::new("a", workspace.root(), Policy::read_only()).unwrap());
    let ids: Vec<_> = seen_by_tools
        .list()
        .iter()
        .map(|it| it.id().to_owned())
        .collect();
    assert_eq!(ids, ["a", "b"]);
    let turn = TurnEnvironment::new("b", "");
    assert_eq!(
        seen_by_tools.resolve(Some(&turn)).unwrap().cwd(),
        workspace.root()
    );
    assert!(environments.remove("b") && !environments.remove("b"));
    let error = seen_by_tools.resolve(Some(&turn)).unwrap_err();
    assert_eq!(error.code(), "environment_not_found");
    assert!(error.to_string().contains("`b`"), "{error}");
}

#[tokio::test]
async fn turn_is_limited_by_its_own_and_the_environments_policy() {
    let files = &[("a/f", "in a"), ("b/f", "in b")][..];
    let read = json!({ "path": "f" });
    let workspace = TestWorkspace::new().files(files);
    let workspace = workspace.turn(
        TurnEnvironment::new("local", "b")
            .read_only()
            .without_shell(),
    );
    assert_eq!(
        workspace.call("read", read).await.unwrap()["content"],
        "in b"
    );
    let error = workspace
        .call("write", json!({"path": "f", "content": "x"}))
        .await;
    assert!(error.unwrap_err().contains("`local` is read-only here: f"));
    let error = workspace.shell("echo x > f").await;
    assert!(
        error
            .unwrap_err()
            .contains("`local` allows no commands here")
    );
    assert_eq!(workspace.text("b/f"), "in b");

    let narrow = TestWorkspace::with(Policy::read_only()).files(files);
    let narrow = narrow.turn(TurnEnvironment::new("local", "a"));
    for (tool, arguments) in [
        ("write", json!({"path": "f", "content": "x"})),
        (
            "edit",
            json!({"path": "f", "old_string": "in", "new_string": "x"}),
        ),
        ("shell", json!({"command": "echo x > f"})),
    ] {
        assert!(narrow.call(tool, arguments).await.is_err(), "{tool}");
    }
    assert_eq!(narrow.text("a/f"), "in a");
}

#[tokio::test]
async fn missing_environment_or_directory_is_reported() {
    let gone = TestWorkspace::new().turn(TurnEnvironment::new("staging", ""));
    let outside = TestWorkspace::new();
    let beyond = outside.outside();
    let outside = outside.turn(TurnEnvironment::new("local", beyond));
    let missing = TestWorkspace::new().turn(TurnEnvironment::new("local", "nowhere"));
    for (workspace, code) in [
        (gone, "environment_not_found: "),
        (outside, "cwd_outside_root: "),
        (missing, "cwd_not_found: "),
    ] {
        for (tool, arguments) in [("list", json!({})), ("shell", json!({"command": "pwd"}))] {
            let error = workspace.call(tool, arguments).await.unwrap_err();
            assert!(error.starts_with(code), "{tool}: {error}");
        }
    }
}

#[test]
fn unusable_tools_are_not_offered() {
    assert!(Policy::default().idle_tools().is_empty());
    let commands = ["shell", "shell_output", "shell_stop"];
    assert_eq!(
        Policy::read_only().idle_tools(),
        [&["edit", "write"][..], &commands].concat()
    );
    let turn = TurnEnvironment::new("local", "").without_shell();
    let narrowed = Policy::default().narrowed(Some(&turn));
    assert_eq!(narrowed.idle_tools(), commands);
}

#[tokio::test]
async fn a17_root_replaced_by_a_link_is_not_followed() {
    let workspace = TestWorkspace::new().files(&[("inner/f", "within")]);
    let workspace = workspace.turn(TurnEnvironment::new("inner", ""));
    let (root, outside) = (workspace.root(), workspace.outside());
    std::fs::write(outside.join("f"), "outside").unwrap();
    let inner = Environment::new("inner", root.join("inner"), Policy::default()).unwrap();
    workspace.environments.put(inner);
    let read = workspace.call("read", json!({"path": "f"})).await;
    assert!(read.unwrap().to_string().contains("within"));
    // An action that a command of the outer environment can do.
    std::fs::rename(root.join("inner"), root.join("away")).unwrap();
    symlink(&outside, root.join("inner")).unwrap();
    for (tool, arguments) in [
        ("read", json!({"path": "f"})),
        ("write", json!({"path": "g", "content": "x"})),
        ("shell", json!({"command": "touch g"})),
    ] {
        let refused = workspace.call(tool, arguments).await;
        assert!(refused.unwrap_err().contains("link"), "{tool}");
    }
    assert!(!outside.join("g").exists());
}
