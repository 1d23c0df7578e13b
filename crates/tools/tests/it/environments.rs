//! The registry, and the environment of a turn.

use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::json;
use windlass_core::turn_environment::TurnEnvironment;
use windlass_tools::{Environment, EnvironmentError, Environments, Policy};

use crate::support::Place;

#[test]
fn a_directory_outside_of_the_root_is_refused_however_it_is_spelled() {
    let place = Place::new().files(&[("sub/f", "")]);
    let (root, outside) = (place.root(), place.outside());
    symlink(&outside, root.join("link")).unwrap();
    symlink(root.join("sub"), outside.join("back")).unwrap();
    let local = place.environments.get("local").unwrap();
    let code = |cwd: &Path| local.check_cwd(cwd).map_err(|error| error.code());
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
fn a_root_must_be_a_directory_and_is_known_by_its_real_path() {
    let place = Place::new().files(&[("f", "")]);
    let made = |root: &Path| Environment::new("e", root, Policy::default());
    for root in ["missing", "f"] {
        let error = made(&place.root().join(root)).unwrap_err();
        assert!(
            matches!(error, EnvironmentError::RootNotFound { .. }),
            "{error}"
        );
    }
    let link = place.outside().join("link");
    symlink(place.root(), &link).unwrap();
    assert_eq!(made(&link).unwrap().root(), place.root());
    let gone = Environment::stored("e", place.root().join("gone"), Policy::default());
    let environments = Environments::with_default(gone);
    let error = environments.resolve(None).unwrap_err();
    assert!(error.to_string().contains("/gone: "), "{error}");
}

#[test]
fn what_is_added_and_removed_is_seen_by_all_handles() {
    let place = Place::new();
    let environments = Environments::new();
    let seen_by_tools = environments.clone();
    let error = seen_by_tools.resolve(None).unwrap_err();
    assert!(matches!(error, EnvironmentError::NoneNamed));
    environments.put(Environment::new("b", place.root(), Policy::default()).unwrap());
    environments.put(Environment::new("a", place.root(), Policy::read_only()).unwrap());
    let ids: Vec<_> = seen_by_tools
        .list()
        .iter()
        .map(|it| it.id().to_owned())
        .collect();
    assert_eq!(ids, ["a", "b"]);
    let turn = TurnEnvironment::new("b", "");
    assert_eq!(
        seen_by_tools.resolve(Some(&turn)).unwrap().cwd(),
        place.root()
    );
    assert!(environments.remove("b") && !environments.remove("b"));
    let error = seen_by_tools.resolve(Some(&turn)).unwrap_err();
    assert_eq!(error.code(), "environment_not_found");
    assert!(error.to_string().contains("`b`"), "{error}");
}

#[tokio::test]
async fn a_turn_works_in_its_own_directory_and_may_do_no_more_than_both_allow() {
    let files = &[("a/f", "in a"), ("b/f", "in b")][..];
    let read = json!({ "path": "f" });
    let place = Place::new().files(files);
    let place = place.turn(
        TurnEnvironment::new("local", "b")
            .read_only()
            .without_shell(),
    );
    assert_eq!(place.call("read", read).await.unwrap()["content"], "in b");
    let told = place
        .call("write", json!({"path": "f", "content": "x"}))
        .await;
    assert!(told.unwrap_err().contains("`local` is read-only here: f"));
    let told = place.shell("echo x > f").await;
    assert!(
        told.unwrap_err()
            .contains("`local` allows no commands here")
    );
    assert_eq!(place.text("b/f"), "in b");

    let narrow = Place::with(Policy::read_only()).files(files);
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
async fn a_turn_whose_environment_or_directory_is_gone_is_told_which() {
    let gone = Place::new().turn(TurnEnvironment::new("staging", ""));
    let outside = Place::new();
    let beyond = outside.outside();
    let outside = outside.turn(TurnEnvironment::new("local", beyond));
    let missing = Place::new().turn(TurnEnvironment::new("local", "nowhere"));
    for (place, code) in [
        (gone, "environment_not_found: "),
        (outside, "cwd_outside_root: "),
        (missing, "cwd_not_found: "),
    ] {
        for (tool, arguments) in [("list", json!({})), ("shell", json!({"command": "pwd"}))] {
            let told = place.call(tool, arguments).await.unwrap_err();
            assert!(told.starts_with(code), "{tool}: {told}");
        }
    }
}

#[test]
fn tools_that_could_only_refuse_need_not_be_offered() {
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
async fn a17_a_root_that_was_swapped_for_a_link_is_not_followed() {
    let place = Place::new().files(&[("inner/f", "within")]);
    let place = place.turn(TurnEnvironment::new("inner", ""));
    let (root, outside) = (place.root(), place.outside());
    std::fs::write(outside.join("f"), "outside").unwrap();
    let inner = Environment::new("inner", root.join("inner"), Policy::default()).unwrap();
    place.environments.put(inner);
    let read = place.call("read", json!({"path": "f"})).await;
    assert!(read.unwrap().to_string().contains("within"));
    // An action that a command of the outer environment can do.
    std::fs::rename(root.join("inner"), root.join("away")).unwrap();
    symlink(&outside, root.join("inner")).unwrap();
    for (tool, arguments) in [
        ("read", json!({"path": "f"})),
        ("write", json!({"path": "g", "content": "x"})),
        ("shell", json!({"command": "touch g"})),
    ] {
        let refused = place.call(tool, arguments).await;
        assert!(refused.unwrap_err().contains("link"), "{tool}");
    }
    assert!(!outside.join("g").exists());
}
