//! Questions to the person at the terminal, one at a time, while the turn waits.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use windlass_core::bounds::one_line;

use super::proposal::proposal;
use super::{Colour, Screen};

/// How often the thread that reads looks whether it is still wanted.
const PATIENCE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};

/// A question that waits for an answer.
pub(crate) enum Asked {
    /// May this call run?
    Approval { id: String, tool: Value },
    /// What a tool wants to know.
    Input { id: String, request: Value },
}

/// What was answered, and to what.
pub(crate) enum Answer {
    Approval { id: String, body: Value },
    Input { id: String, body: Value },
}

/// Asks one question after the other.
pub(crate) struct Questions {
    waiting: VecDeque<Asked>,
    /// The one that is asked, with what was answered to its parts.
    now: Option<(Asked, Vec<Value>)>,
    reader: Option<Reader>,
}

/// A thread that waits for one line of standard input. Dropping it ends the thread before it takes a line that is meant for somebody else.
struct Reader {
    line: oneshot::Receiver<Option<String>>,
    is_wanted: Arc<AtomicBool>,
}

impl Reader {
    fn start() -> Self {
        let (send, line) = oneshot::channel();
        let is_wanted = Arc::new(AtomicBool::new(true));
        let wanted = Arc::clone(&is_wanted);
        std::thread::spawn(move || {
            while wanted.load(Ordering::Relaxed) {
                match has_input() {
                    Ok(false) => {}
                    Ok(true) => {
                        let mut line = String::new();
                        let read = io::stdin().read_line(&mut line);
                        let _ = send.send(read.ok().filter(|count| *count > 0).map(|_| line));
                        return;
                    }
                    Err(_) => return,
                }
            }
        });
        Self { line, is_wanted }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.is_wanted.store(false, Ordering::Relaxed);
    }
}

/// Waits a while for something to read on standard input.
fn has_input() -> io::Result<bool> {
    let stdin = io::stdin();
    let mut polled = [PollFd::new(&stdin, PollFlags::IN)];
    match poll(&mut polled, Some(&PATIENCE)) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

impl Questions {
    pub(crate) fn new() -> Self {
        Self {
            waiting: VecDeque::new(),
            now: None,
            reader: None,
        }
    }

    pub(crate) fn push(&mut self, asked: Asked) {
        self.waiting.push_back(asked);
    }

    /// Takes the next question away, where nobody is there to be asked.
    pub(crate) fn take(&mut self) -> Option<Asked> {
        self.waiting.pop_front()
    }

    /// Forgets a question that is settled in another way.
    pub(crate) fn forget(&mut self, id: &str, screen: &mut Screen) -> io::Result<()> {
        let is_it = |asked: &Asked| match asked {
            Asked::Approval { id: asked, .. } | Asked::Input { id: asked, .. } => asked == id,
        };
        self.waiting.retain(|asked| !is_it(asked));
        if self.now.as_ref().is_some_and(|(asked, _)| is_it(asked)) {
            (self.now, self.reader) = (None, None);
            screen.tell(Colour::Dim, "(it is settled)")?;
        }
        Ok(())
    }

    /// Tells whether somebody is being asked.
    pub(crate) fn is_asking(&self) -> bool {
        self.now.is_some()
    }

    /// Asks the next question, unless one is asked already.
    pub(crate) fn ask(&mut self, screen: &mut Screen, cwd: &Path) -> io::Result<()> {
        if self.now.is_some() {
            return Ok(());
        }
        let Some(asked) = self.waiting.pop_front() else {
            return Ok(());
        };
        screen.rest()?;
        if let Asked::Approval { tool, .. } = &asked {
            let name = one_line(tool["name"].as_str().unwrap_or("a tool")).into_owned();
            let path = tool["input"]["path"].as_str().unwrap_or_default();
            let head = format!("{name} wants to run {}", one_line(path));
            screen.tell(Colour::Asked, head.trim_end())?;
            for line in proposal(tool, cwd, screen.style()) {
                writeln!(io::stderr(), "  {line}")?;
            }
        }
        self.now = Some((asked, Vec::new()));
        self.prompt(screen)
    }

    /// Writes what is to be answered now.
    fn prompt(&self, screen: &mut Screen) -> io::Result<()> {
        let text = match &self.now {
            Some((Asked::Approval { .. }, _)) => {
                "Allow? [y]es, [n]o, [a]lways in this conversation: ".to_owned()
            }
            Some((Asked::Input { request, .. }, given)) => {
                let question = &request["questions"][given.len()];
                screen.tell(Colour::Asked, question["question"].as_str().unwrap_or("?"))?;
                let options = question["options"].as_array();
                for (number, option) in options.into_iter().flatten().enumerate() {
                    let of = |name: &str| {
                        one_line(option[name].as_str().unwrap_or_default()).into_owned()
                    };
                    writeln!(
                        io::stderr(),
                        "  {}. {}  {}",
                        number + 1,
                        of("label"),
                        of("description")
                    )?;
                }
                "Answer: ".to_owned()
            }
            None => return Ok(()),
        };
        let mut err = io::stderr();
        write!(err, "{}", screen.style().paint(Colour::Bold, &text))?;
        err.flush()
    }

    /// Waits for a line that somebody types; `None` when nobody will.
    pub(crate) async fn line(&mut self) -> Option<String> {
        let reader = self.reader.get_or_insert_with(Reader::start);
        let line = (&mut reader.line).await;
        self.reader = None;
        line.ok().flatten()
    }

    /// Takes a line as an answer; `None` where more is to be answered. Whoever went away says no.
    pub(crate) fn answer(
        &mut self,
        line: Option<String>,
        screen: &mut Screen,
    ) -> io::Result<Option<Answer>> {
        let Some((asked, mut given)) = self.now.take() else {
            return Ok(None);
        };
        match asked {
            Asked::Approval { id, tool } => {
                let said = line.as_deref().map(str::trim).map(str::to_lowercase);
                let body = match said.as_deref() {
                    Some("y" | "yes") => json!({ "decision": "allow" }),
                    Some("a" | "always") => json!({ "decision": "allow", "remember": true }),
                    Some("n" | "no") | None => json!({ "decision": "deny" }),
                    Some(_) => {
                        self.now = Some((Asked::Approval { id, tool }, given));
                        self.prompt(screen)?;
                        return Ok(None);
                    }
                };
                Ok(Some(Answer::Approval { id, body }))
            }
            Asked::Input { id, request } => {
                let question = &request["questions"][given.len()];
                let said = line.unwrap_or_default();
                let said = said.trim();
                let chosen = said.parse::<usize>().ok().and_then(|number| {
                    let option = &question["options"][number.checked_sub(1)?];
                    option["label"].as_str()
                });
                let said = chosen.unwrap_or(said);
                given.push(json!({ "id": question["id"], "label": said, "value": said }));
                let count = request["questions"].as_array().map_or(0, Vec::len);
                if given.len() < count {
                    self.now = Some((Asked::Input { id, request }, given));
                    self.prompt(screen)?;
                    return Ok(None);
                }
                let body = json!({ "answers": given });
                Ok(Some(Answer::Input { id, body }))
            }
        }
    }
}
