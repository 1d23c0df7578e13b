//! Sandbox escapes that do not involve files.

use std::fs;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixListener};

use serde_json::{Value, json};
use windlass_core::capabilities::Capability;
use windlass_core::tools::ToolExecutionResult;
use windlass_testkit::skipped;
use windlass_tools::{Confinement, Environment, Environments, FilesCapability, Policy};

use crate::support::{TestWorkspace, sandboxes, with_network};

/// Runs a Python program in a sandbox; `None` if Python is not installed.
pub(crate) async fn python(workspace: &TestWorkspace, program: &str) -> Option<Value> {
    let found = workspace.shell("command -v python3").await.unwrap();
    if found["exit_code"] != 0 {
        skipped("attacks", "there is no python3");
        return None;
    }
    fs::write(workspace.root().join("attack.py"), program).unwrap();
    Some(workspace.shell("python3 attack.py").await.unwrap())
}

fn system_calls() -> Option<[u32; 3]> {
    match std::env::consts::ARCH {
        "x86_64" => Some([248, 249, 250]),
        "aarch64" => Some([217, 218, 219]),
        _ => None,
    }
}

#[tokio::test]
async fn command_cannot_access_kernel_keyrings() {
    let Some([add, request, control]) = system_calls() else {
        return;
    };
    let program = format!(
        "import ctypes\n\
         libc = ctypes.CDLL(None, use_errno=True)\n\
         def call(*words):\n    \
             done = libc.syscall(*words)\n    \
             print(done, ctypes.get_errno())\n\
         call({control}, 0, -3, 0)\n\
         call({control}, 0, -4, 0)\n\
         call({add}, b'user', b'windlass-test', b'x', 1, -3)\n\
         call({request}, b'user', b'windlass-test', None, 0)\n"
    );
    for way in sandboxes() {
        for policy in [Policy::default(), with_network()] {
            let workspace = TestWorkspace::confined(way, policy);
            let Some(ran) = python(&workspace, &program).await else {
                return;
            };
            assert_eq!(ran["output"], "-1 13\n".repeat(4), "{way:?}: {ran}");
        }
    }
}

/// The init dies with the host. A process that can write to its memory could prevent that.
#[tokio::test]
async fn command_cannot_trace_the_init_of_its_sandbox() {
    let program = "import ctypes, os, subprocess\n\
                   libc = ctypes.CDLL(None, use_errno=True)\n\
                   libc.ptrace.argtypes = [ctypes.c_long] * 4\n\
                   child = subprocess.Popen(['sleep', '600'])\n\
                   class Piece(ctypes.Structure):\n    \
                       _fields_ = [('base', ctypes.c_void_p), ('length', ctypes.c_size_t)]\n\
                   text = ctypes.create_string_buffer(8)\n\
                   piece = Piece(ctypes.addressof(text), 8)\n\
                   def attempt(done):\n    \
                       print('done' if done >= 0 else ctypes.get_errno())\n\
                   ATTACH, SEIZE = 16, 0x4206\n\
                   for whom in 1, child.pid:\n    \
                       attempt(libc.ptrace(SEIZE, whom, 0, 0))\n\
                   attempt(libc.ptrace(ATTACH, 1, 0, 0))\n\
                   attempt(libc.process_vm_writev(1, ctypes.byref(piece), 1, ctypes.byref(piece), 1, 0))\n\
                   try:\n    \
                       open('/proc/1/mem', 'r+b')\n    \
                       print('open')\n\
                   except OSError as error:\n    \
                       print(error.errno)\n\
                   child.kill()\n";
    let Some(way) = { sandboxes() }
        .into_iter()
        .find(|way| *way == Confinement::Bubblewrap)
    else {
        return;
    };
    let workspace = TestWorkspace::confined(way, Policy::default());
    let Some(ran) = python(&workspace, program).await else {
        return;
    };
    // A debugger may attach to its own children.
    assert_eq!(ran["output"], "13\ndone\n13\n13\n30\n", "{ran}");
}

#[tokio::test]
async fn command_cannot_create_setuid_files() {
    // All calls that set a mode or create a file with one; the numbers are those of calls that Python does not provide.
    let program = "import ctypes, os, struct\n\
                   libc = ctypes.CDLL(None, use_errno=True)\n\
                   os.umask(0)\n\
                   open('f', 'w').close()\n\
                   f = os.open('f', os.O_RDWR)\n\
                   here = os.open('.', os.O_RDONLY)\n\
                   def call(*words):\n    \
                       if libc.syscall(*words) < 0:\n        \
                           error = ctypes.get_errno()\n        \
                           raise OSError(error, os.strerror(error))\n\
                   def attempt(act, *words):\n    \
                       try:\n        \
                           act(*words)\n        \
                           print('done')\n    \
                       except OSError as error:\n        \
                           print(error.errno)\n\
                   making = os.O_CREAT | os.O_WRONLY\n\
                   for mode in 0o4755, 0o2755, 0o6755:\n    \
                       attempt(os.chmod, 'f', mode)\n    \
                       attempt(os.fchmod, f, mode)\n    \
                       attempt(lambda: os.chmod('f', mode, dir_fd=here))\n    \
                       attempt(call, 452, here, b'f', mode, 0)\n    \
                       attempt(os.open, f'o{mode}', making, mode)\n    \
                       attempt(os.open, '.', os.O_TMPFILE | os.O_RDWR, mode)\n    \
                       attempt(os.mknod, f'm{mode}', 0o100000 | mode)\n    \
                       attempt(lambda: os.mknod(f'n{mode}', 0o100000 | mode, dir_fd=here))\n    \
                       how = struct.pack('QQQ', making, mode, 0)\n    \
                       attempt(call, 437, here, f'p{mode}'.encode(), how, len(how))\n\
                   attempt(call, 425, 1, bytes(120))\n";
    for way in sandboxes() {
        for policy in [Policy::default(), with_network()] {
            let workspace = TestWorkspace::confined(way, policy);
            let Some(ran) = python(&workspace, program).await else {
                return;
            };
            let each = format!("{}38\n", "1\n".repeat(8));
            let expected = format!("{}13\n", each.repeat(3));
            assert_eq!(ran["output"], expected, "{way:?}: {ran}");
            let ran = workspace
                .shell("cp /bin/sh sh; chmod 6755 sh")
                .await
                .unwrap();
            assert_ne!(ran["exit_code"], 0, "{way:?}: {ran}");
            for file in fs::read_dir(workspace.root()).unwrap() {
                let file = file.unwrap();
                let mode = file.metadata().unwrap().permissions().mode();
                assert_eq!(mode & 0o6000, 0, "{way:?}: {file:?}");
            }
        }
    }
}

#[tokio::test]
async fn other_file_modes_are_allowed() {
    let script = "set -e; umask 022; echo '#!/bin/sh' > run; chmod 755 run; ./run; chmod u=rwx,go= run; chmod 644 run; chmod 755 run\n\
                  mkdir -m 1777 d; install -m 700 run d/run; cp -a d copy; tar -cf all.tar d; mkdir out; tar -xpf all.tar -C out\n\
                  mkfifo -m 600 pipe; stat -c %a run d d/run copy copy/run out/d out/d/run pipe";
    for way in sandboxes() {
        let workspace = TestWorkspace::confined(way, Policy::default());
        let ran = workspace.shell(script).await.unwrap();
        let expected = "755\n1777\n700\n1777\n700\n1777\n700\n600\n";
        assert_eq!(ran["output"], expected, "{way:?}: {ran}");
    }
}

#[tokio::test]
async fn other_socket_families_are_blocked_without_a_network() {
    // Sockets to the host of a virtual machine, raw packets, and other families that ignore network namespaces.
    let program = "import socket\n\
                   for family in 40, 17, 30, 31, 38, 42:\n    \
                       try:\n        \
                           socket.socket(family, socket.SOCK_DGRAM)\n        \
                           print(family, 'is open')\n    \
                       except OSError as error:\n        \
                           print(error.errno)\n\
                   left, right = socket.socketpair()\n\
                   left.send(b'x')\n\
                   print(right.recv(1))\n";
    for way in sandboxes() {
        let workspace = TestWorkspace::confined(way, Policy::default());
        let Some(ran) = python(&workspace, program).await else {
            return;
        };
        // A socket pair within the command works.
        let expected = format!("{}b'x'\n", "13\n".repeat(6));
        assert_eq!(ran["output"], expected, "{way:?}: {ran}");
    }
}

#[tokio::test]
async fn abstract_sockets_are_blocked_with_a_network() {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split('.').map(|part| part.parse().unwrap_or(0));
    let version: (u32, u32) = (numbers.next().unwrap(), numbers.next().unwrap());
    if version < (6, 12) {
        skipped(
            "abstract_sockets_are_blocked_with_a_network",
            "the kernel is older than 6.12",
        );
        return;
    }
    let name = format!("windlass-test-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    let _listener = UnixListener::bind_addr(&address).unwrap();
    let program = format!(
        "import socket\n\
         try:\n    \
             socket.socket(socket.AF_UNIX).connect('\\0{name}')\n    \
             print('reached')\n\
         except OSError as error:\n    \
             print(error.errno)\n\
         own = socket.socket(socket.AF_UNIX)\n\
         own.bind('\\0{name}-own')\n\
         own.listen()\n\
         socket.socket(socket.AF_UNIX).connect('\\0{name}-own')\n\
         print('own')\n"
    );
    for way in sandboxes() {
        let workspace = TestWorkspace::confined(way, with_network());
        let Some(ran) = python(&workspace, &program).await else {
            return;
        };
        assert_eq!(ran["output"], "1\nown\n", "{way:?}: {ran}");
    }
}

#[tokio::test]
async fn command_inherits_no_open_files() {
    const INNER: &str = "WINDLASS_TEST_HAS_OPEN_FILES";
    if std::env::var_os(INNER).is_none() {
        // The host is started by a process that leaves files open.
        let this = std::env::current_exe().unwrap();
        let again = "exec 7</ 42</; exec \"$0\" --exact attacks::command_inherits_no_open_files";
        let ran = std::process::Command::new("bash")
            .args(["-c", again])
            .arg(this)
            .env(INNER, "1")
            .output()
            .unwrap();
        let stdout = String::from_utf8_lossy(&ran.stdout);
        assert!(
            ran.status.success() && stdout.contains("1 passed"),
            "{stdout}"
        );
        return;
    }
    assert!(fs::exists("/proc/self/fd/42").unwrap());
    for way in sandboxes() {
        for policy in [Policy::default(), with_network()] {
            let workspace = TestWorkspace::confined(way, policy);
            let _open = fs::File::open(workspace.outside()).unwrap();
            // The last descriptor is that of the listing itself.
            let ran = workspace.shell("ls /proc/self/fd").await.unwrap();
            assert_eq!(ran["output"], "0\n1\n2\n3\n", "{way:?}: {ran}");
            let ran = workspace
                .shell("cat /proc/self/fd/42/etc/hostname; echo >&2 x")
                .await;
            let ran = ran.unwrap();
            assert!(
                ran["output"].as_str().unwrap().ends_with("x\n"),
                "{way:?}: {ran}"
            );
        }
    }
}

#[tokio::test]
async fn hidden_paths_stay_hidden_in_new_namespaces() {
    let program = "import ctypes, os, sys\n\
                   libc = ctypes.CDLL(None, use_errno=True)\n\
                   libc.unshare(0x10000000 | 0x20000)\n\
                   hidden, above = sys.argv[1].encode(), os.path.dirname(sys.argv[1]).encode()\n\
                   for name in 'abcuw':\n    \
                       os.makedirs(name, exist_ok=True)\n\
                   def look(path):\n    \
                       try:\n        \
                           print(open(path).read())\n    \
                       except OSError:\n        \
                           print('nothing')\n\
                   libc.mount(above, b'a', None, 4096, None)\n\
                   look(b'a/keys/token')\n\
                   libc.mount(b'/', b'b', None, 4096, None)\n\
                   look(b'b' + hidden + b'/token')\n\
                   libc.umount2(hidden, 2)\n\
                   look(hidden + b'/token')\n\
                   overlay = b'lowerdir=' + above + b',upperdir=u,workdir=w,userxattr'\n\
                   libc.mount(b'overlay', b'c', b'overlay', 0, overlay)\n\
                   look(b'c/keys/token')\n\
                   libc.mount(None, b'/', None, 32 | 4096, None)\n\
                   look('/proc/1/root' + sys.argv[1] + '/token')\n";
    // Not below `/tmp`, which is private in the sandbox.
    let outside = tempfile::tempdir_in("/var/tmp").unwrap();
    let keys = outside.path().join("keys");
    fs::create_dir(&keys).unwrap();
    fs::write(keys.join("token"), "s3cret").unwrap();
    for way in sandboxes() {
        let workspace = TestWorkspace::confined(way, Policy::default());
        workspace.environments.hide(&keys);
        let program = program.replace("sys.argv[1]", &format!("{:?}", keys.display().to_string()));
        let Some(ran) = python(&workspace, &program).await else {
            return;
        };
        assert_eq!(ran["output"], "nothing\n".repeat(5), "{way:?}: {ran}");
    }
}

#[tokio::test]
async fn file_tools_do_not_read_proc_if_the_root_is_the_file_system() {
    let everything = Environment::new("all", "/", Policy::default()).unwrap();
    let environments = Environments::with_default(everything);
    let tools = FilesCapability::new(environments).tools();
    let call = async |name: &str, arguments: Value| {
        let tool = tools.iter().find(|tool| tool.name() == name).unwrap();
        match tool.execute(arguments).await {
            ToolExecutionResult::Success(value) => Ok(value),
            ToolExecutionResult::ToolError(error) => Err(error),
            other => panic!("{other:?}"),
        }
    };
    call("read", json!({ "path": "/etc/passwd" }))
        .await
        .unwrap();
    for path in [
        "/proc/self/maps",
        "/proc/self/environ",
        "/proc/self/cmdline",
        "/proc/thread-self/environ",
        "/proc/self/root/etc/passwd",
        "/proc/self/fd/0",
        "/proc/1/environ",
        "/dev/fd/../environ",
    ] {
        let read = call("read", json!({ "path": path })).await;
        assert!(read.is_err(), "{path}: {read:?}");
    }
    for (name, arguments) in [
        ("grep", json!({ "path": "/proc/self", "pattern": "PATH" })),
        ("list", json!({ "path": "/proc/self" })),
        ("glob", json!({ "path": "/proc/self", "pattern": "env*" })),
    ] {
        let looked = call(name, arguments).await;
        assert!(looked.is_err(), "{name}: {looked:?}");
    }
}

#[tokio::test]
async fn file_name_with_newlines_cannot_forge_diff_lines() {
    let workspace = TestWorkspace::new();
    let path = "a\n--- a/b\n+++ b/b\n@@ -1 +1 @@\n-good\n+evil";
    for content in ["one\n", "two\n"] {
        let written = json!({ "path": path, "content": content });
        let written = workspace.call("write", written).await.unwrap();
        let diff = written["diff"].as_str().unwrap_or_default();
        assert!(!diff.contains("\n+evil"), "{diff}");
    }
}
