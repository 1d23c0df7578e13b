//! Requests with an idempotency key. The format is the same for every transport, so a client may repeat a request over another transport.

use crate::tokens::ApiCaller;

/// An idempotency key and the digest of the request that has it.
#[derive(Debug)]
pub struct KeyedRequest {
    /// The key within the requests of its token.
    pub key: String,
    /// Identifies the content of the request.
    pub digest: String,
}

impl KeyedRequest {
    /// Creates it from the key that a client sent, the target of the request (path and query string) and its body.
    #[must_use]
    pub fn new(caller: Option<&ApiCaller>, key: &str, target: &str, body: &[u8]) -> Self {
        let mut digest = blake3::Hasher::new();
        digest.update(target.as_bytes());
        digest.update(&[0]);
        digest.update(body);
        let token = caller.and_then(|caller| caller.token_id.as_ref());
        Self {
            key: token.map_or_else(|| key.to_owned(), |token| format!("{token}/{key}")),
            digest: digest.finalize().to_hex().to_string(),
        }
    }

    /// Identifies the request in records, however often it is repeated.
    #[must_use]
    pub fn repeatable(&self) -> String {
        let text = format!("{}\n{}", self.key, self.digest);
        blake3::hash(text.as_bytes()).to_hex().to_string()
    }
}
