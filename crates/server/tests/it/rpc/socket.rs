//! A client of the socket.

use std::collections::VecDeque;
use std::net::SocketAddr;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::HeaderValue;
use tokio_tungstenite::tungstenite::http::header::SEC_WEBSOCKET_PROTOCOL;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

use super::LIVENESS;

pub(crate) struct RpcSocket {
    pub(crate) ws: WebSocketStream<TcpStream>,
    next_id: u64,
    /// Frames that are not responses to the last request.
    pub(crate) others: VecDeque<Value>,
}

impl RpcSocket {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        Self::connect_to(address, "/").await
    }

    pub(crate) async fn connect_to(address: SocketAddr, path: &str) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        let url = format!("ws://{address}{path}");
        // The client's own limit must not prevent a message that the server must refuse.
        let config = WebSocketConfig::default().max_write_buffer_size(usize::MAX);
        let (ws, _) = client_async_with_config(url, stream, Some(config))
            .await
            .unwrap();
        Self::over(ws)
    }

    pub(crate) fn over(ws: WebSocketStream<TcpStream>) -> Self {
        Self {
            ws,
            next_id: 0,
            others: VecDeque::new(),
        }
    }

    /// Requests subprotocols, each in its own header, and returns the status and the selected one.
    pub(crate) async fn ask_for(address: SocketAddr, names: &[&[u8]]) -> (u16, Option<String>) {
        let stream = TcpStream::connect(address).await.unwrap();
        let mut request = format!("ws://{address}/").into_client_request().unwrap();
        for name in names {
            let name = HeaderValue::from_bytes(name).unwrap();
            request.headers_mut().append(SEC_WEBSOCKET_PROTOCOL, name);
        }
        let answer = match client_async_with_config(request, stream, None).await {
            Ok((_, answer)) => answer.map(drop),
            Err(Error::Http(answer)) => answer.map(drop),
            Err(error) => panic!("{error}"),
        };
        let chosen = answer.headers().get(SEC_WEBSOCKET_PROTOCOL);
        let chosen = chosen.map(|name| name.to_str().unwrap().to_owned());
        (answer.status().as_u16(), chosen)
    }

    pub(crate) async fn send(&mut self, text: impl Into<String>) {
        self.ws.send(Message::text(text.into())).await.unwrap();
    }

    /// Sends a request and does not wait.
    pub(crate) async fn post(&mut self, method: &str, params: Value) -> u64 {
        self.next_id += 1;
        let id = self.next_id;
        self.send(
            json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string(),
        )
        .await;
        id
    }

    /// Returns the next frame that is JSON; `Err` with code and reason when the connection was closed.
    pub(crate) async fn frame(&mut self) -> Result<Value, (u16, String)> {
        loop {
            let message = timeout(LIVENESS, self.ws.next()).await.unwrap();
            match message {
                Some(Ok(Message::Text(text))) => return Ok(serde_json::from_str(&text).unwrap()),
                Some(Ok(Message::Close(Some(close)))) => {
                    return Err((close.code.into(), close.reason.to_string()));
                }
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                Some(Err(Error::ConnectionClosed)) | None => return Err((0, String::new())),
                other => panic!("{other:?}"),
            }
        }
    }

    /// Waits for the response to a request; earlier frames are buffered.
    pub(crate) async fn answer(&mut self, id: u64) -> Value {
        if let Some(index) = self.others.iter().position(|frame| frame["id"] == id) {
            return self.others.remove(index).unwrap();
        }
        loop {
            let frame = self.frame().await.unwrap();
            assert_eq!(frame["jsonrpc"], "2.0");
            if frame["id"] == id && frame.get("method").is_none() {
                return frame;
            }
            self.others.push_back(frame);
        }
    }

    /// Calls and returns the whole answer.
    pub(crate) async fn call(&mut self, method: &str, params: Value) -> Value {
        let id = self.post(method, params).await;
        self.answer(id).await
    }

    pub(crate) async fn ok(&mut self, method: &str, params: Value) -> Value {
        let answer = self.call(method, params).await;
        assert!(answer.get("error").is_none(), "{method}: {answer}");
        answer["result"].clone()
    }

    /// Calls, expects an error, and returns its code, its reason and its text.
    pub(crate) async fn refused(&mut self, method: &str, params: Value) -> (i64, String, String) {
        let answer = self.call(method, params).await;
        let error = &answer["error"];
        assert!(error.is_object(), "{method}: {answer}");
        (
            error["code"].as_i64().unwrap(),
            error["data"]["reason"].as_str().unwrap().to_owned(),
            error["message"].as_str().unwrap().to_owned(),
        )
    }

    pub(crate) async fn start(&mut self, agent_id: &str) -> String {
        let params = json!({"agent_id": agent_id, "intent": "do it"});
        let started = self.ok("runs.start", params).await;
        started["run_id"].as_str().unwrap().to_owned()
    }

    pub(crate) async fn complete(&mut self, run_id: &str) -> Value {
        let params = json!({"run_id": run_id, "outcome": {"status": "success"}});
        self.ok("runs.complete", params).await
    }

    /// Waits for the next `runs.trace.event`.
    pub(crate) async fn event(&mut self) -> Value {
        loop {
            let frame = match self.others.pop_front() {
                Some(frame) => frame,
                None => self.frame().await.unwrap(),
            };
            if frame["method"] == "runs.trace.event" {
                return frame["params"].clone();
            }
        }
    }

    /// Follows a run to its end, and returns the last record.
    pub(crate) async fn ended(&mut self, run_id: &str) -> Value {
        let snapshot = self.ok("runs.subscribe", json!({"run_id": run_id})).await;
        assert!(snapshot.get("not_found").is_none(), "{snapshot}");
        if snapshot["status"] == "in_progress" {
            while self.event().await["status"] == "in_progress" {}
        }
        let trace = self.ok("runs.get_trace", json!({"run_id": run_id})).await;
        trace["records"].as_array().unwrap().last().unwrap().clone()
    }

    /// Closes gracefully and waits for the close frame.
    pub(crate) async fn close(mut self) {
        self.ws.close(None).await.unwrap();
        while let Some(message) = timeout(LIVENESS, self.ws.next()).await.unwrap() {
            if message.is_err() {
                break;
            }
        }
    }

    /// Disconnects without a close frame.
    pub(crate) fn vanish(self) {
        drop(self.ws.into_inner());
    }
}
