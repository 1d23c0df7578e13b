//! The environment and access of a program.

use std::fs;
use std::sync::Arc;

use windlass_process::{MARK, ProtectedPaths};

use crate::support::{TestSandbox, all_sandboxes, sandboxes};

/// Returns the lines that a script writes.
async fn lines(sandbox: &TestSandbox, script: &str) -> Vec<String> {
    let (program, _) = sandbox.script(script);
    let mut running = program.start().await.unwrap();
    let mut lines = running.chunks().unwrap().lines(64 * 1024);
    let mut read = Vec::new();
    while let Some(line) = lines.next().await.unwrap() {
        read.push(String::from_utf8(line).unwrap());
    }
    running.end().await.unwrap();
    read
}

#[tokio::test]
async fn only_specified_variables_are_set_and_arguments_are_not_interpreted() {
    for sandbox in all_sandboxes() {
        let known = ["PATH", MARK, "PWD", "OLDPWD", "SHLVL", "_"];
        for line in lines(&sandbox, "env").await {
            let name = line.split('=').next().unwrap();
            assert!(known.contains(&name), "{:?}: {line}", sandbox.confinement);
        }
        let (mut program, _) = sandbox.program("printf");
        let words = ["%s.", "a b", "$HOME", "; exit 9", "'\"", "", "é\n"];
        program.arguments = words.map(Into::into).into();
        let mut running = program.start().await.unwrap();
        let mut chunks = running.chunks().unwrap();
        let mut output = Vec::new();
        while let Some(chunk) = chunks.next().await {
            output.extend(chunk);
        }
        let output = String::from_utf8(output).unwrap();
        assert_eq!(
            output, "a b.$HOME.; exit 9.'\"..é\n.",
            "{:?}",
            sandbox.confinement
        );
    }
}

#[tokio::test]
async fn only_a_writable_root_can_be_written() {
    for sandbox in sandboxes() {
        let outside = tempfile::tempdir().unwrap();
        let target = outside.path().join("new").display().to_string();
        lines(
            &sandbox,
            &format!("echo in > inside; echo out > '{target}'"),
        )
        .await;
        assert!(
            sandbox.root().join("inside").exists(),
            "{:?}",
            sandbox.confinement
        );
        assert_eq!(
            fs::read_dir(&outside).unwrap().count(),
            0,
            "{:?}",
            sandbox.confinement
        );
        let (mut program, _) = sandbox.script("echo more > more");
        program.sandbox.bounds.is_writable = false;
        program.start().await.unwrap().end().await.unwrap();
        assert!(
            !sandbox.root().join("more").exists(),
            "{:?}",
            sandbox.confinement
        );
    }
}

#[tokio::test]
async fn a_program_leads_its_own_process_group() {
    for sandbox in all_sandboxes() {
        let (program, errors) = sandbox.script("echo up; cat > /dev/null");
        let running = crate::support::up(program, &errors).await;
        let stat = fs::read_to_string(format!("/proc/{}/stat", running.pid())).unwrap();
        let after_name = stat.rsplit(')').next().unwrap();
        let group = after_name.split_ascii_whitespace().nth(2).unwrap();
        assert_eq!(
            group,
            running.pid().to_string(),
            "{:?}",
            sandbox.confinement
        );
    }
}

#[tokio::test]
async fn extra_writable_directory_is_writable_except_for_hidden_paths() {
    for sandbox in sandboxes() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path().canonicalize().unwrap();
        let settings = home.join("settings");
        fs::create_dir_all(settings.join("keys")).unwrap();
        for secret in ["letter", "settings/keys/key"] {
            fs::write(home.join(secret), "secret").unwrap();
        }
        // Landlock allows no new entries next to hidden paths, so this file exists already.
        fs::write(settings.join("login"), "").unwrap();
        let (at, inside) = (home.display(), settings.display());
        let script = format!(
            "echo login > '{inside}/login'; echo more > '{at}/more'; cat '{at}/letter' '{inside}/keys/key';
             mv '{inside}/keys' '{inside}/moved'; echo no > '{inside}/keys/new'; true"
        );
        // The home is hidden except for the settings, and the keys in the settings are hidden.
        let mut hidden = ProtectedPaths::default();
        hidden.add(&home);
        hidden.add(&settings.join("keys"));
        let (mut program, _) = sandbox.script(&script);
        program.sandbox.bounds.hidden = Arc::new(hidden.look());
        program.sandbox.bounds.also_writable = vec![settings.clone()];
        let mut running = program.start().await.unwrap();
        let mut output = running.chunks().unwrap();
        let confinement = sandbox.confinement;
        assert_eq!(output.next().await, None, "{confinement:?}");
        running.end().await.unwrap();
        assert_eq!(
            fs::read_to_string(settings.join("login")).unwrap_or_default(),
            "login\n",
            "{confinement:?}"
        );
        assert!(!home.join("more").exists(), "{confinement:?}");
        let keys = fs::read_dir(settings.join("keys")).unwrap();
        assert_eq!(keys.count(), 1, "{confinement:?}");
    }
}

#[tokio::test]
async fn variables_have_no_effect_outside_the_sandbox() {
    for sandbox in sandboxes() {
        let outside = tempfile::tempdir_in("/var/tmp").unwrap();
        let (mut program, _) = sandbox.script("printf %s \"$WORD\" > word");
        // The dynamic loader writes to the file in this variable before any program starts.
        let trace = outside.path().join("trace").into_os_string();
        let values = [("LD_DEBUG", "all".into()), ("LD_DEBUG_OUTPUT", trace)];
        let values = values.map(|(name, value)| (name.into(), value));
        program.variables.extend(values);
        program.variables.insert("WORD".into(), "two\nlines".into());
        let mut running = program.start().await.unwrap();
        let mut output = running.chunks().unwrap();
        while output.next().await.is_some() {}
        running.end().await.unwrap();
        let confinement = sandbox.confinement;
        let word = fs::read_to_string(sandbox.root().join("word"));
        assert_eq!(word.unwrap_or_default(), "two\nlines", "{confinement:?}");
        let written = fs::read_dir(&outside).unwrap().count();
        assert_eq!(written, 0, "{confinement:?}");
    }
}

#[tokio::test]
async fn variables_are_not_in_process_listings() {
    for sandbox in all_sandboxes() {
        let (mut program, errors) = sandbox.script("echo up; cat > /dev/null");
        program.variables.insert("KEY".into(), "a-secret".into());
        let running = crate::support::up(program, &errors).await;
        let command = fs::read(format!("/proc/{}/cmdline", running.pid())).unwrap();
        let command = String::from_utf8_lossy(&command).into_owned();
        assert!(
            !command.contains("a-secret"),
            "{:?}: {command}",
            sandbox.confinement
        );
    }
}

#[tokio::test]
async fn only_the_root_and_listed_paths_of_a_hidden_home_are_visible() {
    for sandbox in sandboxes() {
        let home = tempfile::tempdir_in("/var/tmp").unwrap();
        let home = home.path().canonicalize().unwrap();
        let files = [
            "work/project/file",
            "work/other/letter",
            "tools/bin/tool",
            "tools/token",
            "keys/login",
            "keys/more",
        ];
        for file in files {
            fs::create_dir_all(home.join(file).parent().unwrap()).unwrap();
            fs::write(home.join(file), file).unwrap();
        }
        let mut hidden = ProtectedPaths::default();
        for path in ["", "keys", "tools/token"] {
            hidden.add(&home.join(path));
        }
        let at = home.display();
        let script = format!(
            "cat {}; echo new > made; echo new > '{at}/keys/login'; echo no > '{at}/tools/bin/tool'; echo no > '{at}/made'",
            files.map(|file| format!("'{at}/{file}'")).join(" ")
        );
        let (mut program, _) = sandbox.script(&script);
        let root = home.join("work/project");
        program.sandbox.root = windlass_process::open_path(&root).unwrap();
        program.sandbox.bounds.cwd.clone_from(&root);
        program.sandbox.bounds.root = root;
        program.sandbox.bounds.hidden = Arc::new(hidden.look());
        program.sandbox.bounds.also_writable = vec![home.join("keys/login")];
        program.sandbox.bounds.also_readable = vec![home.join("tools")];
        let mut running = program.start().await.unwrap();
        let mut chunks = running.chunks().unwrap();
        let mut output = Vec::new();
        while let Some(chunk) = chunks.next().await {
            output.extend(chunk);
        }
        running.end().await.unwrap();
        let output = String::from_utf8(output).unwrap();
        let confinement = sandbox.confinement;
        assert_eq!(
            output, "work/project/filetools/bin/toolkeys/login",
            "{confinement:?}"
        );
        let read = |path: &str| fs::read_to_string(home.join(path)).unwrap_or_default();
        assert_eq!(read("keys/login"), "new\n", "{confinement:?}");
        assert_eq!(read("work/project/made"), "new\n", "{confinement:?}");
        assert_eq!(read("tools/bin/tool"), "tools/bin/tool", "{confinement:?}");
        assert!(!home.join("made").exists(), "{confinement:?}");
    }
}
