//! Programs that cannot be started give specific errors.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use windlass_process::{Confinement, ProcessError};

use crate::support::{World, worlds};

async fn refused(world: &World, program: &str) -> ProcessError {
    let (program, _) = world.program(program);
    match program.start().await {
        Ok(_) => panic!("it started"),
        Err(error) => error,
    }
}

#[tokio::test]
async fn a_program_that_is_none_is_told() {
    for world in worlds() {
        let root = world.root();
        fs::write(root.join("text"), "hello").unwrap();
        let file = root.join("text").display().to_string();
        let directory = root.display().to_string();
        for missing in ["/nowhere/at/all", "no-such-program", ""] {
            let told = refused(&world, missing).await;
            assert!(matches!(told, ProcessError::NotFound { .. }), "{told:?}");
        }
        let told = refused(&world, &file).await;
        assert!(
            matches!(told, ProcessError::NotExecutable { .. }),
            "{told:?}"
        );
        let told = refused(&world, &directory).await;
        assert!(matches!(told, ProcessError::IsDirectory { .. }), "{told:?}");
        for relative in ["./text", "bin/sh", "../sh"] {
            let told = refused(&world, relative).await;
            assert!(
                matches!(told, ProcessError::RelativePath { .. }),
                "{told:?}"
            );
        }
    }
}

#[tokio::test]
async fn a_program_that_a_sandbox_cannot_see_is_told_as_such() {
    // Not in the default directory for temporary files, which may be elsewhere.
    let elsewhere = tempfile::tempdir_in("/tmp").unwrap();
    let elsewhere = elsewhere.path().join("program");
    fs::write(&elsewhere, "#!/bin/sh\n").unwrap();
    fs::set_permissions(&elsewhere, fs::Permissions::from_mode(0o755)).unwrap();
    for world in worlds() {
        let (program, _) = world.program(&elsewhere.display().to_string());
        let is_started = match (world.way, program.start().await) {
            (Confinement::Bubblewrap, Err(ProcessError::OutOfSight { .. })) => continue,
            (_, started) => started.is_ok(),
        };
        assert!(is_started && world.way != Confinement::Bubblewrap);
    }
}

#[tokio::test]
async fn nul_and_names_that_are_none_are_told() {
    for world in worlds() {
        let told = refused(&world, "/bin/sh\0x").await;
        assert!(matches!(told, ProcessError::Nul { .. }), "{told:?}");
        let (mut program, _) = world.script("exit 0");
        program.arguments.push("a\0b".into());
        let told = program.start().await.err().unwrap();
        assert_eq!(told.to_string(), "an argument contains a NUL character");
        let (mut program, _) = world.script("exit 0");
        program.variables.insert("A".into(), "a\0b".into());
        let told = program.start().await.err().unwrap();
        assert_eq!(told.to_string(), "a variable contains a NUL character");
        for name in ["", "A=B", "A\0"] {
            let (mut program, _) = world.script("exit 0");
            program.variables.insert(name.into(), "value".into());
            let told = program.start().await.err().unwrap();
            assert!(
                matches!(told, ProcessError::VariableName { .. }),
                "{told:?}"
            );
        }
    }
}

#[tokio::test]
async fn a_directory_that_is_gone_is_told() {
    for world in worlds() {
        let (mut program, _) = world.script("exit 0");
        program.sandbox.bounds.cwd = world.root().join("gone");
        let told = program.start().await.err().unwrap();
        assert!(matches!(told, ProcessError::Directory { .. }), "{told:?}");
    }
}

#[tokio::test]
async fn a_name_is_looked_up_in_the_programs_own_path_alone() {
    let world = World::of(Confinement::Unconfined);
    let own = world.root().join("own");
    fs::write(&own, "#!/bin/sh\nexit 7\n").unwrap();
    fs::set_permissions(&own, fs::Permissions::from_mode(0o755)).unwrap();
    let (mut program, _) = world.program("own");
    program.variables.insert("PATH".into(), world.root().into());
    let end = program.start().await.unwrap().end().await.unwrap();
    assert_eq!(end.status.unwrap().code(), Some(7));
    let (mut program, _) = world.program("sh");
    program.variables.clear();
    let told = program.start().await.err().unwrap();
    assert!(matches!(told, ProcessError::NotFound { .. }), "{told:?}");
}
