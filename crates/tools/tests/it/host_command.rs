//! Programs of the host that read a directory with untrusted contents.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use windlass_tools::{Confinement, HostCommand, HostCommandError, HostCommandOutput, Policy};

use crate::hidden::{SECRET, fill};
use crate::support::{TestWorkspace, sandboxes};

fn host_command(workspace: &TestWorkspace, script: &str) -> HostCommand {
    HostCommand {
        program: "/bin/sh".into(),
        arguments: ["-c", script].map(Into::into).into(),
        variables: BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".to_owned())]),
        directory: workspace.root(),
        time: Duration::from_secs(60),
        max_output_bytes: 64 * 1024,
    }
}

async fn run(
    workspace: &TestWorkspace,
    script: &str,
) -> Result<HostCommandOutput, HostCommandError> {
    host_command(workspace, script)
        .run(&workspace.environments, &workspace.settings)
        .await
}

#[tokio::test]
async fn stdout_and_stderr_are_separate() {
    for way in sandboxes() {
        let workspace = TestWorkspace::confined(way, Policy::default()).files(&[("f", "seen")]);
        let seen = run(&workspace, "cat f; echo oh >&2; exit 3").await.unwrap();
        let expected = HostCommandOutput {
            exit_code: Some(3),
            output: "seen".to_owned(),
            errors: "oh\n".to_owned(),
        };
        assert_eq!(seen, expected, "{way:?}");
    }
}

#[tokio::test]
async fn host_command_is_read_only_without_network_and_hidden_paths() {
    for way in sandboxes() {
        let workspace = TestWorkspace::confined(way, Policy::default()).files(&[("f", "old")]);
        let data = workspace.root().join("data");
        fill(&data);
        workspace.environments.hide(&data);
        let outside = workspace.outside().display().to_string();
        let script = format!(
            "echo evil > f; echo evil > new; echo evil > '{outside}/new'; cat data/token; env; \
             exec 3<>/dev/tcp/127.0.0.1/1 || echo closed"
        );
        let seen = run(&workspace, &script).await.unwrap();
        assert_eq!(workspace.text("f"), "old", "{way:?}");
        assert!(!workspace.root().join("new").exists(), "{way:?}");
        assert_eq!(
            fs::read_dir(workspace.outside()).unwrap().count(),
            0,
            "{way:?}"
        );
        assert!(!seen.output.contains(SECRET), "{way:?}: {seen:?}");
        for line in seen.output.lines().filter(|line| line.contains('=')) {
            let name = line.split('=').next().unwrap();
            let known = ["PATH", "WINDLASS_CALL", "PWD", "OLDPWD", "SHLVL", "_"];
            assert!(known.contains(&name), "{way:?}: {line}");
        }
    }
}

#[tokio::test]
async fn host_command_needs_a_sandbox() {
    let workspace = TestWorkspace::confined(Confinement::Unconfined, Policy::default());
    for ways in [vec![], vec![Confinement::Unconfined]] {
        let mut workspace = TestWorkspace::confined(Confinement::Unconfined, Policy::default());
        workspace.settings.ways = ways;
        let error = run(&workspace, "echo ran").await.unwrap_err();
        assert!(
            matches!(error, HostCommandError::NoSandbox { .. }),
            "{error}"
        );
        assert!(error.to_string().contains("bubblewrap"), "{error}");
    }
    workspace.environments.hide(workspace.root());
    let mut missing_directory = host_command(&workspace, "echo ran");
    missing_directory.directory = workspace.root().join("missing");
    for way in sandboxes() {
        let mut settings = workspace.settings.clone();
        settings.ways = vec![way];
        let error = host_command(&workspace, "echo ran")
            .run(&workspace.environments, &settings)
            .await;
        assert!(
            matches!(error, Err(HostCommandError::Hidden { .. })),
            "{error:?}"
        );
        let error = missing_directory
            .clone()
            .run(&workspace.environments, &settings)
            .await;
        assert!(
            matches!(error, Err(HostCommandError::Directory { .. })),
            "{error:?}"
        );
    }
}

#[tokio::test]
async fn excess_output_and_endless_programs_are_errors() {
    for way in sandboxes() {
        let workspace = TestWorkspace::confined(way, Policy::default());
        let mut endless = host_command(&workspace, "sleep 86400");
        endless.time = Duration::from_millis(300);
        let error = run(&workspace, "yes | head -c 1000000").await;
        assert!(
            matches!(error, Err(HostCommandError::TooMuch { .. })),
            "{error:?}"
        );
        let error = endless
            .run(&workspace.environments, &workspace.settings)
            .await;
        assert!(
            matches!(error, Err(HostCommandError::TimedOut { .. })),
            "{error:?}"
        );
    }
}
