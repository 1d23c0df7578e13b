//! A minimal HTTP/1.1 server for tests.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;

/// Maximum bytes of a request head.
const MAX_HEAD: usize = 64 * 1024;

type Socket = BufReader<TcpStream>;

/// A server whose requests wait until the test takes them.
#[derive(Debug)]
pub struct FakeServer {
    address: SocketAddr,
    requests: mpsc::UnboundedReceiver<Exchange>,
    accepting: AbortHandle,
}

/// A received request.
#[derive(Debug, Clone)]
pub struct Request {
    /// HTTP method in upper case.
    pub method: String,
    /// The path with its query.
    pub path: String,
    /// The headers, names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// The client's address; requests over one connection have the same.
    pub client_port: u16,
}

impl Request {
    /// Returns a header's value.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        headers
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    }

    /// Returns the body as JSON; `null` if it is invalid.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

/// A complete response of an automatic server.
#[derive(Debug, Clone)]
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    /// The body, written chunk by chunk.
    pub chunks: Vec<String>,
    /// Behaviour after the last chunk.
    pub after: After,
}

/// Behaviour of a server after the last chunk of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum After {
    /// The response is complete.
    #[default]
    End,
    /// The response stays open until the client disconnects.
    Silence,
}

impl FakeServer {
    /// Starts a server whose requests the test answers one by one.
    pub async fn start() -> io::Result<Self> {
        let (sender, requests) = mpsc::unbounded_channel();
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let accepting = tokio::spawn(async move {
            while let Ok(socket) = accept(&listener).await {
                tokio::spawn(hand_over(socket, sender.clone()));
            }
        });
        Ok(Self {
            address,
            requests,
            accepting: accepting.abort_handle(),
        })
    }

    /// Starts a server that answers automatically.
    pub async fn answering(
        answer: impl Fn(&Request) -> Reply + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let (_, requests) = mpsc::unbounded_channel();
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let answer = Arc::new(answer);
        let accepting = tokio::spawn(async move {
            while let Ok(socket) = accept(&listener).await {
                let answer = Arc::clone(&answer);
                tokio::spawn(answer_all(socket, move |request| answer(request)));
            }
        });
        Ok(Self {
            address,
            requests,
            accepting: accepting.abort_handle(),
        })
    }

    /// Returns the server's address as a URL.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Waits for the next request.
    ///
    /// # Panics
    ///
    /// If the server answers automatically, so that no requests are queued.
    pub async fn next(&mut self) -> Exchange {
        match self.requests.recv().await {
            Some(exchange) => exchange,
            None => panic!("the server answers automatically"),
        }
    }
}

impl Drop for FakeServer {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: &TcpListener) -> io::Result<Socket> {
    let (socket, _) = listener.accept().await?;
    // A chunk must not wait for the next one.
    socket.set_nodelay(true)?;
    Ok(BufReader::new(socket))
}

/// Passes each request of a connection to the test, together with the connection until the response is sent.
async fn hand_over(mut socket: Socket, sender: mpsc::UnboundedSender<Exchange>) {
    while let Ok(Some(request)) = read_request(&mut socket).await {
        let (back, returned) = oneshot::channel();
        let exchange = Exchange {
            request,
            socket,
            back,
        };
        if sender.send(exchange).is_err() {
            return;
        }
        match returned.await {
            Ok(again) => socket = again,
            Err(_) => return,
        }
    }
}

async fn answer_all(mut socket: Socket, answer: impl Fn(&Request) -> Reply) {
    while let Ok(Some(request)) = read_request(&mut socket).await {
        let reply = answer(&request);
        if write_reply(socket.get_mut(), &reply).await.is_err() {
            return;
        }
        if reply.after == After::Silence {
            return read_to_end(&mut socket).await;
        }
    }
}

/// Writes chunk by chunk, like providers.
async fn write_reply(socket: &mut TcpStream, reply: &Reply) -> io::Result<()> {
    let head = head(reply.status, &reply.headers, "transfer-encoding: chunked");
    socket.write_all(&head).await?;
    for chunk in &reply.chunks {
        let mut framed = Vec::with_capacity(chunk.len() + 16);
        push_chunk(&mut framed, chunk.as_bytes());
        socket.write_all(&framed).await?;
    }
    match reply.after {
        After::End => socket.write_all(b"0\r\n\r\n").await,
        After::Silence => Ok(()),
    }
}

/// Returns when the client has closed the connection.
async fn read_to_end(socket: &mut Socket) {
    let mut rest = [0; 1024];
    while matches!(socket.read(&mut rest).await, Ok(n) if n > 0) {}
}

/// A request that waits for its answer. Dropping it closes the connection.
#[derive(Debug)]
pub struct Exchange {
    /// The request that waits for a response.
    pub request: Request,
    socket: Socket,
    back: oneshot::Sender<Socket>,
}

impl Exchange {
    /// Sends a complete response.
    pub async fn answer(
        mut self,
        status: u16,
        headers: &[(&str, &str)],
        body: &str,
    ) -> io::Result<()> {
        let length = format!("content-length: {}", body.len());
        let mut bytes = head(status, headers, &length);
        bytes.extend_from_slice(body.as_bytes());
        self.write(&bytes).await?;
        self.give_back();
        Ok(())
    }

    /// Sends the head of an SSE response.
    pub async fn begin_stream(&mut self, headers: &[(&str, &str)]) -> io::Result<()> {
        let kind = [("content-type", "text/event-stream")];
        let headers = [&kind, headers].concat();
        let bytes = head(200, &headers, "transfer-encoding: chunked");
        self.write(&bytes).await
    }

    /// Releases one chunk of the body.
    pub async fn chunk(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut framed = Vec::with_capacity(bytes.len() + 16);
        push_chunk(&mut framed, bytes);
        self.write(&framed).await
    }

    /// Ends the body and leaves the connection open.
    pub async fn finish(mut self) -> io::Result<()> {
        self.write(b"0\r\n\r\n").await?;
        self.give_back();
        Ok(())
    }

    /// Sends a complete stream.
    pub async fn stream(mut self, events: &[String]) -> io::Result<()> {
        self.begin_stream(&[]).await?;
        for event in events {
            self.chunk(event.as_bytes()).await?;
        }
        self.finish().await
    }

    /// Sends raw bytes including the head, and leaves the connection open.
    pub async fn raw(mut self, bytes: &[u8]) -> io::Result<()> {
        self.write(bytes).await?;
        self.give_back();
        Ok(())
    }

    /// Sends a complete stream in one chunk.
    pub async fn stream_at_once(mut self, events: &[String]) -> io::Result<()> {
        let kind = [("content-type", "text/event-stream")];
        let mut bytes = head(200, &kind, "transfer-encoding: chunked");
        for event in events {
            push_chunk(&mut bytes, event.as_bytes());
        }
        bytes.extend_from_slice(b"0\r\n\r\n");
        self.write(&bytes).await?;
        self.give_back();
        Ok(())
    }

    /// Waits until the client has closed the connection.
    pub async fn closed(&mut self) {
        read_to_end(&mut self.socket).await;
    }

    async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.socket.get_mut().write_all(bytes).await?;
        self.socket.get_mut().flush().await
    }

    fn give_back(self) {
        // The test may have dropped the server.
        let _ = self.back.send(self.socket);
    }
}

fn push_chunk(framed: &mut Vec<u8>, bytes: &[u8]) {
    framed.extend_from_slice(format!("{:x}\r\n", bytes.len()).as_bytes());
    framed.extend_from_slice(bytes);
    framed.extend_from_slice(b"\r\n");
}

fn head<N: AsRef<str>, V: AsRef<str>>(status: u16, headers: &[(N, V)], framing: &str) -> Vec<u8> {
    let mut head = format!("HTTP/1.1 {status} Status\r\n{framing}\r\n");
    for (name, value) in headers {
        head.push_str(&format!("{}: {}\r\n", name.as_ref(), value.as_ref()));
    }
    head.push_str("\r\n");
    head.into_bytes()
}

/// Reads a request; `None` when the client has closed the connection.
async fn read_request(socket: &mut Socket) -> io::Result<Option<Request>> {
    let Some(first) = read_line(socket).await? else {
        return Ok(None);
    };
    let mut words = first.split(' ').map(str::to_owned);
    let (method, path) = (words.next(), words.next());
    let mut headers = Vec::new();
    loop {
        let line = read_line(socket).await?;
        let line = line.ok_or(io::ErrorKind::UnexpectedEof)?;
        if line.is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':') {
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
    }
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let length = length.and_then(|(_, value)| value.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    socket.read_exact(&mut body).await?;
    Ok(Some(Request {
        method: method.unwrap_or_default(),
        path: path.unwrap_or_default(),
        headers,
        body,
        client_port: socket.get_ref().peer_addr()?.port(),
    }))
}

async fn read_line(socket: &mut Socket) -> io::Result<Option<String>> {
    let mut line = Vec::new();
    let limit = u64::try_from(MAX_HEAD).unwrap_or(u64::MAX);
    let read = (&mut *socket)
        .take(limit)
        .read_until(b'\n', &mut line)
        .await?;
    if read == 0 {
        return Ok(None);
    }
    let line = String::from_utf8_lossy(&line);
    Ok(Some(line.trim_end_matches(['\r', '\n']).to_owned()))
}
