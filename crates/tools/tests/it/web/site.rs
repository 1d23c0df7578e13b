//! A server with scripted answers, byte by byte.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// The answer of a server for a path.
#[derive(Clone)]
pub(crate) enum Response {
    /// All bytes at once.
    Bytes(Vec<u8>),
    /// The first bytes, and then a piece repeatedly until the client disconnects.
    Endless(Vec<u8>, Vec<u8>, Duration),
}

impl Response {
    pub(crate) fn page(kind: &str, body: &[u8]) -> Self {
        Self::with(&[("content-type", kind)], body)
    }

    pub(crate) fn with(headers: &[(&str, &str)], body: &[u8]) -> Self {
        let mut answer = b"HTTP/1.1 200 OK\r\nconnection: close\r\n".to_vec();
        for (name, value) in headers {
            answer.extend(format!("{name}: {value}\r\n").bytes());
        }
        answer.extend(format!("content-length: {}\r\n\r\n", body.len()).bytes());
        answer.extend(body);
        Self::Bytes(answer)
    }

    pub(crate) fn redirect(location: &str) -> Self {
        let answer = format!(
            "HTTP/1.1 302 Found\r\nconnection: close\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n"
        );
        Self::Bytes(answer.into())
    }
}

/// A server on a local address.
pub(crate) struct Site {
    pub(crate) port: u16,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Site {
    pub(crate) async fn on(address: &str, responses: &[(&str, Response)]) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let responses: HashMap<String, Response> = responses
            .iter()
            .map(|(path, response)| ((*path).to_owned(), response.clone()))
            .collect();
        let (responses, requests) = (Arc::new(responses), Arc::<Mutex<Vec<String>>>::default());
        let log = Arc::clone(&requests);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer(stream, Arc::clone(&responses), Arc::clone(&log)));
            }
        });
        Self { port, requests }
    }

    /// Returns the complete requests received.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

/// Answers one request; an error means that the client disconnected.
async fn answer(
    mut stream: TcpStream,
    responses: Arc<HashMap<String, Response>>,
    requests: Arc<Mutex<Vec<String>>>,
) -> std::io::Result<()> {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => request.push(byte),
            Err(_) => break,
        }
    }
    let request = String::from_utf8(request).unwrap();
    let path = request.split(' ').nth(1).unwrap_or_default().to_owned();
    requests.lock().unwrap().push(request);
    match responses.get(&path) {
        Some(Response::Bytes(bytes)) => stream.write_all(bytes).await,
        Some(Response::Endless(bytes, piece, pause)) => {
            stream.write_all(bytes).await?;
            loop {
                stream.write_all(piece).await?;
                tokio::time::sleep(*pause).await;
            }
        }
        None => {
            let none = b"HTTP/1.1 404 Not Found\r\ncontent-type: text/plain\r\nconnection: close\r\ncontent-length: 5\r\n\r\nnone\n";
            stream.write_all(none).await
        }
    }
}
