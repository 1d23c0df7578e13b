//! Programs of the host that read a directory with untrusted contents.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use windlass_tools::{Confinement, Look, LookError, LookOutput, Policy};

use crate::hidden::{SECRET, fill};
use crate::support::{Place, sandboxes};

fn look(place: &Place, script: &str) -> Look {
    Look {
        program: "/bin/sh".into(),
        arguments: ["-c", script].map(Into::into).into(),
        variables: BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".to_owned())]),
        directory: place.root(),
        time: Duration::from_secs(60),
        max_output_bytes: 64 * 1024,
    }
}

async fn run(place: &Place, script: &str) -> Result<LookOutput, LookError> {
    look(place, script)
        .run(&place.environments, &place.settings)
        .await
}

#[tokio::test]
async fn a_program_sees_the_directory_and_its_two_outputs_are_kept_apart() {
    for way in sandboxes() {
        let place = Place::confined(way, Policy::default()).files(&[("f", "seen")]);
        let seen = run(&place, "cat f; echo oh >&2; exit 3").await.unwrap();
        let expected = LookOutput {
            exit_code: Some(3),
            output: "seen".to_owned(),
            errors: "oh\n".to_owned(),
        };
        assert_eq!(seen, expected, "{way:?}");
    }
}

#[tokio::test]
async fn a_program_changes_nothing_reaches_nobody_and_sees_nothing_hidden() {
    for way in sandboxes() {
        let place = Place::confined(way, Policy::default()).files(&[("f", "old")]);
        let data = place.root().join("data");
        fill(&data);
        place.environments.hide(&data);
        let outside = place.outside().display().to_string();
        let script = format!(
            "echo evil > f; echo evil > new; echo evil > '{outside}/new'; cat data/token; env; \
             exec 3<>/dev/tcp/127.0.0.1/1 || echo closed"
        );
        let seen = run(&place, &script).await.unwrap();
        assert_eq!(place.text("f"), "old", "{way:?}");
        assert!(!place.root().join("new").exists(), "{way:?}");
        assert_eq!(fs::read_dir(place.outside()).unwrap().count(), 0, "{way:?}");
        assert!(!seen.output.contains(SECRET), "{way:?}: {seen:?}");
        for line in seen.output.lines().filter(|line| line.contains('=')) {
            let name = line.split('=').next().unwrap();
            let known = ["PATH", "WINDLASS_CALL", "PWD", "OLDPWD", "SHLVL", "_"];
            assert!(known.contains(&name), "{way:?}: {line}");
        }
    }
}

#[tokio::test]
async fn without_a_sandbox_nothing_runs_whatever_the_policy() {
    let place = Place::confined(Confinement::Unconfined, Policy::default());
    for ways in [vec![], vec![Confinement::Unconfined]] {
        let mut place = Place::confined(Confinement::Unconfined, Policy::default());
        place.settings.ways = ways;
        let told = run(&place, "echo ran").await.unwrap_err();
        assert!(matches!(told, LookError::NoSandbox { .. }), "{told}");
        assert!(told.to_string().contains("bubblewrap"), "{told}");
    }
    place.environments.hide(place.root());
    let mut looked = look(&place, "echo ran");
    looked.directory = place.root().join("missing");
    for way in sandboxes() {
        let mut settings = place.settings.clone();
        settings.ways = vec![way];
        let told = look(&place, "echo ran")
            .run(&place.environments, &settings)
            .await;
        assert!(matches!(told, Err(LookError::Hidden { .. })), "{told:?}");
        let told = looked.clone().run(&place.environments, &settings).await;
        assert!(matches!(told, Err(LookError::Directory { .. })), "{told:?}");
    }
}

#[tokio::test]
async fn a_flood_and_a_program_that_never_ends_are_told() {
    for way in sandboxes() {
        let place = Place::confined(way, Policy::default());
        let mut endless = look(&place, "sleep 86400");
        endless.time = Duration::from_millis(300);
        let told = run(&place, "yes | head -c 1000000").await;
        assert!(matches!(told, Err(LookError::TooMuch { .. })), "{told:?}");
        let told = endless.run(&place.environments, &place.settings).await;
        assert!(matches!(told, Err(LookError::TimedOut { .. })), "{told:?}");
    }
}
