//! Hidden files of the host are out of the reach of commands.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use serde_json::Value;
use windlass_core::turn_environment::TurnEnvironment;
use windlass_testkit::skipped;
use windlass_tools::{Confinement, Environment, Policy};

use crate::hidden::{SECRET, fill};
use crate::support::{TestWorkspace, is_here, sandboxes, snapshot};

#[tokio::test]
async fn hidden_directory_is_invisible_and_cannot_be_moved() {
    for way in sandboxes() {
        let workspace =
            TestWorkspace::confined(way, Policy::default()).files(&[("a/b/x", "x"), ("c/", "")]);
        let data = workspace.root().join("a/b/data");
        fill(&data);
        workspace.environments.hide(&data);
        symlink("a/b/data", workspace.root().join("link")).unwrap();
        let before = snapshot(&data);
        let root = workspace.root();
        let at = root.display();
        for attempt in [
            "cat a/b/data/token link/token a/b/data/sub/key".to_owned(),
            format!("cat '/proc/self/root{at}/a/b/data/token' /proc/self/cwd/a/b/data/token"),
            format!("cat '/proc/1/root{at}/a/b/data/token'; cat /proc/*/root'{at}/a/b/data/token'"),
            "for f in /proc/[0-9]*/fd/*; do cat $f/token; done 2>/dev/null".to_owned(),
            // Limited to this test's files, because parallel tests have such files too.
            format!("find / -xdev -path '{at}/*' -name token -exec cat {{}} + 2>/dev/null"),
            "mv a/b/data c/; cat c/data/token".to_owned(),
            "mv a/b a/z; cat a/z/data/token".to_owned(),
            "mv a z; cat z/b/data/token".to_owned(),
            "python3 -c \"import os; os.rename('a', 'z')\"; cat z/b/data/token".to_owned(),
            "ln a/b/data/token c/hard; cat c/hard".to_owned(),
            "rm -rf a/b/data; rm -rf a/b/data/*; rmdir a/b/data a/b a".to_owned(),
            "echo evil > a/b/data/tokens.json; echo evil > link/new; mkdir -p a/b/data/d"
                .to_owned(),
        ] {
            let ran = workspace.shell(&attempt).await.unwrap();
            let output = ran["output"].as_str().unwrap();
            assert!(!output.contains(SECRET), "{way:?}: {attempt}: {output}");
            assert_eq!(snapshot(&data), before, "{way:?}: {attempt}: {output}");
            // The next command does not find files that this one left.
            let ran = workspace
                .shell("grep -rs 3cret . ; cat */*/*/token")
                .await
                .unwrap();
            let output = ran["output"].as_str().unwrap();
            assert!(
                !output.contains(SECRET),
                "{way:?}: after {attempt}: {output}"
            );
        }
        let ran = workspace
            .shell("echo y > c/new && cat c/new")
            .await
            .unwrap();
        assert_eq!(ran["output"], "y\n", "{way:?}: {ran}");
    }
}

#[tokio::test]
async fn moved_directory_stays_hidden() {
    for way in sandboxes() {
        let workspace = TestWorkspace::confined(way, Policy::default()).files(&[("c/", "")]);
        let data = workspace.root().join("data");
        fill(&data);
        workspace.environments.hide(&data);
        fs::rename(&data, workspace.root().join("c/moved")).unwrap();
        let ran = workspace.shell("cat c/moved/token; ls -R").await.unwrap();
        let output = ran["output"].as_str().unwrap();
        assert!(!output.contains(SECRET), "{way:?}: {output}");
        assert!(!output.contains("tokens.json"), "{way:?}: {output}");
    }
}

#[tokio::test]
async fn replaceable_link_to_hidden_data_prevents_commands() {
    for way in sandboxes() {
        let workspace = TestWorkspace::confined(way, Policy::default());
        let (data, link) = (
            workspace.outside().join("data"),
            workspace.root().join("link"),
        );
        fill(&data);
        symlink(&data, &link).unwrap();
        workspace.environments.hide(&link);
        let error = workspace.shell("rm link; mkdir link").await.unwrap_err();
        for part in [link.display().to_string().as_str(), "--data", "`local`"] {
            assert!(error.contains(part), "{way:?}: {error}");
        }
        assert!(link.is_symlink());
        let read_only = Policy {
            write: false,
            ..Policy::default()
        };
        let looking = TestWorkspace::confined(way, read_only);
        looking.environments.hide(&link);
        let ran = looking.shell("echo fine").await.unwrap();
        assert_eq!(ran["output"], "fine\n", "{way:?}");
    }
}

/// The remark gives the number of affected directories, which a user would otherwise have to find by trial.
#[tokio::test]
async fn landlock_reports_directories_without_changes() {
    if !is_here(Confinement::Landlock) {
        return;
    }
    let workspace =
        TestWorkspace::confined(Confinement::Landlock, Policy::default()).files(&[("c/", "")]);
    let data = workspace.root().join("a/data");
    fill(&data);
    workspace.environments.hide(&data);
    for command in ["echo x > new", "mkdir a/new; true"] {
        let ran = workspace.shell(command).await.unwrap();
        let remark = ran["remark"].as_str().unwrap_or_default();
        let root = workspace.root().display().to_string();
        for part in [
            root.as_str(),
            "1 directories below",
            "`--data`",
            "bubblewrap",
        ] {
            assert!(remark.contains(part), "{command}: {ran}");
        }
        assert!(!workspace.root().join("new").exists());
    }
    let ran = workspace.shell("echo x > c/new").await.unwrap();
    assert_eq!(
        (&ran["exit_code"], &ran["remark"]),
        (&0.into(), &Value::Null)
    );
    let elsewhere = TestWorkspace::confined(Confinement::Landlock, Policy::default());
    elsewhere.environments.hide(&data);
    let ran = elsewhere.shell("echo x > new; false").await.unwrap();
    assert_eq!(ran["remark"], Value::Null, "{ran}");
    assert_eq!(elsewhere.text("new"), "x\n");
}

#[tokio::test]
async fn bubblewrap_allows_changes_next_to_hidden_paths() {
    if !is_here(Confinement::Bubblewrap) {
        return;
    }
    let workspace = TestWorkspace::confined(Confinement::Bubblewrap, Policy::default());
    let data = workspace.root().join("a/b/data");
    fill(&data);
    workspace.environments.hide(&data);
    let around =
        "echo x > new; echo x > a/new; echo x > a/b/new; mkdir a/d; mv a/b/new moved; rm new";
    let ran = workspace.shell(around).await.unwrap();
    assert_eq!(ran["exit_code"], 0, "{ran}");
    assert_eq!(workspace.text("moved") + &workspace.text("a/new"), "x\nx\n");
    assert!(workspace.root().join("a/d").is_dir());
    assert!(!workspace.root().join("new").exists());
    let ran = workspace.shell("echo x > a/b/data/new").await.unwrap();
    assert_ne!(
        ran["exit_code"], 0,
        "a write that went nowhere would be a lie: {ran}"
    );
}

#[tokio::test]
async fn root_of_another_environment_cannot_be_replaced_by_a_link() {
    for way in sandboxes() {
        let workspace = TestWorkspace::confined(way, Policy::default())
            .files(&[("a/inner/f", "f"), ("c/", "")]);
        let data = workspace.root().join("data");
        fill(&data);
        workspace.environments.hide(&data);
        let inner = workspace.root().join("a/inner");
        let other = Environment::new("other", &inner, Policy::default()).unwrap();
        workspace.environments.put(other);
        for attempt in [
            "mv a/inner c/; ln -s ../data a/inner",
            "rm -rf a/inner; ln -s ../data a/inner",
            "mv a c/; mkdir a; ln -s ../data a/inner",
        ] {
            let ran = workspace.shell(attempt).await.unwrap();
            let is_unchanged = inner.is_dir() && !inner.is_symlink();
            let must_be = way == Confinement::Bubblewrap;
            assert!(is_unchanged || !must_be, "{way:?}: {attempt}: {ran}");
            // Landlock permits it further down, and then refuses access to the link's target.
            let workspace = workspace.at(TurnEnvironment::new("other", ""));
            for look in ["cat token; cat f", "ls; cat ../data/token"] {
                let ran = workspace.shell(look).await;
                let error = ran.map_or_else(|error| error, |ran| ran.to_string());
                assert!(!error.contains(SECRET), "{way:?}: {attempt}: {error}");
            }
        }
        assert_eq!(fs::read_to_string(data.join("token")).unwrap(), SECRET);
    }
}

/// Landlock's rules apply to files rather than names: a rule on a second name would open the first.
#[tokio::test]
async fn hard_link_does_not_reveal_a_hidden_file() {
    for way in sandboxes() {
        let workspace =
            TestWorkspace::confined(way, Policy::default()).files(&[("key", SECRET), ("sub/", "")]);
        fs::hard_link(workspace.root().join("key"), workspace.root().join("again")).unwrap();
        workspace.environments.hide(workspace.root().join("key"));
        let ran = workspace.shell("cat key sub/../key; echo evil > key").await;
        let ran = ran.unwrap();
        assert!(
            !ran["output"].as_str().unwrap().contains(SECRET),
            "{way:?}: {ran}"
        );
        assert_eq!(workspace.text("key"), SECRET, "{way:?}");
    }
}

/// In its own user namespace, a process has all capabilities there. It tries to unmount, to bind-mount a path below a mount elsewhere, to open the
/// file by its handle, and to rename the directory above.
const NAMESPACES: &str = r#"
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
class Handle(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_uint), ("kind", ctypes.c_int), ("data", ctypes.c_ubyte * 128)]
def handle(path):
    found, mount = Handle(128), ctypes.c_int()
    assert libc.name_to_handle_at(-100, path, ctypes.byref(found), ctypes.byref(mount), 0) == 0
    return found
if len(sys.argv) == 2:
    found = handle(sys.argv[1].encode())
    print(found.kind, bytes(found.data[:found.bytes]).hex())
    sys.exit()
print("unshare", libc.unshare(0x10000000 | 0x00020000))
kind, data = int(sys.argv[1]), bytes.fromhex(sys.argv[2])
for path in [b"a/b/data", b"a/b", b"a"]:
    libc.umount2(path, 2)
os.makedirs("c/d", exist_ok=True)
for flags in [4096, 4096 | 16384, 8192]:
    libc.mount(b"a", b"c/d", b"", flags, None)
libc.mount(b"overlay", b"c/d", b"overlay", 0, b"lowerdir=%s/a:/usr,userxattr" % os.getcwd().encode())
for directory in ["/", ".", "a", "a/b", "c"]:
    wanted = Handle(len(data), kind)
    ctypes.memmove(wanted.data, data, len(data))
    opened = libc.open_by_handle_at(os.open(directory, os.O_RDONLY | os.O_DIRECTORY), ctypes.byref(wanted), 0)
    if opened >= 0:
        try: print(os.read(opened, 100))
        except OSError: pass
try: os.rename("a", "z")
except OSError: pass
for path in ["a/b/data/token", "c/d/b/data/token", "z/b/data/token"]:
    try: print(open(path).read())
    except OSError: pass
"#;

#[tokio::test]
async fn new_namespaces_do_not_reveal_hidden_paths() {
    let script = |arguments: &str| format!("python3 - {arguments} <<'END'\n{NAMESPACES}\nEND");
    for way in sandboxes() {
        let workspace =
            TestWorkspace::confined(way, Policy::default()).files(&[("a/b/x", "x"), ("c/", "")]);
        let data = workspace.root().join("a/b/data");
        fill(&data);
        let token = format!("'{}'", data.join("token").display());
        let named = Command::new("sh").arg("-c").arg(script(&token)).output();
        let named = String::from_utf8(named.unwrap().stdout).unwrap();
        if named.is_empty() {
            let what = "hidden_from_commands::new_namespaces_do_not_reveal_hidden_paths";
            skipped(what, "there is no python3, or files have no handles here");
            return;
        }
        workspace.environments.hide(&data);
        let ran = workspace.shell(&script(named.trim())).await.unwrap();
        let output = ran["output"].as_str().unwrap();
        assert!(output.starts_with("unshare "), "{way:?}: {ran}");
        assert!(!output.contains(SECRET), "{way:?}: {ran}");
        assert_eq!(fs::read_to_string(data.join("token")).unwrap(), SECRET);
    }
}
