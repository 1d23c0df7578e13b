//! Commands in a sandbox whose only network is the proxy.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use windlass_core::capabilities::Capability;
use windlass_core::tools::ToolExecutionResult;
use windlass_testkit::skipped;
use windlass_tools::{
    Confinement, Launcher, Network, OutputLimits, Outputs, Policy, ShellCapability, become_proxied,
};

use super::FakeResolver;
use super::proxy::ProxySettings;
use super::site::{Response, Site};
use crate::support::{TestWorkspace, is_here};

/// Sends a request to the proxy, using only the variables.
const ASK: &str = "ask() { exec 3<>/dev/tcp/127.0.0.1/${HTTPS_PROXY##*:} && printf '%b' \"$1\" >&3 && cat <&3; exec 3>&-; }; ";

/// Not a test itself: other tests start this binary with it as their launcher.
#[test]
fn launch() {
    let words: Vec<_> = std::env::args_os().collect();
    let Some(at) = words.iter().position(|word| word == "--") else {
        return;
    };
    become_proxied(words.into_iter().skip(at + 1));
    panic!("it did not become the command");
}

fn launcher() -> Launcher {
    let words = ["--exact", "web::proxy_sandbox::launch", "--nocapture", "--"];
    Launcher {
        program: std::env::current_exe().unwrap(),
        words: words.map(Into::into).to_vec(),
    }
}

fn filtered(way: Confinement) -> TestWorkspace {
    let policy = Policy {
        network: Network::Filtered,
        ..Policy::default()
    };
    TestWorkspace::confined(way, policy)
}

/// A workspace whose commands can reach `site.example` on a local port.
fn workspace(port: u16) -> TestWorkspace {
    let mut workspace = filtered(Confinement::Bubblewrap);
    let settings = ProxySettings {
        hosts: &[&format!("site.example:{port}")],
        allow: &["127.0.0.1/32"],
        deny: &[],
        names: FakeResolver::new(&[("site.example", &[&["127.0.0.1"]])]),
    };
    workspace.settings.proxy = Some(settings.proxy(launcher()));
    workspace
}

async fn site() -> Site {
    let page = Response::page("text/plain", b"hello from outside");
    Site::on("127.0.0.1:0", &[("/", page)]).await
}

fn output(ran: &Value) -> &str {
    ran["output"].as_str().unwrap()
}

#[tokio::test]
async fn command_reaches_only_open_hosts_through_the_proxy() {
    if !is_here(Confinement::Bubblewrap) {
        return;
    }
    let site = site().await;
    let (workspace, port) = (workspace(site.port), site.port);
    let ask = format!(
        "{ASK}ask 'GET http://site.example:{port}/ HTTP/1.1\\r\\n\\r\\n'; \
         ask 'CONNECT site.example:{port} HTTP/1.1\\r\\n\\r\\nGET / HTTP/1.1\\r\\n\\r\\n'"
    );
    let ran = workspace.shell(&ask).await.unwrap();
    assert_eq!(
        output(&ran).matches("hello from outside").count(),
        2,
        "{ran}"
    );
    assert_eq!(ran["remark"], Value::Null, "{ran}");

    for (attack, command) in [
        ("IPv4", format!("exec 3<>/dev/tcp/127.0.0.1/{port}")),
        (
            "IPv4 outside",
            "exec 3<>/dev/tcp/93.184.216.34/443".to_owned(),
        ),
        ("IPv6", format!("exec 3<>/dev/tcp/::1/{port}")),
        (
            "IPv6 outside",
            "exec 3<>/dev/tcp/2606:2800:220:1::1/443".to_owned(),
        ),
        (
            "UDP",
            "exec 3<>/dev/udp/93.184.216.34/53 && echo x >&3".to_owned(),
        ),
        ("a name", format!("exec 3<>/dev/tcp/site.example/{port}")),
        ("DNS", "getent hosts one.one.one.one".to_owned()),
    ] {
        let ran = workspace.shell(&command).await.unwrap();
        assert_ne!(ran["exit_code"], 0, "{attack}: {ran}");
    }
    assert_eq!(site.requests().len(), 2);
}

#[tokio::test]
async fn refusal_is_reported_to_the_model() {
    if !is_here(Confinement::Bubblewrap) {
        return;
    }
    let site = site().await;
    let workspace = workspace(site.port);
    let ask = format!("{ASK}ask 'CONNECT other.example:443 HTTP/1.1\\r\\n\\r\\n'");
    let ran = workspace.shell(&ask).await.unwrap();
    assert!(output(&ran).contains("403 Forbidden"), "{ran}");
    let error = ran["remark"].as_str().unwrap();
    assert!(error.contains("other.example:443 is not open"), "{error}");
    assert!(error.contains("shell.hosts"), "{error}");
}

#[tokio::test]
async fn refusal_to_a_background_command_is_reported() {
    if !is_here(Confinement::Bubblewrap) {
        return;
    }
    let site = site().await;
    let workspace = workspace(site.port);
    let store = Outputs::open(workspace.outside().join("store"), OutputLimits::default()).unwrap();
    workspace.environments.enable_outputs(store);
    let shell = ShellCapability::new(workspace.environments.clone(), workspace.settings.clone());
    let tools = shell.tools_with_config(&json!({ "approval": "never" }));
    let context = workspace.context();
    let call = async |name: &str, arguments: Value| {
        let tool = tools.iter().find(|tool| tool.name() == name).unwrap();
        match tool.execute_with_context(arguments, &context).await {
            ToolExecutionResult::Success(value) => value,
            other => panic!("{other:?}"),
        }
    };
    let ask = format!(
        "{ASK}ask 'CONNECT other.example:443 HTTP/1.1\\r\\n\\r\\n'; echo; echo done; sleep 1000"
    );
    let begun = call("shell", json!({ "command": ask, "background": true })).await;
    let id = begun["id"].clone();
    let mut seen = Value::Null;
    for _ in 0..600 {
        seen = call("shell_output", json!({ "id": id, "wait_ms": 100 })).await;
        if output(&seen).contains("done") || seen["status"] != "running" {
            break;
        }
    }
    assert_eq!(seen["status"], "running", "{seen}");
    let refused = |error: &Value| {
        let remark = error["remark"].as_str().unwrap_or_default();
        remark.contains("other.example:443 is not open")
    };
    assert!(refused(&seen), "{seen}");
    // Also after its end, and for a host that did not see it.
    let stopped = call("shell_stop", json!({ "id": id })).await;
    assert!(
        stopped["status"] == "stopped" && refused(&stopped),
        "{stopped}"
    );
    let later = call("shell_output", json!({ "id": id })).await;
    assert!(refused(&later), "{later}");
}

#[tokio::test]
async fn proxied_command_has_the_same_limits() {
    if !is_here(Confinement::Bubblewrap) {
        return;
    }
    let workspace = workspace(1);
    for (command, code) in [("exit 7", 7), ("kill -9 $$", 137), ("cat; exit 3", 3)] {
        let ran = workspace.shell(command).await.unwrap();
        assert_eq!(ran["exit_code"], code, "{command}: {ran}");
    }
    // No helper process remains in the sandbox: only the shell and the programs it starts.
    let ran = workspace
        .shell("ls /proc | grep -c '^[0-9]'; cat /proc/1/comm")
        .await
        .unwrap();
    assert!(output(&ran).contains("bwrap"), "{ran}");
    let ran = workspace
        .shell("ls -l /proc/$$/fd | grep -c socket")
        .await
        .unwrap();
    assert_eq!(output(&ran).lines().last(), Some("0"), "{ran}");
    let slow = json!({ "command": "sleep 600", "timeout_ms": 300 });
    let error = workspace.call("shell", slow).await.unwrap_err();
    assert!(error.contains("did not end within"), "{error}");
}

/// The sandbox's init holds the channel on which the listener was sent, and a command can obtain it from there.
#[tokio::test]
async fn listener_channel_carries_no_data_to_the_host() {
    if !is_here(Confinement::Bubblewrap) {
        return;
    }
    let workspace = workspace(1);
    let program = "import ctypes, os, socket\n\
                   libc = ctypes.CDLL(None, use_errno=True)\n\
                   PIDFD_GETFD = 438\n\
                   taken = libc.syscall(PIDFD_GETFD, os.pidfd_open(1), 0, 0)\n\
                   if taken < 0:\n    \
                       print('refused')\n    \
                       raise SystemExit\n\
                   channel = socket.socket(fileno=taken)\n\
                   try:\n    \
                       socket.send_fds(channel, [b'x'], [0, 1, 2])\n    \
                       print('sent')\n\
                   except OSError as error:\n    \
                       print(error.errno)\n";
    std::fs::write(workspace.root().join("attack.py"), program).unwrap();
    let ran = workspace.shell("python3 attack.py").await.unwrap();
    if ran["exit_code"] == 127 {
        skipped("nothing_goes_to_the_host", "there is no python3");
        return;
    }
    let settings = output(&ran).lines().last();
    assert!([Some("32"), Some("refused")].contains(&settings), "{ran}");
}

#[tokio::test]
async fn proxy_of_another_call_is_unreachable() {
    if !is_here(Confinement::Bubblewrap) {
        return;
    }
    let site = site().await;
    let (one, port) = (workspace(site.port), site.port);
    let mut other = filtered(Confinement::Bubblewrap);
    let nothing = ProxySettings {
        hosts: &[],
        allow: &[],
        deny: &[],
        names: FakeResolver::new(&[]),
    };
    other.settings.proxy = Some(nothing.proxy(launcher()));
    let waiting = "echo ${HTTP_PROXY##*:} > port; until [ -e done ]; do sleep 0.05; done";
    let looks = async {
        let at = one.root().join("port");
        let mut looks = tokio::time::interval(Duration::from_millis(10));
        let error = async {
            loop {
                looks.tick().await;
                match std::fs::read_to_string(&at) {
                    Ok(text) if text.ends_with('\n') => return text.trim().to_owned(),
                    _ => {}
                }
            }
        };
        let proxy = tokio::time::timeout(Duration::from_secs(60), error).await;
        let proxy = proxy.expect("the first command never said its port");
        // Its own proxy may have the same port; then it answers and refuses.
        let ask = format!(
            "exec 3<>/dev/tcp/127.0.0.1/{proxy} && printf 'GET http://site.example:{port}/ HTTP/1.1\\r\\n\\r\\n' >&3 && cat <&3"
        );
        let ran = other.shell(&ask).await.unwrap();
        std::fs::write(one.root().join("done"), "").unwrap();
        ran
    };
    let (first, ran) = tokio::join!(one.shell(waiting), looks);
    assert_eq!(first.unwrap()["exit_code"], 0);
    assert!(!output(&ran).contains("hello from outside"), "{ran}");
    assert_eq!(site.requests(), [""; 0]);
}

#[tokio::test]
async fn missing_bubblewrap_or_proxy_is_reported() {
    let site = site().await;
    let connect = format!("exec 3<>/dev/tcp/127.0.0.1/{}", site.port);
    if is_here(Confinement::Landlock) {
        let ran = filtered(Confinement::Landlock)
            .shell(&connect)
            .await
            .unwrap();
        assert_ne!(ran["exit_code"], 0, "{ran}");
        let error = ran["remark"].as_str().unwrap();
        assert!(error.contains("there is no network"), "{error}");
    }
    if is_here(Confinement::Bubblewrap) {
        let error = filtered(Confinement::Bubblewrap)
            .shell("echo x")
            .await
            .unwrap_err();
        assert!(error.contains("has no proxy for commands"), "{error}");
        let mut lost = workspace(site.port);
        let settings = ProxySettings {
            hosts: &[],
            allow: &[],
            deny: &[],
            names: FakeResolver::new(&[]),
        };
        let nowhere = Launcher {
            program: "/nowhere/windlass".into(),
            words: Vec::new(),
        };
        lost.settings.proxy = Some(settings.proxy(nowhere));
        let error = lost.shell("echo x").await.unwrap_err();
        assert!(
            error.contains("there is no program /nowhere/windlass"),
            "{error}"
        );
    }
    let error = filtered(Confinement::Unconfined)
        .shell("echo x")
        .await
        .unwrap_err();
    assert!(error.contains("needs bubblewrap"), "{error}");
    assert_eq!(site.requests(), [""; 0]);
}

#[tokio::test]
async fn session_network_rules_apply_to_commands() {
    if !is_here(Confinement::Bubblewrap) {
        return;
    }
    let site = site().await;
    let workspace = workspace(site.port);
    let mut context = workspace.context();
    let list = windlass_core::network_access::NetworkAccessList::block(["site.example"]);
    context.network_access = Some(list);
    let ask = format!(
        "{ASK}ask 'GET http://site.example:{}/ HTTP/1.1\\r\\n\\r\\n'",
        site.port
    );
    let tool = Arc::from(workspace.tool("shell")) as Arc<dyn windlass_core::tools::Tool>;
    let ran = tool
        .execute_with_context(json!({ "command": ask }), &context)
        .await;
    let ToolExecutionResult::Success(ran) = ran else {
        panic!("{ran:?}");
    };
    assert!(output(&ran).contains("forbid it"), "{ran}");
    assert_eq!(site.requests(), [""; 0]);
}
