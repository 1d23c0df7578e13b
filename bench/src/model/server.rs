//! The fake provider: this program, started once more.

use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines, stdin, stdout};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::{Mutex, watch};
use windlass_testkit::{After, Answer, Exchange, FakeServer, Reply, Wire};

use super::{Result, broke, name, wire};

/// The argument that starts this program as the server.
pub const WORD: &str = "model-server";

/// An ordinary answer in chunks of a few characters.
const REPLY: &str = "The result of the calculation is forty-two, which is the product of six and seven, just as you asked me.";
const PIECE: usize = 5;

/// The answers of the server.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum AnswerScript {
    /// Text in one response.
    Plain,
    /// Five calls in one answer, then text.
    FiveTogether,
    /// Five answers with a call each, then text.
    FiveInTurn,
    /// The first half of a text, and the rest after a release.
    Held,
}

impl AnswerScript {
    const ALL: [Self; 4] = [
        Self::Plain,
        Self::FiveTogether,
        Self::FiveInTurn,
        Self::Held,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Plain => "no tool",
            Self::FiveTogether => "five tools at once",
            Self::FiveInTurn => "five tools in turn",
            Self::Held => "held",
        }
    }

    /// The answers to the requests of one turn.
    pub fn answers(self, wire: Wire) -> Vec<Vec<String>> {
        let letters: Vec<char> = REPLY.chars().collect();
        let pieces: Vec<String> = letters.chunks(PIECE).map(|p| p.iter().collect()).collect();
        let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
        let multiply = |answer: Answer, n: usize| {
            answer.with_call(&format!("call_{n}"), "multiply", &["{\"a\":6,", "\"b\":7}"])
        };
        let calls: Vec<Answer> = match self {
            Self::Plain | Self::Held => Vec::new(),
            Self::FiveTogether => vec![(0..5).fold(Answer::default(), multiply)],
            Self::FiveInTurn => (0..5).map(|n| multiply(Answer::default(), n)).collect(),
        };
        let all = calls.into_iter().chain([Answer::text(&pieces)]);
        all.map(|answer| wire.events(&answer)).collect()
    }

    /// Answers requests automatically, one turn after the other.
    pub async fn answering(
        self,
        wire: Wire,
        mut seen: impl FnMut(&[u8]) + Send + 'static,
    ) -> Result<FakeServer> {
        let answers = self.answers(wire);
        let asked = AtomicUsize::new(0);
        let seen = std::sync::Mutex::new(move |body: &[u8]| seen(body));
        let server = FakeServer::answering(move |request| {
            if let Ok(mut seen) = seen.lock() {
                seen(&request.body);
            }
            let n = asked.fetch_add(1, Ordering::Relaxed);
            Reply {
                status: 200,
                headers: vec![("content-type".to_owned(), "text/event-stream".to_owned())],
                chunks: answers[n % answers.len()].clone(),
                after: After::End,
            }
        });
        server.await.map_err(|error| broke("no server", error))
    }
}

/// A handle to the server process, which exits when its standard input closes.
pub struct ModelServer {
    pub url: String,
    lines: Lines<BufReader<ChildStdout>>,
    orders: ChildStdin,
    _process: Child,
}

impl ModelServer {
    pub async fn start(wire: Wire, script: AnswerScript) -> Result<Self> {
        let failed = |error| broke("the fake server does not start", error);
        let program = std::env::current_exe().map_err(failed)?;
        let mut process = Command::new(program)
            .args([WORD, name(wire), script.name()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(failed)?;
        let (Some(orders), Some(out)) = (process.stdin.take(), process.stdout.take()) else {
            return Err(broke("the fake server does not start", "no pipes"));
        };
        let mut server = Self {
            url: String::new(),
            lines: BufReader::new(out).lines(),
            orders,
            _process: process,
        };
        server.url = server.line().await?;
        Ok(server)
    }

    /// Waits for the next line of the server.
    pub async fn line(&mut self) -> Result<String> {
        let line = self.lines.next_line().await;
        let line = line.map_err(|error| broke("the fake server is gone", error))?;
        line.ok_or_else(|| broke("the fake server is gone", "it has ended"))
    }

    /// Releases the second half of pending answers.
    pub async fn release(&mut self) -> Result<()> {
        let written = self.orders.write_all(b"go\n").await;
        written.map_err(|error| broke("the fake server is gone", error))
    }
}

/// Runs the server until standard input closes.
pub fn serve(api: &str, script: &str) -> Result<()> {
    let wire = wire(api)?;
    let script = AnswerScript::ALL
        .into_iter()
        .find(|known| known.name() == script);
    let script = script.ok_or_else(|| broke("unknown script", api))?;
    let tokio = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| broke("no async runtime", error))?;
    tokio.block_on(async {
        let mut orders = BufReader::new(stdin()).lines();
        if script != AnswerScript::Held {
            let server = script.answering(wire, |_| ()).await?;
            tell(&server.url()).await?;
            while let Ok(Some(_)) = orders.next_line().await {}
            return Ok(());
        }
        let started = FakeServer::start().await;
        let mut server = started.map_err(|error| broke("no server", error))?;
        tell(&server.url()).await?;
        let (release, released) = watch::channel(());
        let events: Arc<[String]> = script.answers(wire).remove(0).into();
        let telling = Arc::new(Mutex::new(()));
        loop {
            tokio::select! {
                order = orders.next_line() => match order {
                    Ok(Some(_)) => release.send_replace(()),
                    _ => return Ok(()),
                },
                exchange = server.next() => {
                    let (events, released) = (Arc::clone(&events), released.clone());
                    let telling = Arc::clone(&telling);
                    tokio::spawn(async move { hold(exchange, &events, released, &telling).await });
                }
            }
        }
    })
}

/// Sends one half, and the other after its release unless the client has disconnected.
async fn hold(
    mut exchange: Exchange,
    events: &[String],
    mut released: watch::Receiver<()>,
    telling: &Mutex<()>,
) -> Result<()> {
    released.mark_unchanged();
    let (half, rest) = events.split_at(events.len() / 2);
    let gone = |error| broke("the client is gone", error);
    exchange.begin_stream(&[]).await.map_err(gone)?;
    for event in half {
        exchange.chunk(event.as_bytes()).await.map_err(gone)?;
    }
    in_one_line(telling, "held").await?;
    let is_gone = tokio::select! {
        () = exchange.closed() => true,
        _ = released.changed() => false,
    };
    if is_gone {
        return in_one_line(telling, "closed").await;
    }
    for event in rest {
        exchange.chunk(event.as_bytes()).await.map_err(gone)?;
    }
    exchange.finish().await.map_err(gone)
}

async fn in_one_line(telling: &Mutex<()>, line: &str) -> Result<()> {
    let _alone = telling.lock().await;
    tell(line).await
}

async fn tell(line: &str) -> Result<()> {
    let mut out = stdout();
    let line = format!("{line}\n");
    let written = async {
        out.write_all(line.as_bytes()).await?;
        out.flush().await
    };
    let written: std::io::Result<()> = written.await;
    written.map_err(|error| broke("the reader of the fake server is gone", error))
}
