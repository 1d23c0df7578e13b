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

use super::Names;
use super::proxy::Said;
use super::site::{Says, Site};
use crate::support::{Place, is_here};

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

fn filtered(way: Confinement) -> Place {
    let policy = Policy {
        network: Network::Filtered,
        ..Policy::default()
    };
    Place::confined(way, policy)
}

/// A workspace whose commands can reach `site.example` on a local port.
fn place(port: u16) -> Place {
    let mut place = filtered(Confinement::Bubblewrap);
    let said = Said {
        hosts: &[&format!("site.example:{port}")],
        allow: &["127.0.0.1/32"],
        deny: &[],
        names: Names::of(&[("site.example", &[&["127.0.0.1"]])]),
    };
    place.settings.proxy = Some(said.proxy(launcher()));
    place
}

async fn site() -> Site {
    let page = Says::page("text/plain", b"hello from outside");
    Site::on("127.0.0.1:0", &[("/", page)]).await
}

fn output(ran: &Value) -> &str {
    ran["output"].as_str().unwrap()
}

#[tokio::test]
async fn a_command_reaches_a_named_host_by_the_proxy_and_nothing_else() {
    if !is_here(Confinement::Bubblewrap) {
        return;
    }
    let site = site().await;
    let (place, port) = (place(site.port), site.port);
    let ask = format!(
        "{ASK}ask 'GET http://site.example:{port}/ HTTP/1.1\\r\\n\\r\\n'; \
         ask 'CONNECT site.example:{port} HTTP/1.1\\r\\n\\r\\nGET / HTTP/1.1\\r\\n\\r\\n'"
    );
    let ran = place.shell(&ask).await.unwrap();
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
        let ran = place.shell(&command).await.unwrap();
        assert_ne!(ran["exit_code"], 0, "{attack}: {ran}");
    }
    assert_eq!(site.heard().len(), 2);
}

#[tokio::test]
async fn the_model_reads_why_a_host_was_refused() {
    if !is_here(Confinement::Bubblewrap) {
        return;
    }
    let site = site().await;
    let place = place(site.port);
    let ask = format!("{ASK}ask 'CONNECT other.example:443 HTTP/1.1\\r\\n\\r\\n'");
    let ran = place.shell(&ask).await.unwrap();
    assert!(output(&ran).contains("403 Forbidden"), "{ran}");
    let told = ran["remark"].as_str().unwrap();
    assert!(told.contains("other.example:443 is not open"), "{told}");
    assert!(told.contains("shell.hosts"), "{told}");
}

#[tokio::test]
async fn the_model_reads_what_was_refused_to_a_command_in_the_background() {
    if !is_here(Confinement::Bubblewrap) {
        return;
    }
    let site = site().await;
    let place = place(site.port);
    let kept = Outputs::open(place.outside().join("kept"), OutputLimits::default()).unwrap();
    place.environments.keep_outputs(kept);
    let shell = ShellCapability::new(place.environments.clone(), place.settings.clone());
    let tools = shell.tools_with_config(&json!({ "approval": "never" }));
    let context = place.context();
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
    let refused = |told: &Value| {
        let remark = told["remark"].as_str().unwrap_or_default();
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
async fn a_proxied_command_ends_reads_and_is_limited_as_any_other() {
    if !is_here(Confinement::Bubblewrap) {
        return;
    }
    let place = place(1);
    for (command, code) in [("exit 7", 7), ("kill -9 $$", 137), ("cat; exit 3", 3)] {
        let ran = place.shell(command).await.unwrap();
        assert_eq!(ran["exit_code"], code, "{command}: {ran}");
    }
    // No helper process remains in the sandbox: only the shell and the programs it starts.
    let ran = place
        .shell("ls /proc | grep -c '^[0-9]'; cat /proc/1/comm")
        .await
        .unwrap();
    assert!(output(&ran).contains("bwrap"), "{ran}");
    let ran = place
        .shell("ls -l /proc/$$/fd | grep -c socket")
        .await
        .unwrap();
    assert_eq!(output(&ran).lines().last(), Some("0"), "{ran}");
    let slow = json!({ "command": "sleep 600", "timeout_ms": 300 });
    let told = place.call("shell", slow).await.unwrap_err();
    assert!(told.contains("did not end within"), "{told}");
}

/// The sandbox's init holds the channel on which the listener was sent, and a command can obtain it from there.
#[tokio::test]
async fn nothing_goes_to_the_host_by_the_channel_of_the_listener() {
    if !is_here(Confinement::Bubblewrap) {
        return;
    }
    let place = place(1);
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
    std::fs::write(place.root().join("attack.py"), program).unwrap();
    let ran = place.shell("python3 attack.py").await.unwrap();
    if ran["exit_code"] == 127 {
        skipped("nothing_goes_to_the_host", "there is no python3");
        return;
    }
    let said = output(&ran).lines().last();
    assert!([Some("32"), Some("refused")].contains(&said), "{ran}");
}

#[tokio::test]
async fn the_proxy_of_another_call_is_out_of_reach() {
    if !is_here(Confinement::Bubblewrap) {
        return;
    }
    let site = site().await;
    let (one, port) = (place(site.port), site.port);
    let mut other = filtered(Confinement::Bubblewrap);
    let nothing = Said {
        hosts: &[],
        allow: &[],
        deny: &[],
        names: Names::of(&[]),
    };
    other.settings.proxy = Some(nothing.proxy(launcher()));
    let waiting = "echo ${HTTP_PROXY##*:} > port; until [ -e done ]; do sleep 0.05; done";
    let looks = async {
        let at = one.root().join("port");
        let mut looks = tokio::time::interval(Duration::from_millis(10));
        let told = async {
            loop {
                looks.tick().await;
                match std::fs::read_to_string(&at) {
                    Ok(text) if text.ends_with('\n') => return text.trim().to_owned(),
                    _ => {}
                }
            }
        };
        let proxy = tokio::time::timeout(Duration::from_secs(60), told).await;
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
    assert_eq!(site.heard(), [""; 0]);
}

#[tokio::test]
async fn without_bubblewrap_or_a_proxy_nothing_is_reached_and_the_reason_is_told() {
    let site = site().await;
    let connect = format!("exec 3<>/dev/tcp/127.0.0.1/{}", site.port);
    if is_here(Confinement::Landlock) {
        let ran = filtered(Confinement::Landlock)
            .shell(&connect)
            .await
            .unwrap();
        assert_ne!(ran["exit_code"], 0, "{ran}");
        let told = ran["remark"].as_str().unwrap();
        assert!(told.contains("there is no network"), "{told}");
    }
    if is_here(Confinement::Bubblewrap) {
        let told = filtered(Confinement::Bubblewrap)
            .shell("echo x")
            .await
            .unwrap_err();
        assert!(told.contains("has no proxy for commands"), "{told}");
        let mut lost = place(site.port);
        let said = Said {
            hosts: &[],
            allow: &[],
            deny: &[],
            names: Names::of(&[]),
        };
        let nowhere = Launcher {
            program: "/nowhere/windlass".into(),
            words: Vec::new(),
        };
        lost.settings.proxy = Some(said.proxy(nowhere));
        let told = lost.shell("echo x").await.unwrap_err();
        assert!(
            told.contains("there is no program /nowhere/windlass"),
            "{told}"
        );
    }
    let told = filtered(Confinement::Unconfined)
        .shell("echo x")
        .await
        .unwrap_err();
    assert!(told.contains("needs bubblewrap"), "{told}");
    assert_eq!(site.heard(), [""; 0]);
}

#[tokio::test]
async fn the_rules_of_the_session_hold_for_its_commands() {
    if !is_here(Confinement::Bubblewrap) {
        return;
    }
    let site = site().await;
    let place = place(site.port);
    let mut context = place.context();
    let list = windlass_core::network_access::NetworkAccessList::block(["site.example"]);
    context.network_access = Some(list);
    let ask = format!(
        "{ASK}ask 'GET http://site.example:{}/ HTTP/1.1\\r\\n\\r\\n'",
        site.port
    );
    let tool = Arc::from(place.tool("shell")) as Arc<dyn windlass_core::tools::Tool>;
    let ran = tool
        .execute_with_context(json!({ "command": ask }), &context)
        .await;
    let ToolExecutionResult::Success(ran) = ran else {
        panic!("{ran:?}");
    };
    assert!(output(&ran).contains("forbid it"), "{ran}");
    assert_eq!(site.heard(), [""; 0]);
}
