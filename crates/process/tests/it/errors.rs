//! Programs that cannot be started give specific errors.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use windlass_process::{Confinement, ProcessError};

use crate::support::{TestSandbox, all_sandboxes};

async fn refused(sandbox: &TestSandbox, program: &str) -> ProcessError {
    let (program, _) = sandbox.program(program);
    match program.start().await {
        Ok(_) => panic!("it started"),
        Err(error) => error,
    }
}

#[tokio::test]
async fn missing_or_not_executable_programs_are_reported() {
    for sandbox in all_sandboxes() {
        let root = sandbox.root();
        fs::write(root.join("text"), "hello").unwrap();
        let file = root.join("text").display().to_string();
        let directory = root.display().to_string();
        for missing in ["/nowhere/at/all", "no-such-program", ""] {
            let error = refused(&sandbox, missing).await;
            assert!(matches!(error, ProcessError::NotFound { .. }), "{error:?}");
        }
        let error = refused(&sandbox, &file).await;
        assert!(
            matches!(error, ProcessError::NotExecutable { .. }),
            "{error:?}"
        );
        let error = refused(&sandbox, &directory).await;
        assert!(
            matches!(error, ProcessError::IsDirectory { .. }),
            "{error:?}"
        );
        for relative in ["./text", "bin/sh", "../sh"] {
            let error = refused(&sandbox, relative).await;
            assert!(
                matches!(error, ProcessError::RelativePath { .. }),
                "{error:?}"
            );
        }
    }
}

#[tokio::test]
async fn program_outside_the_sandbox_is_reported() {
    // Not in the default directory for temporary files, which may be elsewhere.
    let elsewhere = tempfile::tempdir_in("/tmp").unwrap();
    let elsewhere = elsewhere.path().join("program");
    fs::write(&elsewhere, "#!/bin/sh\n").unwrap();
    fs::set_permissions(&elsewhere, fs::Permissions::from_mode(0o755)).unwrap();
    for sandbox in all_sandboxes() {
        let (program, _) = sandbox.program(&elsewhere.display().to_string());
        let is_started = match (sandbox.confinement, program.start().await) {
            (Confinement::Bubblewrap, Err(ProcessError::NotInSandbox { .. })) => continue,
            (_, started) => started.is_ok(),
        };
        assert!(is_started && sandbox.confinement != Confinement::Bubblewrap);
    }
}

#[tokio::test]
async fn nul_bytes_and_invalid_variable_names_are_reported() {
    for sandbox in all_sandboxes() {
        let error = refused(&sandbox, "/bin/sh\0x").await;
        assert!(matches!(error, ProcessError::Nul { .. }), "{error:?}");
        let (mut program, _) = sandbox.script("exit 0");
        program.arguments.push("a\0b".into());
        let error = program.start().await.err().unwrap();
        assert_eq!(error.to_string(), "an argument contains a NUL character");
        let (mut program, _) = sandbox.script("exit 0");
        program.variables.insert("A".into(), "a\0b".into());
        let error = program.start().await.err().unwrap();
        assert_eq!(error.to_string(), "a variable contains a NUL character");
        for name in ["", "A=B", "A\0"] {
            let (mut program, _) = sandbox.script("exit 0");
            program.variables.insert(name.into(), "value".into());
            let error = program.start().await.err().unwrap();
            assert!(
                matches!(error, ProcessError::VariableName { .. }),
                "{error:?}"
            );
        }
    }
}

#[tokio::test]
async fn missing_directory_is_reported() {
    for sandbox in all_sandboxes() {
        let (mut program, _) = sandbox.script("exit 0");
        program.sandbox.bounds.cwd = sandbox.root().join("gone");
        let error = program.start().await.err().unwrap();
        assert!(matches!(error, ProcessError::Directory { .. }), "{error:?}");
    }
}

#[tokio::test]
async fn name_is_looked_up_only_in_the_path_of_the_program() {
    let sandbox = TestSandbox::new(Confinement::Unconfined);
    let own = sandbox.root().join("own");
    fs::write(&own, "#!/bin/sh\nexit 7\n").unwrap();
    fs::set_permissions(&own, fs::Permissions::from_mode(0o755)).unwrap();
    let (mut program, _) = sandbox.program("own");
    program
        .variables
        .insert("PATH".into(), sandbox.root().into());
    let end = program.start().await.unwrap().end().await.unwrap();
    assert_eq!(end.status.unwrap().code(), Some(7));
    let (mut program, _) = sandbox.program("sh");
    program.variables.clear();
    let error = program.start().await.err().unwrap();
    assert!(matches!(error, ProcessError::NotFound { .. }), "{error:?}");
}
