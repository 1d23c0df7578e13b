//! Restrictions of confined commands.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::process::Command;

use windlass_testkit::skipped;
use windlass_tools::{Confinement, Policy};

use crate::support::{TestWorkspace, sandboxes, snapshot, with_network};

#[tokio::test]
async fn only_the_root_can_be_written() {
    for way in sandboxes() {
        let workspace = TestWorkspace::confined(way, Policy::default()).files(&[("f", "old")]);
        let outside = workspace.outside();
        fs::write(outside.join("file"), "old").unwrap();
        symlink(&outside, workspace.root().join("link")).unwrap();
        let before = snapshot(&outside);
        let out = outside.display();
        for attempt in [
            format!("echo evil > '{out}/new'"),
            format!("echo evil >> '{out}/file'"),
            format!(": > '{out}/file'"),
            format!("truncate -s 0 '{out}/file'"),
            format!("rm '{out}/file'"),
            format!("mv '{out}/file' '{out}/moved'"),
            format!("ln f '{out}/hard'"),
            format!("mkdir '{out}/d'"),
            format!("ln '{out}/file' stolen && echo evil >> stolen"),
            "echo evil > link/new".to_owned(),
            "cd .. && mv root moved".to_owned(),
            "echo evil > /etc/windlass-test".to_owned(),
            "echo evil > /usr/windlass-test".to_owned(),
            // Opening them suffices: nothing is written.
            ": >> /proc/sys/kernel/core_pattern".to_owned(),
            ": >> /proc/sysrq-trigger".to_owned(),
        ] {
            let ran = workspace.shell(&attempt).await.unwrap();
            assert_ne!(ran["exit_code"], 0, "{way:?} let `{attempt}` pass: {ran}");
        }
        assert_eq!(snapshot(&outside), before, "{way:?}");
        let ran = workspace
            .shell("echo new > f; mkdir d; mv f d/g; ln -s d/g h; cat h")
            .await
            .unwrap();
        assert_eq!(
            (&ran["exit_code"], &ran["output"]),
            (&0.into(), &"new\n".into()),
            "{way:?}"
        );
        assert_eq!(workspace.text("d/g"), "new\n");
    }
}

#[tokio::test]
async fn commands_cannot_write_to_a_read_only_environment() {
    for way in sandboxes() {
        let policy = Policy {
            write: false,
            ..Policy::default()
        };
        let workspace = TestWorkspace::confined(way, policy).files(&[("f", "old")]);
        let ran = workspace.shell("cat f; echo new > f").await.unwrap();
        assert_ne!(ran["exit_code"], 0, "{way:?}");
        assert!(
            ran["output"].as_str().unwrap().starts_with("old"),
            "{way:?}: {ran}"
        );
        assert_eq!(workspace.text("f"), "old");
    }
}

#[tokio::test]
async fn hidden_paths_cannot_be_read() {
    for way in sandboxes() {
        let workspace = TestWorkspace::confined(way, Policy::default());
        let place_of_keys = workspace.outside().join("keys");
        fs::create_dir(&place_of_keys).unwrap();
        fs::write(place_of_keys.join("token"), "s3cret").unwrap();
        fs::write(workspace.outside().join("single"), "s3cret").unwrap();
        fs::write(workspace.root().join("inside"), "s3cret").unwrap();
        fs::write(workspace.root().join("open"), "open").unwrap();
        let (single, inside) = (
            workspace.outside().join("single"),
            workspace.root().join("inside"),
        );
        for hidden in [&place_of_keys, &single, &inside] {
            workspace.environments.hide(hidden);
        }
        let home = workspace.outside().join("home");
        fs::create_dir_all(home.join(".ssh")).unwrap();
        fs::write(home.join(".ssh/id"), "s3cret").unwrap();
        workspace.environments.hide("/nowhere/at/all");
        workspace.environments.hide_keys_of(&home);
        let (keys, single, home) = (place_of_keys.display(), single.display(), home.display());
        let command =
            format!("cat open; cat '{keys}/token' '{single}' '{home}/.ssh/id' inside; ls '{keys}'");
        let ran = workspace.shell(&command).await.unwrap();
        let output = ran["output"].as_str().unwrap();
        assert!(output.starts_with("open"), "{way:?}: {output}");
        assert!(!output.contains("s3cret"), "{way:?}: {output}");
    }
}

#[tokio::test]
async fn host_process_cannot_be_inspected_or_signalled() {
    for way in sandboxes() {
        let workspace = TestWorkspace::confined(way, Policy::default());
        let host = std::process::id();
        let ran = workspace
            .shell(&format!("cat /proc/{host}/environ"))
            .await
            .unwrap();
        assert_ne!(ran["exit_code"], 0, "{way:?}: {ran}");
        assert!(
            !ran["output"].as_str().unwrap().contains("CARGO"),
            "{way:?}"
        );
        let ran = workspace.shell(&format!("kill -0 {host}")).await.unwrap();
        assert_ne!(ran["exit_code"], 0, "{way:?}: {ran}");
    }
}

#[tokio::test]
async fn only_harmless_devices_are_accessible() {
    for way in sandboxes() {
        let workspace = TestWorkspace::confined(way, Policy::default());
        let harmless =
            "head -c 4 /dev/zero | wc -c; head -c 4 /dev/urandom | wc -c; echo x > /dev/null";
        let ran = workspace.shell(harmless).await.unwrap();
        assert_eq!(
            (&ran["exit_code"], &ran["output"]),
            (&0.into(), &"4\n4\n".into()),
            "{way:?}"
        );
        let here: Vec<_> = fs::read_dir("/dev").unwrap().flatten().collect();
        let disks = here.iter().filter(|entry| {
            use std::os::unix::fs::FileTypeExt;
            entry.file_type().is_ok_and(|kind| kind.is_block_device())
        });
        for disk in disks {
            let ran = workspace
                .shell(&format!(": < {}", disk.path().display()))
                .await
                .unwrap();
            assert_ne!(ran["exit_code"], 0, "{way:?}: {}", disk.path().display());
        }
        if way == Confinement::Landlock {
            // Bubblewrap provides private terminals; under Landlock they would be the host's.
            let ran = workspace.shell(": < /dev/ptmx").await.unwrap();
            assert_ne!(ran["exit_code"], 0, "{ran}");
        }
    }
}

#[tokio::test]
async fn there_is_no_network_unless_the_policy_shares_it() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let connect = format!("exec 3<>/dev/tcp/127.0.0.1/{port} && echo connected");
    let send = format!("echo x > /dev/udp/127.0.0.1/{port} && echo sent");
    for way in sandboxes() {
        let closed = TestWorkspace::confined(way, Policy::default());
        let ran = closed.shell(&connect).await.unwrap();
        assert_ne!(ran["exit_code"], 0, "{way:?}: {ran}");
        if way == Confinement::Landlock {
            // In a private network a datagram leads nowhere; here it must not even be sent.
            let ran = closed.shell(&send).await.unwrap();
            assert_ne!(ran["exit_code"], 0, "{way:?}: {ran}");
        }
        let open = TestWorkspace::confined(way, with_network());
        let ran = open.shell(&connect).await.unwrap();
        assert_eq!(ran["output"], "connected\n", "{way:?}: {ran}");
    }
}

#[tokio::test]
async fn service_sockets_are_blocked() {
    let program =
        "import socket,sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1]); print('connected')";
    for way in sandboxes() {
        let workspace = TestWorkspace::confined(way, Policy::default());
        let python = workspace.shell("command -v python3").await.unwrap();
        if python["exit_code"] != 0 {
            skipped(
                "sockets_of_services_are_out_of_reach",
                "there is no python3",
            );
            return;
        }
        let path =
            std::path::Path::new("/run").join(format!("windlass-test-{}", std::process::id()));
        let Ok(_listener) = UnixListener::bind(&path) else {
            skipped(
                "sockets_of_services_are_out_of_reach",
                "/run is closed to us",
            );
            return;
        };
        let ran = workspace
            .shell(&format!("python3 -c \"{program}\" {}", path.display()))
            .await;
        let _ = fs::remove_file(&path);
        let ran = ran.unwrap();
        assert_ne!(ran["exit_code"], 0, "{way:?}: {ran}");
    }
}

#[tokio::test]
async fn command_cannot_set_limits_of_other_processes() {
    let limits_of = |pid: u32| std::fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
    let mut other = Command::new("sleep").arg("600").spawn().unwrap();
    let pid = other.id();
    let set = format!("prlimit --pid {pid} --nofile=7:7");
    let before = limits_of(pid);
    let mut after = Vec::new();
    for way in sandboxes() {
        let workspace = TestWorkspace::confined(way, Policy::default());
        // It may set its own limits.
        let own = workspace.shell("ulimit -n 64 && ulimit -n").await.unwrap();
        assert!(own.to_string().contains("64"), "{way:?}: {own}");
        let _ = workspace.shell(&set).await;
        after.push((way, limits_of(pid)));
    }
    // The same command succeeds outside a sandbox, so the test is meaningful.
    let free = Command::new("sh").args(["-c", &set]).output().unwrap();
    let was_set = limits_of(pid) != before;
    other.kill().unwrap();
    other.wait().unwrap();
    for (way, after) in after {
        assert_eq!(after, before, "{way:?}");
    }
    if !was_set {
        let why = String::from_utf8_lossy(&free.stderr).into_owned();
        skipped("a_command_sets_no_limits_of_other_processes", &why);
    }
}

#[tokio::test]
async fn command_cannot_set_priorities_of_other_processes() {
    let run = |script: &str| {
        let ran = Command::new("sh").args(["-c", script]).output().unwrap();
        String::from_utf8(ran.stdout).unwrap()
    };
    // Without capabilities, so that processes without any may change a root's process too.
    let bare = "bare='setpriv --bounding-set=-all --inh-caps=-all'; $bare true 2>/dev/null || bare=; exec $bare sleep 600";
    let mut other = Command::new("sh");
    let mut other = other.args(["-c", bare]).process_group(0).spawn().unwrap();
    let pid = other.id();
    while fs::read_to_string(format!("/proc/{pid}/comm")).unwrap() != "sleep\n" {
        assert_eq!(other.try_wait().unwrap(), None);
        tokio::task::yield_now().await;
    }
    let look = || run(&format!("ps -o ni= -p {pid}; ionice -p {pid}"));
    // Its process group has the same ID.
    let set =
        format!("renice 19 -p {pid}; ionice -c3 -p {pid}; renice 19 -g {pid}; ionice -c3 -P {pid}");
    let before = look();
    let mut after = Vec::new();
    let mut own = Vec::new();
    for way in sandboxes() {
        let workspace = TestWorkspace::confined(way, Policy::default());
        let _ = workspace.shell(&set).await;
        after.push((way, look()));
        // It may set its own priority.
        let ran = workspace.shell("nice -n 7 nice; ionice -c3 ionice").await;
        own.push((way, ran.unwrap()));
    }
    // The same command succeeds outside a sandbox, so the test is meaningful.
    run(&set);
    let was_set = look() != before;
    other.kill().unwrap();
    other.wait().unwrap();
    for (way, after) in after {
        assert_eq!(after, before, "{way:?}");
    }
    if !was_set {
        skipped(
            "a_command_sets_no_priorities_of_other_processes",
            "renice and ionice are not there",
        );
        return;
    }
    // The value is added to the priority of the tests themselves, and 19 is the lowest.
    let inherited: i32 = run("nice").trim().parse().unwrap();
    let expected = format!("{}\nidle\n", (inherited + 7).min(19));
    for (way, own) in own {
        assert_eq!(own["output"], expected, "{way:?}: {own}");
    }
}

/// Landlock does not govern modes and times; the daemon repairs its own files at startup.
#[tokio::test]
async fn a9_command_cannot_change_modes_and_times_outside() {
    let Some(way) = sandboxes()
        .into_iter()
        .find(|way| *way == Confinement::Bubblewrap)
    else {
        return;
    };
    let workspace = TestWorkspace::confined(way, Policy::default());
    // Not below `/tmp`, which is private in the sandbox.
    let outside = tempfile::tempdir_in("/var/tmp").unwrap();
    let file = outside.path().join("file");
    fs::write(&file, "content").unwrap();
    let look = || {
        let metadata = fs::metadata(&file).unwrap();
        (metadata.permissions(), metadata.modified().unwrap())
    };
    let before = look();
    let path = file.display();
    let change = format!("cat {path} && {{ chmod 777 {path}; touch -d 2001-01-01 {path}; }}");
    let tried = workspace.shell(&change).await.unwrap();
    // The file existed, so the test is meaningful.
    assert!(tried.to_string().contains("content"), "{tried}");
    assert_eq!(look(), before);
}
