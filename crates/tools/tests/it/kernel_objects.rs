//! Kernel objects that no file rule covers: System V IPC, message queues, extended attributes, terminals.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use windlass_testkit::skipped;
use windlass_tools::{Confinement, Policy};

use crate::attacks::python;
use crate::support::{TestWorkspace, sandboxes, with_network};

/// A shared memory segment of another program of the same user.
struct Segment(String);

impl Segment {
    fn new() -> Option<Self> {
        let script = "my $id = shmget(0, 4096, 0600); defined $id or exit 1; shmwrite($id, \"secret\", 0, 6); print $id";
        let made = Command::new("perl").args(["-e", script]).output().ok()?;
        let id = String::from_utf8(made.stdout).ok()?;
        made.status.success().then_some(Self(id))
    }

    fn text(&self) -> String {
        let script = format!("shmread({}, my $text, 0, 6); print $text", self.0);
        let read = Command::new("perl").args(["-e", &script]).output().unwrap();
        String::from_utf8(read.stdout).unwrap()
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        let script = format!("shmctl({}, 0, 0)", self.0);
        let _ = Command::new("perl").args(["-e", &script]).status();
    }
}

#[tokio::test]
async fn command_cannot_access_ipc_of_other_programs() {
    let Some(segment) = Segment::new() else {
        return;
    };
    let queue = format!("/windlass-test-{}", std::process::id());
    let program = format!(
        "import ctypes\n\
         libc = ctypes.CDLL(None, use_errno=True)\n\
         libc.shmat.restype = ctypes.c_long\n\
         address = libc.shmat({id}, None, 0)\n\
         print('shmat', address != -1)\n\
         if address != -1:\n    \
             ctypes.memmove(address, b'broken', 6)\n\
         print('shmctl', libc.shmctl({id}, 0, None) == 0)\n\
         CREATE = 0o1600\n\
         for name, made in [('shmget', libc.shmget(77, 16, CREATE)), ('semget', libc.semget(77, 1, CREATE)), ('msgget', libc.msgget(77, CREATE))]:\n    \
             print(name, made >= 0)\n\
         made = libc.mq_open(b'{queue}', 0o102, 0o600, None)\n\
         print('mq_open', made >= 0)\n\
         libc.mq_unlink(b'{queue}')\n",
        id = segment.0
    );
    for way in sandboxes() {
        let workspace = TestWorkspace::confined(way, with_network());
        let Some(ran) = python(&workspace, &program).await else {
            return;
        };
        let output = ran["output"].as_str().unwrap();
        assert!(
            output.contains("shmat False\nshmctl False\n"),
            "{way:?}: {ran}"
        );
        assert_eq!(segment.text(), "secret", "{way:?}");
        // A sandbox with a private IPC namespace may use it.
        if way == Confinement::Landlock {
            assert!(!output.contains("True"), "{ran}");
        }
    }
}

#[tokio::test]
async fn command_cannot_set_attributes_of_outside_files() {
    let outside = tempfile::tempdir_in("/var/tmp").unwrap();
    let file = outside.path().join("file");
    fs::write(&file, "").unwrap();
    let set = format!(
        "import os\n\
         file = '{}'\n\
         for work in [lambda: os.setxattr(file, b'user.test', b'x'), lambda: os.setxattr(os.open(file, os.O_RDONLY), b'user.test', b'x')]:\n    \
             try:\n        \
                 work(); print('set')\n    \
             except OSError as error:\n        \
                 print(error.strerror)\n\
         print(os.listxattr(file))\n",
        file.display()
    );
    for way in sandboxes() {
        let workspace = TestWorkspace::confined(way, Policy::default());
        let Some(ran) = python(&workspace, &set).await else {
            return;
        };
        let output = ran["output"].as_str().unwrap();
        assert!(!output.contains("set\n"), "{way:?}: {ran}");
        assert!(output.ends_with("[]\n"), "{way:?}: {ran}");
        // Programs that copy attributes interpret this as a file system without them.
        let copied = workspace
            .shell("echo text > a && cp -a a b && cat b")
            .await
            .unwrap();
        assert_eq!(copied["output"], "text\n", "{way:?}");
    }
}

#[tokio::test]
async fn command_cannot_inject_terminal_input() {
    let program = "import fcntl, os, pty, termios\n\
                   pid, master = pty.fork()\n\
                   if pid == 0:\n    \
                       try:\n        \
                           fcntl.ioctl(0, termios.TIOCSTI, b'x'); print('typed')\n    \
                       except OSError as error:\n        \
                           print('refused')\n    \
                       print(os.isatty(0), os.ttyname(0).startswith('/dev/pts/'), flush=True)\n    \
                       os._exit(0)\n\
                   said = b''\n\
                   try:\n    \
                       while chunk := os.read(master, 1024): said += chunk\n\
                   except OSError:\n    \
                       pass\n\
                   print(said.decode().split())\n";
    for way in sandboxes() {
        let mut workspace = TestWorkspace::confined(way, Policy::default());
        workspace.settings.has_terminals = true;
        let Some(ran) = python(&workspace, program).await else {
            return;
        };
        let expected = "['refused', 'True', 'True']\n";
        assert_eq!(ran["output"], expected, "{way:?}: {ran}");
    }
}

#[tokio::test]
async fn command_cannot_access_the_users_terminal() {
    let program =
        "import os, pty; pair = pty.openpty(); print(os.ttyname(pair[1]), flush=True); input()";
    let terminal = Command::new("python3")
        .args(["-c", program])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let Ok(mut terminal) = terminal else {
        skipped("terminals of the user", "there is no python3");
        return;
    };
    let mut name = String::new();
    let mut stdout = BufReader::new(terminal.stdout.take().unwrap());
    stdout.read_line(&mut name).unwrap();
    let name = name.trim_end();
    assert!(fs::File::options().write(true).open(name).is_ok(), "{name}");
    for way in sandboxes() {
        let workspace = TestWorkspace::confined(way, Policy::default());
        let ran = workspace
            .shell(&format!(
                "echo x > {name} && echo wrote; cat < {name} && echo read"
            ))
            .await
            .unwrap();
        let output = ran["output"].as_str().unwrap();
        assert!(
            !output.contains("wrote") && !output.contains("read"),
            "{way:?}: {ran}"
        );
    }
    drop(terminal.stdin.take());
    terminal.wait().unwrap();
}
