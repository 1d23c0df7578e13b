//! Pipes both ways, with bounds.

use std::sync::Arc;

use windlass_process::{
    Cause, LineTooLong, Output, ShutdownSequence, ShutdownStep, StdinError, Stdout,
};

use crate::support::{LONG, SHORT, soon, worlds};

/// Maximum number of bytes between a program and its reader: buffered pieces, a pipe, and a margin.
const MAX_BETWEEN: usize = 1024 * 1024;

#[tokio::test]
async fn a_program_answers_line_by_line_for_many_turns_and_ends_when_its_input_does() {
    for world in worlds() {
        let script = "while read -r line; do echo \"got $line\"; done; echo oh >&2; exit 3";
        let (program, errors) = world.script(script);
        let mut running = program.start().await.unwrap();
        let stdin_writer = running.stdin_writer().unwrap();
        let mut lines = running.chunks().unwrap().lines(1024);
        assert!(running.stdin_writer().is_none() && running.chunks().is_none());
        for turn in 0..100 {
            stdin_writer
                .send(format!("turn {turn}\n").as_bytes())
                .await
                .unwrap();
            let line = lines.next().await.unwrap().unwrap();
            assert_eq!(
                line,
                format!("got turn {turn}").as_bytes(),
                "{:?}",
                world.way
            );
        }
        stdin_writer.finish();
        assert_eq!(lines.next().await, Ok(None));
        let end = running.end().await.unwrap();
        assert_eq!((end.cause, end.step), (Cause::Itself, None));
        assert_eq!(end.status.unwrap().code(), Some(3), "{:?}", world.way);
        assert_eq!(errors.text().0, "oh\n", "{:?}", world.way);
        assert_eq!(stdin_writer.send(b"more").await, Err(StdinError::Closed));
    }
}

#[tokio::test]
async fn what_was_handed_over_is_written_also_when_the_feed_is_dropped() {
    for world in worlds() {
        let (program, _) = world.script("wc -c");
        let mut running = program.start().await.unwrap();
        let stdin_writer = running.stdin_writer().unwrap();
        stdin_writer.send(&[b'x'; 300_000]).await.unwrap();
        stdin_writer.send(&[b'y'; 300_000]).await.unwrap();
        drop(stdin_writer);
        let mut lines = running.chunks().unwrap().lines(100);
        let line = lines.next().await.unwrap().unwrap();
        assert_eq!(line.trim_ascii(), b"600000", "{:?}", world.way);
    }
}

#[tokio::test]
async fn output_without_end_that_nobody_reads_makes_the_program_wait() {
    for world in worlds() {
        let (program, _) = world.script("exec yes");
        let mut running = program.start().await.unwrap();
        let mut chunks = running.chunks().unwrap();
        let mut total = chunks.next().await.unwrap().len();
        running.stop();
        let end = running.end().await.unwrap();
        assert!(end.is_whole, "{:?}", world.way);
        while let Some(chunk) = chunks.next().await {
            total += chunk.len();
        }
        assert!(total < MAX_BETWEEN, "{:?}: {total}", world.way);
    }
}

#[tokio::test]
async fn output_without_end_is_kept_in_part() {
    for world in worlds() {
        let output = Arc::new(Output::new(1000, 0));
        let (mut program, errors) = world.script("yes & exec yes no >&2");
        program.stdout = Stdout::Captured(Arc::clone(&output));
        let mut running = program.start().await.unwrap();
        soon("both outputs are cut", || {
            [&output, &errors].iter().all(|it| it.text().1.is_some())
        });
        running.stop();
        let end = running.end().await.unwrap();
        assert_eq!(end.cause, Cause::Stopped, "{:?}", world.way);
        let (text, remark) = output.text();
        assert!(
            text.len() < 1100 && remark.is_some(),
            "{:?}: {remark:?}",
            world.way
        );
        let (text, remark) = errors.text();
        assert!(
            text.len() < 8300 && remark.is_some(),
            "{:?}: {remark:?}",
            world.way
        );
    }
}

#[tokio::test]
async fn a_line_without_end_is_told_and_a_long_one_is_skipped() {
    for world in worlds() {
        let too_long = Err(LineTooLong { limit: 5000 });
        let (program, _) = world.script("yes | tr -d '\\n'");
        let mut running = program.start().await.unwrap();
        let mut lines = running.chunks().unwrap().lines(5000);
        assert_eq!(lines.next().await, too_long, "{:?}", world.way);
        running.stop();
        assert!(running.end().await.unwrap().is_whole, "{:?}", world.way);

        let long = "head -c 3000000 /dev/zero | tr '\\0' x";
        let script = format!("echo first; {long}; echo; echo second; printf last");
        let (program, _) = world.script(&script);
        let mut lines = {
            let mut running = program.start().await.unwrap();
            let lines = running.chunks().unwrap().lines(5000);
            // Held during the read; the program is short enough to exit on its own.
            tokio::spawn(async move { running.end().await });
            lines
        };
        let mut read = Vec::new();
        loop {
            match lines.next().await {
                Ok(Some(line)) => read.push(String::from_utf8(line).unwrap()),
                Ok(None) => break,
                Err(told) => read.push(told.to_string()),
            }
        }
        let told = "the program wrote a line of more than 5000 bytes";
        assert_eq!(read, ["first", told, "second", "last"], "{:?}", world.way);
    }
}

#[tokio::test]
async fn input_that_nobody_reads_keeps_nobody_waiting() {
    for world in worlds() {
        let (mut program, errors) = world.script("trap '' INT; echo up; sleep 86400");
        program.shutdown = ShutdownSequence(vec![
            (ShutdownStep::CloseInput, SHORT),
            (ShutdownStep::Terminate, LONG),
        ]);
        let mut running = crate::support::up(program, &errors).await;
        let stdin_writer = running.stdin_writer().unwrap();
        let piece = vec![b'x'; 64 * 1024];
        let mut pieces = 0..1000;
        let full = pieces.find_map(|_| stdin_writer.try_send(&piece).err());
        assert_eq!(full, Some(StdinError::Full), "{:?}", world.way);
        running.stop();
        // A caller that waits for room gets an error when none will come. The pipe itself may still have accepted a piece.
        let closed = loop {
            if let Err(error) = stdin_writer.send(&piece).await {
                break error;
            }
        };
        assert_eq!(closed, StdinError::Closed, "{:?}", world.way);
        let end = running.end().await.unwrap();
        assert_eq!(end.step, Some(ShutdownStep::Terminate), "{:?}", world.way);
        assert!(end.is_whole, "{:?}", world.way);
    }
}
