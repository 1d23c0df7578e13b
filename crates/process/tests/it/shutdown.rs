//! A program receives the shutdown steps in order, and is then killed.

use windlass_process::{Cause, ShutdownSequence, ShutdownStep};
use windlass_testkit::{sleepers, unique_sleep};

use crate::support::{LONG, NOBODY, SHORT, up, worlds};

const LOOP: &str = "echo up; while :; do sleep 0.02; done";

#[tokio::test]
async fn each_rung_is_taken_by_who_heeds_it_and_by_none_before() {
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
    for world in worlds() {
        for (script, expected) in &cases {
            let (mut program, errors) = world.script(script);
            let taken = expected.map(|(step, _)| step);
            let steps = [
                ShutdownStep::CloseInput,
                ShutdownStep::Interrupt,
                ShutdownStep::Terminate,
            ];
            let time = |step| if Some(step) == taken { LONG } else { SHORT };
            program.shutdown = ShutdownSequence(steps.map(|step| (step, time(step))).into());
            let mut running = up(program, &errors).await;
            let _feed = running.stdin_writer();
            running.stop();
            let end = running.end().await.unwrap();
            let told = format!("{:?}: {script}: {end:?}", world.way);
            assert_eq!(end.step, taken, "{told}");
            assert_eq!(end.cause, Cause::Stopped, "{told}");
            assert!(end.is_whole, "{told}");
            match expected {
                Some((_, code)) => assert_eq!(end.status.unwrap().code(), Some(*code), "{told}"),
                None => assert!(!end.status.unwrap().success(), "{told}"),
            }
        }
    }
}

#[tokio::test]
async fn a_family_that_ignores_all_signals_is_gone_when_the_time_is_over() {
    for world in worlds() {
        let seconds = unique_sleep();
        let (mut program, _) = world.script(&format!(
            "trap '' INT TERM HUP; sleep {seconds} & (sleep {seconds} &); setsid sleep {seconds} & wait"
        ));
        program.time = Some(SHORT);
        let mut running = program.start().await.unwrap();
        let _chunks = running.chunks();
        let end = running.end().await.unwrap();
        assert_eq!(
            (end.cause, end.step),
            (Cause::TimeOver, None),
            "{:?}",
            world.way
        );
        assert!(end.is_whole, "{:?}", world.way);
        assert_eq!(sleepers(&seconds), NOBODY, "{:?}", world.way);
    }
}

#[tokio::test]
async fn an_interrupt_is_heard_and_the_program_goes_on() {
    for world in worlds() {
        let script = "trap 'echo heard' INT; echo up; while :; do sleep 0.02; done";
        let (program, _) = world.script(script);
        let mut running = program.start().await.unwrap();
        let mut lines = running.chunks().unwrap().lines(100);
        assert_eq!(lines.next().await.unwrap().unwrap(), b"up");
        for _ in 0..2 {
            running.interrupt();
            assert_eq!(
                lines.next().await.unwrap().unwrap(),
                b"heard",
                "{:?}",
                world.way
            );
        }
        running.stop();
        assert!(running.end().await.unwrap().is_whole, "{:?}", world.way);
    }
}

#[test]
fn an_interrupt_is_heard_also_where_the_host_ignores_it() {
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
        .args([
            "--exact",
            "shutdown::an_interrupt_is_heard_and_the_program_goes_on",
        ])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(said.contains("1 passed"), "{said}");
}

#[tokio::test]
async fn who_is_dropped_is_stopped() {
    for world in worlds() {
        let seconds = unique_sleep();
        let running = world
            .start_up(&format!("echo up; setsid sleep {seconds} & wait"))
            .await;
        crate::support::soon("it sleeps", || sleepers(&seconds).len() == 1);
        drop(running);
        crate::support::soon("it is gone", || sleepers(&seconds).is_empty());
    }
}
