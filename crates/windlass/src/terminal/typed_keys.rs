//! Keys that the user types in a chat while a turn runs: Enter queues the typed line, Esc stops the turn. The terminal delivers each key, without echo.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::Errno;
use tokio::sync::mpsc::{self, UnboundedReceiver};

use super::questions::has_input;

/// Maximum size of a typed line in bytes; more is ignored.
const MAX_LINE_BYTES: usize = 64 * 1024;
const ESCAPE: u8 = 0x1b;
const CTRL_O: u8 = 0x0f;
/// Marks of pasted text. The terminal sends them because the echo is off in this mode only ([`PASTE_ON`]).
const PASTE_BEGIN: &[u8] = b"[200~";
const PASTE_END: &[u8] = b"\x1b[201~";
pub(super) const PASTE_ON: &str = "\x1b[?2004h";
pub(super) const PASTE_OFF: &str = "\x1b[?2004l";

/// What the user typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Typed {
    Line(String),
    /// The Esc key.
    Escape,
    /// Ctrl-O, which shows the last result.
    Show,
    /// The unfinished line has changed.
    Edited,
}

/// Reads keys while it is polled; [`pause`](Self::pause) leaves the input to another reader.
#[derive(Default)]
pub(crate) struct TypedKeys {
    line: TypedLine,
    ready: Vec<Typed>,
    reader: Option<KeyReader>,
}

impl TypedKeys {
    /// Returns the next event; waits forever at the end of input. This method is cancel safe.
    pub(crate) async fn next(&mut self) -> Typed {
        loop {
            if !self.ready.is_empty() {
                return self.ready.remove(0);
            }
            let reader = self.reader.get_or_insert_with(KeyReader::start);
            match reader.bytes.recv().await {
                Some(bytes) => self.ready = self.line.push(&bytes),
                None => std::future::pending().await,
            }
        }
    }

    /// Stops reading, because a question is asked or the line editor is used. Returns whether this interrupted an unfinished line.
    pub(crate) fn pause(&mut self) -> bool {
        let Some(mut reader) = self.reader.take() else {
            return false;
        };
        reader.bytes.close();
        while let Ok(bytes) = reader.bytes.try_recv() {
            self.ready.extend(self.line.push(&bytes));
        }
        !self.line.text.is_empty()
    }

    /// Returns the text of the unfinished line.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.line.text).into_owned()
    }

    /// Removes and returns all text that was not queued.
    pub(crate) fn take_text(&mut self) -> Option<String> {
        self.pause();
        let lines = self.ready.drain(..).filter_map(|typed| match typed {
            Typed::Line(line) => Some(line),
            Typed::Escape | Typed::Show | Typed::Edited => None,
        });
        let mut lines: Vec<String> = lines.collect();
        let rest = String::from_utf8_lossy(&std::mem::take(&mut self.line.text)).into_owned();
        lines.extend(Some(rest).filter(|rest| !rest.is_empty()));
        (!lines.is_empty()).then(|| lines.join("\n"))
    }
}

/// A thread that reads standard input. Dropping it stops the thread before it consumes input of the next reader.
struct KeyReader {
    bytes: UnboundedReceiver<Vec<u8>>,
    is_wanted: Arc<AtomicBool>,
}

impl KeyReader {
    fn start() -> Self {
        let (send, bytes) = mpsc::unbounded_channel();
        let is_wanted = Arc::new(AtomicBool::new(true));
        let is_needed = Arc::clone(&is_wanted);
        std::thread::spawn(move || {
            while is_needed.load(Ordering::SeqCst) {
                match has_input() {
                    Ok(true) if is_needed.load(Ordering::SeqCst) => {}
                    Ok(_) => continue,
                    Err(_) => return,
                }
                let mut piece = [0; 1024];
                match rustix::io::read(io::stdin(), &mut piece) {
                    Ok(count @ 1..) if send.send(piece[..count].to_vec()).is_ok() => {}
                    Err(Errno::INTR) => {}
                    _ => return,
                }
            }
        });
        Self { bytes, is_wanted }
    }
}

impl Drop for KeyReader {
    fn drop(&mut self) {
        self.is_wanted.store(false, Ordering::SeqCst);
    }
}

/// The line that the user types.
#[derive(Default)]
struct TypedLine {
    text: Vec<u8>,
    /// The pasted text so far, while the user pastes.
    paste: Option<Vec<u8>>,
}

impl TypedLine {
    fn push(&mut self, bytes: &[u8]) -> Vec<Typed> {
        let mut typed = Vec::new();
        let mut rest = bytes;
        while let Some((&byte, after)) = rest.split_first() {
            rest = after;
            if let Some(paste) = &mut self.paste {
                paste.push(byte);
                if let Some(pasted) = paste.strip_suffix(PASTE_END) {
                    let pasted = pasted.to_vec();
                    self.paste = None;
                    pasted.iter().for_each(|byte| {
                        self.add(match byte {
                            b'\r' => b'\n',
                            byte => *byte,
                        })
                    });
                } else if paste.len() > MAX_LINE_BYTES + PASTE_END.len() {
                    // The end of the mark must still be recognized.
                    paste.remove(MAX_LINE_BYTES);
                }
                continue;
            }
            match byte {
                ESCAPE if rest.is_empty() => typed.push(Typed::Escape),
                ESCAPE if rest.starts_with(PASTE_BEGIN) => {
                    rest = &rest[PASTE_BEGIN.len()..];
                    self.paste = Some(Vec::new());
                }
                ESCAPE => rest = self.escape_sequence(rest),
                b'\r' | b'\n' => {
                    let line = std::mem::take(&mut self.text);
                    let line = String::from_utf8_lossy(&line).trim().to_owned();
                    if !line.is_empty() {
                        typed.push(Typed::Line(line));
                    }
                }
                0x7f | 0x08 => while self.text.pop().is_some_and(|byte| byte & 0xc0 == 0x80) {},
                // Ctrl-U
                0x15 => self.text.clear(),
                CTRL_O => typed.push(Typed::Show),
                0..0x20 => {}
                byte => self.add(byte),
            }
        }
        typed.push(Typed::Edited);
        typed
    }

    fn add(&mut self, byte: u8) {
        if self.text.len() < MAX_LINE_BYTES {
            self.text.push(byte);
        }
    }

    /// Skips the sequence of a key, such as an arrow. Alt-Enter begins another line. Returns the input after it.
    fn escape_sequence<'a>(&mut self, rest: &'a [u8]) -> &'a [u8] {
        match rest {
            [b'[' | b'O', sequence @ ..] => {
                let end = sequence.iter().position(|byte| matches!(byte, 0x40..=0x7e));
                end.map_or(&[], |end| &sequence[end + 1..])
            }
            [b'\r' | b'\n', after @ ..] => {
                self.add(b'\n');
                after
            }
            [_, after @ ..] => after,
            [] => rest,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(pieces: &[&[u8]]) -> (Vec<Typed>, String) {
        let mut line = TypedLine::default();
        let typed = pieces.iter().flat_map(|piece| line.push(piece));
        let typed = typed.filter(|it| *it != Typed::Edited).collect();
        (typed, String::from_utf8_lossy(&line.text).into_owned())
    }

    #[test]
    fn keys_become_lines_and_escape() {
        let line = |text: &str| Typed::Line(text.to_owned());
        for (pieces, events, left) in [
            (
                &[&b"one\rtw"[..], b"o\r\rthree"][..],
                vec![line("one"), line("two")],
                "three",
            ),
            (&[b"\x1b"], vec![Typed::Escape], ""),
            (&[b"a\x1b[Db\x1bOP\x1b[1;5Cc"], vec![], "abc"),
            (&[b"a\x1b\rb\r"], vec![line("a\nb")], ""),
            (&["aü\x7f\x7fb".as_bytes()], vec![], "b"),
            (&[b"nonsense\x15x"], vec![], "x"),
            // A paste neither submits nor interrupts, even if its end arrives in two pieces.
            (
                &[b"\x1b[200~rm\r\x1bx\x1b[20", b"1~y"],
                vec![],
                "rm\n\u{1b}xy",
            ),
        ] {
            assert_eq!(typed(pieces), (events, left.to_owned()), "{pieces:?}");
        }
    }

    #[test]
    fn endless_paste_is_bounded() {
        let mut line = TypedLine::default();
        line.push(b"\x1b[200~");
        for _ in 0..100 {
            line.push(&[b'x'; 1024]);
        }
        line.push(PASTE_END);
        assert!(line.paste.is_none());
        assert_eq!(line.text.len(), MAX_LINE_BYTES);
    }
}
