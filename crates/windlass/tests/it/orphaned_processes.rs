//! Processes that a killed daemon left behind.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use windlass_testkit::skipped;

use crate::support::{Daemon, Home, TOKEN};

/// A process that listens on a loopback port.
struct Listener {
    process: Child,
    port: String,
}

impl Listener {
    fn start() -> Option<Self> {
        let script = "use IO::Socket::INET; $| = 1; my $socket = IO::Socket::INET->new(Listen => 1, LocalAddr => '127.0.0.1') or die; \
                      print $socket->sockport, \"\\n\"; sleep 600";
        let mut process = Command::new("perl")
            .args(["-e", script])
            .stdout(Stdio::piped())
            .spawn()
            .ok()?;
        let mut port = String::new();
        let stdout = process.stdout.take().unwrap();
        BufReader::new(stdout).read_line(&mut port).unwrap();
        let port = port.trim_end().to_owned();
        Some(Self { process, port })
    }

    /// The record that a daemon writes about the process of a command.
    fn recorded(&self) -> String {
        let pid = self.process.id();
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let mut fields = stat.rsplit(')').next().unwrap().split_ascii_whitespace();
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
        format!(
            "windlass-processes-1 {}\n{pid} {}\n",
            boot.trim(),
            fields.nth(19).unwrap()
        )
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn orphaned_process_on_the_port_is_ended_before_the_daemon_listens() {
    let Some(listener) = Listener::start() else {
        skipped("a process that took the port", "there is no perl");
        return;
    };
    let home = Home::new();
    home.start().kill();
    let record = home.data().join("processes/left.processes");
    fs::write(&record, listener.recorded()).unwrap();
    let mut serve = home.command(&["serve", "--token", TOKEN, "--port", &listener.port]);
    let daemon = Daemon::started(&mut serve);
    assert!(daemon.client.address.ends_with(&listener.port));
    assert!(!record.exists());
}

#[test]
fn refused_daemon_ends_no_process_of_the_running_one() {
    let Some(mut listener) = Listener::start() else {
        return;
    };
    let home = Home::new();
    let _daemon = home.start();
    let record = home.data().join("processes/running.processes");
    fs::write(&record, listener.recorded()).unwrap();
    let second = home.command(&["serve", "--port", "0"]).output().unwrap();
    assert_eq!(second.status.code(), Some(2));
    assert!(record.exists());
    assert_eq!(listener.process.try_wait().unwrap(), None);
}
