//! A hidden directory that is mounted at a second path. Mounting needs a process with a private mount namespace.

use std::process::Command;

use windlass_testkit::skipped;
use windlass_tools::Policy;

use crate::hidden::{SECRET, assert_not_seen, assert_out_of_reach, fill};
use crate::support::{TestWorkspace, sandboxes};

const INNER_TEST: &str = "WINDLASS_TEST_MOUNTS";

#[test]
fn second_mount_of_a_hidden_directory_is_refused() {
    let may_mount = Command::new("unshare").args(["-rm", "true"]).status();
    if !may_mount.is_ok_and(|status| status.success()) {
        let what = "mounted::second_mount_of_a_hidden_directory_is_refused";
        skipped(what, "nothing can be mounted here");
        return;
    }
    let ran = Command::new("unshare")
        .arg("-rm")
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "mounted::inside", "--ignored"])
        .env(INNER_TEST, "yes")
        .output()
        .unwrap();
    assert!(
        ran.status.success(),
        "{}",
        String::from_utf8_lossy(&ran.stdout)
    );
}

fn mount(arguments: &[&str]) {
    let mounted = Command::new("mount").args(arguments).status().unwrap();
    assert!(mounted.success(), "{arguments:?}");
}

/// Not a test itself: runs in a private mount namespace.
#[tokio::test]
#[ignore = "started by another test"]
async fn inside() {
    if std::env::var_os(INNER_TEST).is_none() {
        return;
    }
    let names = ["whole", "part", "other", "own", "fs"];
    let mut ways = sandboxes();
    ways.push(windlass_tools::Confinement::Unconfined);
    for way in ways {
        let workspace = TestWorkspace::confined(way, Policy::default());
        let data = workspace.outside().join("data");
        fill(&data);
        for name in names {
            std::fs::create_dir(workspace.root().join(name)).unwrap();
        }
        let at = |name: &str| workspace.root().join(name).display().to_string();
        let outside = workspace.outside().display().to_string();
        mount(&["--bind", &data.display().to_string(), &at("whole")]);
        mount(&[
            "--bind",
            &data.join("sub").display().to_string(),
            &at("part"),
        ]);
        mount(&["--bind", &outside, &at("other")]);
        // A directory that is mounted inside itself is its own ancestor.
        mount(&["--bind", &at("own"), &at("own")]);
        // Data on another device.
        mount(&["-t", "tmpfs", "none", &at("fs")]);
        let on_device = workspace.root().join("fs/data");
        fill(&on_device);
        workspace.environments.hide(&data);
        workspace.environments.hide(&on_device);
        for name in ["whole", "other/data", "fs/data"] {
            assert_out_of_reach(&workspace, name, &workspace.root().join(name)).await;
        }
        let part = serde_json::json!({ "path": "part/key" });
        let error = workspace.call("read", part).await.unwrap_err();
        assert!(error.contains("tools cannot access"), "{error}");
        assert_not_seen(&workspace).await;
        if way != windlass_tools::Confinement::Unconfined {
            let look = "cat whole/token part/key other/data/token fs/data/token; grep -rs 3cret .";
            let ran = workspace.shell(look).await.unwrap();
            let output = ran["output"].as_str().unwrap();
            assert!(!output.contains(SECRET), "{way:?}: {output}");
        }
    }
}
