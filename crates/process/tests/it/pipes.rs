//! Pipes both ways, with bounds.

use std::sync::Arc;

use windlass_process::{
    Cause, LineTooLong, Output, ShutdownSequence, ShutdownStep, StdinError, Stdout,
};

use crate::support::{LONG, SHORT, all_sandboxes, soon};

/// Maximum number of bytes between a program and its reader: buffered pieces, a pipe, and a margin.
const MAX_BETWEEN: usize = 1024 * 1024;

#[tokio::test]
async fn a_program_answers_line_by_line_until_its_input_is_closed() {
    for sandbox in all_sandboxes() {
        let script = "while read -r line; do echo \"got $line\"; done; echo oh >&2; exit 3";
        let (program, errors) = sandbox.script(script);
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
                sandbox.confinement
            );
        }
        stdin_writer.finish();
        assert_eq!(lines.next().await, Ok(None));
        let end = running.end().await.unwrap();
        assert_eq!((end.cause, end.step), (Cause::Exited, None));
        assert_eq!(
            end.status.unwrap().code(),
            Some(3),
            "{:?}",
            sandbox.confinement
        );
        assert_eq!(errors.text().0, "oh\n", "{:?}", sandbox.confinement);
        assert_eq!(stdin_writer.send(b"more").await, Err(StdinError::Closed));
    }
}

#[tokio::test]
async fn queued_input_is_written_after_the_writer_is_dropped() {
    for sandbox in all_sandboxes() {
        let (program, _) = sandbox.script("wc -c");
        let mut running = program.start().await.unwrap();
        let stdin_writer = running.stdin_writer().unwrap();
        stdin_writer.send(&[b'x'; 300_000]).await.unwrap();
        stdin_writer.send(&[b'y'; 300_000]).await.unwrap();
        drop(stdin_writer);
        let mut lines = running.chunks().unwrap().lines(100);
        let line = lines.next().await.unwrap().unwrap();
        assert_eq!(line.trim_ascii(), b"600000", "{:?}", sandbox.confinement);
    }
}

#[tokio::test]
async fn unread_output_blocks_the_program() {
    for sandbox in all_sandboxes() {
        let (program, _) = sandbox.script("exec yes");
        let mut running = program.start().await.unwrap();
        let mut chunks = running.chunks().unwrap();
        let mut total = chunks.next().await.unwrap().len();
        running.stop();
        let end = running.end().await.unwrap();
        assert!(end.all_ended, "{:?}", sandbox.confinement);
        while let Some(chunk) = chunks.next().await {
            total += chunk.len();
        }
        assert!(total < MAX_BETWEEN, "{:?}: {total}", sandbox.confinement);
    }
}

#[tokio::test]
async fn unlimited_output_is_retained_in_part() {
    for sandbox in all_sandboxes() {
        let output = Arc::new(Output::new(1000, 0));
        let (mut program, errors) = sandbox.script("yes & exec yes no >&2");
        program.stdout = Stdout::Captured(Arc::clone(&output));
        let mut running = program.start().await.unwrap();
        soon("both outputs are cut", || {
            [&output, &errors].iter().all(|it| it.text().1.is_some())
        });
        running.stop();
        let end = running.end().await.unwrap();
        assert_eq!(end.cause, Cause::Stopped, "{:?}", sandbox.confinement);
        let (text, remark) = output.text();
        assert!(
            text.len() < 1100 && remark.is_some(),
            "{:?}: {remark:?}",
            sandbox.confinement
        );
        let (text, remark) = errors.text();
        assert!(
            text.len() < 8300 && remark.is_some(),
            "{:?}: {remark:?}",
            sandbox.confinement
        );
    }
}

#[tokio::test]
async fn overlong_lines_are_reported_and_skipped() {
    for sandbox in all_sandboxes() {
        let too_long = Err(LineTooLong { limit: 5000 });
        let (program, _) = sandbox.script("yes | tr -d '\\n'");
        let mut running = program.start().await.unwrap();
        let mut lines = running.chunks().unwrap().lines(5000);
        assert_eq!(lines.next().await, too_long, "{:?}", sandbox.confinement);
        running.stop();
        assert!(
            running.end().await.unwrap().all_ended,
            "{:?}",
            sandbox.confinement
        );

        let long = "head -c 3000000 /dev/zero | tr '\\0' x";
        let script = format!("echo first; {long}; echo; echo second; printf last");
        let (program, _) = sandbox.script(&script);
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
                Err(error) => read.push(error.to_string()),
            }
        }
        let error = "the program wrote a line of more than 5000 bytes";
        assert_eq!(
            read,
            ["first", error, "second", "last"],
            "{:?}",
            sandbox.confinement
        );
    }
}

#[tokio::test]
async fn unread_input_blocks_no_caller() {
    for sandbox in all_sandboxes() {
        let (mut program, errors) = sandbox.script("trap '' INT; echo up; sleep 86400");
        program.shutdown = ShutdownSequence(vec![
            (ShutdownStep::CloseInput, SHORT),
            (ShutdownStep::Terminate, LONG),
        ]);
        let mut running = crate::support::up(program, &errors).await;
        let stdin_writer = running.stdin_writer().unwrap();
        let piece = vec![b'x'; 64 * 1024];
        let mut pieces = 0..1000;
        let full = pieces.find_map(|_| stdin_writer.try_send(&piece).err());
        assert_eq!(full, Some(StdinError::Full), "{:?}", sandbox.confinement);
        running.stop();
        // A caller that waits for room gets an error when none will come. The pipe itself may still have accepted a piece.
        let closed = loop {
            if let Err(error) = stdin_writer.send(&piece).await {
                break error;
            }
        };
        assert_eq!(closed, StdinError::Closed, "{:?}", sandbox.confinement);
        let end = running.end().await.unwrap();
        assert_eq!(
            end.step,
            Some(ShutdownStep::Terminate),
            "{:?}",
            sandbox.confinement
        );
        assert!(end.all_ended, "{:?}", sandbox.confinement);
    }
}
