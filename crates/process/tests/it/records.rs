//! Processes recorded by a previous process are ended, and no others.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use windlass_process::{Confinement, Leftovers, Records};

use crate::support::{TestSandbox, all_sandboxes, is_supported, soon, start_time};

fn boot() -> String {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    boot.trim().to_owned()
}

fn record(directory: &Path, name: &str, text: &str) {
    fs::write(directory.join(format!("{name}.processes")), text).unwrap();
}

/// A process that ends with the test, however the test ends.
struct Sleeper(Child);

impl Sleeper {
    fn start() -> Self {
        let mut command = Command::new("sleep");
        command
            .arg("86400")
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        Self(command.spawn().unwrap())
    }

    fn is_alive(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }

    /// The line that records it, with its start time shifted by `later`.
    fn line(&self, later: u64) -> String {
        let pid = self.0.id();
        format!("{pid} {}\n", start_time(pid) + later)
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn processes_are_identified_by_start_time_and_reused_pids_are_spared() {
    let directory = tempfile::tempdir().unwrap();
    let records = Records::open(directory.path()).unwrap();
    let [mut same, mut reused, mut rebooted] = [(); 3].map(|()| Sleeper::start());
    let now = format!("windlass-processes-1 {}\n", boot());
    let once = "windlass-processes-1 00000000-0000-0000-0000-000000000000\n";
    record(
        directory.path(),
        "reused",
        &format!("{now}{}", reused.line(1)),
    );
    record(directory.path(), "same", &format!("{now}{}", same.line(0)));
    record(
        directory.path(),
        "rebooted",
        &format!("{once}{}", rebooted.line(0)),
    );
    record(directory.path(), "gone", &format!("{now}4194303 1\n"));
    let left = records.end_leftovers().unwrap();
    let expected = Leftovers {
        ended: 1,
        all_ended: true,
        unreadable: Vec::new(),
    };
    assert_eq!(left, expected);
    assert!(!same.is_alive());
    assert!(reused.is_alive() && rebooted.is_alive());
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn unreadable_record_is_reported_and_ends_no_process() {
    let directory = tempfile::tempdir().unwrap();
    let records = Records::open(directory.path()).unwrap();
    let mut child = Sleeper::start();
    let line = child.line(0);
    let now = format!("windlass-processes-1 {}\n", boot());
    let broken = [
        ("empty", String::new()),
        (
            "version",
            format!("windlass-processes-2 {}\n{line}", boot()),
        ),
        ("words", format!("{now}{line}one two\n")),
        ("init", format!("{now}{line}1 1\n")),
        ("group", format!("{now}{line}-1 1\n")),
    ];
    for (name, text) in &broken {
        record(directory.path(), name, text);
    }
    let left = records.end_leftovers().unwrap();
    assert_eq!(
        (left.ended, left.unreadable.len()),
        (0, broken.len()),
        "{left:?}"
    );
    assert!(child.is_alive());
    assert_eq!(
        fs::read_dir(directory.path()).unwrap().count(),
        broken.len()
    );
}

#[tokio::test]
async fn a_program_is_recorded_while_it_runs() {
    for sandbox in all_sandboxes() {
        let directory = tempfile::tempdir().unwrap();
        let (mut program, errors) = sandbox.script("echo up; cat > /dev/null");
        program.sandbox.records = Some(Records::open(directory.path()).unwrap());
        let mut running = crate::support::up(program, &errors).await;
        let file = fs::read_dir(directory.path()).unwrap().next().unwrap();
        let text = fs::read_to_string(file.unwrap().path()).unwrap();
        let line = format!("{} {}\n", running.pid(), start_time(running.pid()));
        assert!(text.contains(&line), "{:?}: {text}", sandbox.confinement);
        running.stop();
        assert!(running.end().await.unwrap().all_ended);
        assert_eq!(
            fs::read_dir(directory.path()).unwrap().count(),
            0,
            "{:?}",
            sandbox.confinement
        );
    }
}

/// The recorded init identifies all processes in a sandbox, whatever marks they removed. It may start before or after the program is first recorded.
#[tokio::test]
async fn sandbox_init_is_recorded_whenever_it_starts() {
    if !is_supported(Confinement::Bubblewrap) {
        return;
    }
    let sandbox = TestSandbox::new(Confinement::Bubblewrap);
    let directory = tempfile::tempdir().unwrap();
    let records = Records::open(directory.path()).unwrap();
    for _ in 0..40 {
        let (mut program, errors) = sandbox.script("echo up; cat > /dev/null");
        program.sandbox.records = Some(records.clone());
        let mut running = crate::support::up(program, &errors).await;
        let outer = running.pid();
        let children = format!("/proc/{outer}/task/{outer}/children");
        let init = fs::read_to_string(children).unwrap();
        let init: u32 = init.trim().parse().unwrap();
        let line = format!("{init} {}\n", start_time(init));
        soon("the init is recorded", || {
            let file = fs::read_dir(directory.path()).unwrap().flatten();
            let mut file =
                file.filter(|file| file.path().extension() == Some("processes".as_ref()));
            let text = fs::read_to_string(file.next().unwrap().path());
            text.unwrap().contains(&line)
        });
        running.stop();
        assert!(running.end().await.unwrap().all_ended);
    }
}
