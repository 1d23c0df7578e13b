//! A program receives the shutdown steps in order, and is then killed.

use windlass_process::{Cause, ShutdownSequence, ShutdownStep};
use windlass_testkit::{sleepers, unique_sleep};

use crate::support::{LONG, NO_PROCESSES, SHORT, all_sandboxes, up};

const LOOP: &str = "echo up; while :; do sleep 0.02; done";

#[tokio::test]
async fn each_step_ends_only_the_programs_that_react_to_it() {
    let polite = "echo up; cat > /dev/null; exit 2".to_owned();
    let interruptible = format!("trap 'exit 3' INT; trap '' TERM; {LOOP}");
    let terminable = format!("trap '' INT; trap 'exit 4' TERM; {LOOP}");
    let stubborn = format!("trap '' INT TERM; {LOOP}");
    let cases = [
        (polite, Some((ShutdownStep::CloseInput, 2))),
        (interruptible, Some((ShutdownStep::Interrupt, 3))),
        (terminable, Some((ShutdownStep::Terminate, 4))),
        (stubborn, None),
    ];
    for sandbox in all_sandboxes() {
        for (script, expected) in &cases {
            let (mut program, errors) = sandbox.script(script);
            let taken = expected.map(|(step, _)| step);
            let steps = [
                ShutdownStep::CloseInput,
                ShutdownStep::Interrupt,
                ShutdownStep::Terminate,
            ];
            let time = |step| if Some(step) == taken { LONG } else { SHORT };
            program.shutdown = ShutdownSequence(steps.map(|step| (step, time(step))).into());
            let mut running = up(program, &errors).await;
            let _stdin_writer = running.stdin_writer();
            running.stop();
            let end = running.end().await.unwrap();
            let context = format!("{:?}: {script}: {end:?}", sandbox.confinement);
            assert_eq!(end.step, taken, "{context}");
            assert_eq!(end.cause, Cause::Stopped, "{context}");
            assert!(end.all_ended, "{context}");
            match expected {
                Some((_, code)) => assert_eq!(end.status.unwrap().code(), Some(*code), "{context}"),
                None => assert!(!end.status.unwrap().success(), "{context}"),
            }
        }
    }
}

#[tokio::test]
async fn processes_that_ignore_signals_are_killed_at_the_time_limit() {
    for sandbox in all_sandboxes() {
        let seconds = unique_sleep();
        let (mut program, _) = sandbox.script(&format!(
            "trap '' INT TERM HUP; sleep {seconds} & (sleep {seconds} &); setsid sleep {seconds} & wait"
        ));
        program.time = Some(SHORT);
        let mut running = program.start().await.unwrap();
        let _chunks = running.chunks();
        let end = running.end().await.unwrap();
        assert_eq!(
            (end.cause, end.step),
            (Cause::TimedOut, None),
            "{:?}",
            sandbox.confinement
        );
        assert!(end.all_ended, "{:?}", sandbox.confinement);
        assert_eq!(
            sleepers(&seconds),
            NO_PROCESSES,
            "{:?}",
            sandbox.confinement
        );
    }
}

#[tokio::test]
async fn interrupted_program_continues() {
    for sandbox in all_sandboxes() {
        let script = "trap 'echo interrupted' INT; echo up; while :; do sleep 0.02; done";
        let (program, _) = sandbox.script(script);
        let mut running = program.start().await.unwrap();
        let mut lines = running.chunks().unwrap().lines(100);
        assert_eq!(lines.next().await.unwrap().unwrap(), b"up");
        for _ in 0..2 {
            running.interrupt();
            assert_eq!(
                lines.next().await.unwrap().unwrap(),
                b"interrupted",
                "{:?}",
                sandbox.confinement
            );
        }
        running.stop();
        assert!(
            running.end().await.unwrap().all_ended,
            "{:?}",
            sandbox.confinement
        );
    }
}

#[test]
fn interrupt_reaches_the_program_even_if_the_host_ignores_it() {
    // As in a host that a script started in the background.
    let ran = std::process::Command::new("timeout")
        .args([
            "60",
            "sh",
            "-c",
            "trap '' HUP INT QUIT TERM; exec \"$@\"",
            "sh",
        ])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "shutdown::interrupted_program_continues"])
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&ran.stdout);
    assert!(output.contains("1 passed"), "{output}");
}

#[tokio::test]
async fn dropped_program_is_stopped() {
    for sandbox in all_sandboxes() {
        let seconds = unique_sleep();
        let running = sandbox
            .start_up(&format!("echo up; setsid sleep {seconds} & wait"))
            .await;
        crate::support::soon("it sleeps", || sleepers(&seconds).len() == 1);
        drop(running);
        crate::support::soon("it is gone", || sleepers(&seconds).is_empty());
    }
}
