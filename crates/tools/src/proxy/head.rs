//! Parses the head of a request to the proxy. Parsing is strict: a request that two parsers could interpret differently is refused.

use url::Url;

use crate::web::read_address;

/// Maximum number of headers of a request.
const MAX_HEADERS: usize = 128;
/// Maximum length of a host name.
const MAX_HOST: usize = 255;
/// Headers that belong to a connection rather than to a request; so do all headers with the prefix `proxy-`.
const CONNECTION_HEADERS: [&str; 7] = [
    "connection",
    "content-length",
    "host",
    "keep-alive",
    "te",
    "trailer",
    "upgrade",
];

/// A request of a command.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ProxyRequest {
    /// The target, as a URL for the rules.
    pub(super) url: Url,
    pub(super) kind: RequestKind,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum RequestKind {
    /// A tunnel, whose content the proxy does not inspect.
    Tunnel,
    /// One request: this head is sent first, followed by `body` bytes.
    Request { head: Vec<u8>, body: u64 },
}

/// Why a request is refused: a status, and the text that the command receives.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ProxyRefusal {
    pub(super) status: u16,
    pub(super) reason: String,
}

impl ProxyRefusal {
    pub(super) fn new(status: u16, reason: impl Into<String>) -> Self {
        Self {
            status,
            reason: reason.into(),
        }
    }

    fn bad(reason: &str) -> Self {
        Self::new(400, format!("the request cannot be read: {reason}"))
    }
}

/// Parses the head of a request, without the empty line after it.
pub(super) fn parse(head: &[u8]) -> Result<ProxyRequest, ProxyRefusal> {
    let text = std::str::from_utf8(head).map_err(|_| ProxyRefusal::bad("it is not text"))?;
    let mut lines = text.split("\r\n");
    if lines.clone().any(|line| line.contains(['\r', '\n', '\0'])) {
        return Err(ProxyRefusal::bad("a line ends in an unusual way"));
    }
    let first: Vec<_> = lines.next().unwrap_or_default().split(' ').collect();
    let [method, target, "HTTP/1.1" | "HTTP/1.0"] = first[..] else {
        return Err(ProxyRefusal::bad("its first line is not one of HTTP/1"));
    };
    if !is_token(method) || method.len() > 32 {
        return Err(ProxyRefusal::bad("its method is invalid"));
    }
    let headers = lines.map(header).collect::<Result<Vec<_>, _>>()?;
    if headers.len() > MAX_HEADERS {
        return Err(ProxyRefusal::bad("it has too many headers"));
    }
    let all = |name: &str| {
        let found = headers.iter().filter(|(header, _)| header == name);
        found.map(|(_, value)| *value).collect::<Vec<_>>()
    };
    if all("host").len() > 1 {
        return Err(ProxyRefusal::bad("it names more than one host"));
    }
    if !all("transfer-encoding").is_empty() {
        return Err(ProxyRefusal::new(
            411,
            "a body needs a Content-Length; chunked bodies are not forwarded",
        ));
    }
    let body = match all("content-length")[..] {
        [] => 0,
        [length] => length_of(length)?,
        _ => return Err(ProxyRefusal::bad("it has more than one length")),
    };
    if method == "CONNECT" {
        let url = authority(target)?;
        return match body {
            0 => Ok(ProxyRequest {
                url,
                kind: RequestKind::Tunnel,
            }),
            _ => Err(ProxyRefusal::bad("a CONNECT has no body")),
        };
    }
    let url = read_address(target).map_err(|error| ProxyRefusal::bad(&error))?;
    if url.host_str().is_none_or(|host| host.len() > MAX_HOST) {
        return Err(ProxyRefusal::bad("its host is too long"));
    }
    if url.scheme() != "http" {
        return Err(ProxyRefusal::bad("https pages are requested with CONNECT"));
    }
    let head = rewrite(method, &url, &headers, body);
    Ok(ProxyRequest {
        url,
        kind: RequestKind::Request { head, body },
    })
}

/// Parses a header; its name is converted to lower case.
fn header(line: &str) -> Result<(String, &str), ProxyRefusal> {
    let bad = || ProxyRefusal::bad("one of its headers is invalid");
    // Some parsers treat a line that begins with a blank as a continuation of the previous one.
    let (name, value) = line.split_once(':').ok_or_else(bad)?;
    let value = value.trim_matches([' ', '\t']);
    let is_plain = |letter: char| letter == '\t' || !letter.is_control();
    if !is_token(name) || !value.chars().all(is_plain) {
        return Err(bad());
    }
    Ok((name.to_ascii_lowercase(), value))
}

fn is_token(word: &str) -> bool {
    let is_token_byte =
        |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !word.is_empty() && word.bytes().all(is_token_byte)
}

fn length_of(text: &str) -> Result<u64, ProxyRefusal> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = is_number.then(|| text.parse().ok()).flatten();
    number.ok_or_else(|| ProxyRefusal::bad("its length is not a number"))
}

/// Parses the target of a tunnel: a host and a port, and nothing else.
fn authority(target: &str) -> Result<Url, ProxyRefusal> {
    let bad = || ProxyRefusal::bad("CONNECT requires a host and a port, such as `example.com:443`");
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte);
    let (host, port) = target.rsplit_once(':').ok_or_else(bad)?;
    let is_port = (1..=5).contains(&port.len()) && port.bytes().all(|byte| byte.is_ascii_digit());
    if host.is_empty() || host.len() > MAX_HOST || !target.bytes().all(is_plain) || !is_port {
        return Err(bad());
    }
    read_address(&format!("https://{target}/")).map_err(|_| bad())
}

/// Builds the request for the target server. The proxy sets host, length and `Connection` itself.
fn rewrite(method: &str, url: &Url, headers: &[(String, &str)], body: u64) -> Vec<u8> {
    let dropped: Vec<_> = headers
        .iter()
        .filter(|(name, _)| name == "connection")
        .flat_map(|(_, names)| names.split(','))
        .map(|name| name.trim().to_ascii_lowercase())
        .collect();
    let path = &url[url::Position::BeforePath..];
    let host = &url[url::Position::BeforeHost..url::Position::AfterPort];
    let mut text = format!("{method} {path} HTTP/1.1\r\nhost: {host}\r\n");
    for (name, value) in headers {
        let is_ours = CONNECTION_HEADERS.contains(&name.as_str()) || name.starts_with("proxy-");
        if !is_ours && !dropped.contains(name) {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
    }
    let has_length = headers.iter().any(|(name, _)| name == "content-length");
    if has_length {
        text.push_str(&format!("content-length: {body}\r\n"));
    }
    text.push_str("connection: close\r\n\r\n");
    text.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(head: &str) -> Result<ProxyRequest, u16> {
        parse(head.as_bytes()).map_err(|refusal| refusal.status)
    }

    #[test]
    fn connect_target_is_a_host_and_a_port() {
        for (target, url) in [
            ("a.example:443", "https://a.example/"),
            ("A.Example:8443", "https://a.example:8443/"),
            ("[::1]:443", "https://[::1]/"),
            ("2130706433:443", "https://127.0.0.1/"),
        ] {
            let request = status(&format!("CONNECT {target} HTTP/1.1\r\nHost: x")).unwrap();
            assert_eq!(
                (request.url.as_str(), request.kind),
                (url, RequestKind::Tunnel)
            );
        }
        for target in [
            "a.example",
            "a.example:",
            ":443",
            "a.example:443/x",
            "a@b.example:443",
            "a.example:443#",
            "https://a.example:443",
            "a.example:99999",
            "a.example:+443",
            "a\\b:443",
            "::1:443",
        ] {
            let refusal = status(&format!("CONNECT {target} HTTP/1.1"));
            assert_eq!(refusal.unwrap_err(), 400, "{target}");
        }
    }

    #[test]
    fn request_is_rewritten() {
        let request = status(
            "POST http://a.example:8080/p?q=1#f HTTP/1.1\r\nHost: other.example\r\nX-Drop: 1\r\nAccept: */*\r\n\
             Connection: X-Drop, content-length\r\nProxy-Authorization: Basic eA==\r\nContent-Length: 3",
        );
        let RequestKind::Request { head, body } = request.unwrap().kind else {
            panic!("no request");
        };
        let head = String::from_utf8(head).unwrap();
        let expected = "POST /p?q=1 HTTP/1.1\r\nhost: a.example:8080\r\naccept: */*\r\ncontent-length: 3\r\nconnection: close\r\n\r\n";
        assert_eq!((head.as_str(), body), (expected, 3));
    }

    #[test]
    fn ambiguous_request_is_refused() {
        for (head, expected) in [
            ("GET http://a.example/ HTTP/1.1\r\nHost: a\r\nHost: b", 400),
            ("GET http://a.example/ HTTP/1.1\r\nX: a\nHost: b", 400),
            ("GET http://a.example/ HTTP/1.1\r\nX: a\rHost: b", 400),
            ("GET http://a.example/ HTTP/1.1\r\nX: a\0b", 400),
            ("GET http://a.example/ HTTP/1.1\r\nX: a\r\n folded: b", 400),
            ("GET http://a.example/ HTTP/1.1\r\nX : a", 400),
            ("GET http://a.example/ HTTP/1.1\r\nno header", 400),
            ("GET http://a.example/ HTTP/1.1\r\n: a", 400),
            ("GET http://a.example/ HTTP/2", 400),
            ("GET  http://a.example/ HTTP/1.1", 400),
            ("GET http://a.example/ x HTTP/1.1", 400),
            ("GET /relative HTTP/1.1\r\nHost: a.example", 400),
            ("GET https://a.example/ HTTP/1.1", 400),
            ("GET http://user:pw@a.example/ HTTP/1.1", 400),
            ("GET file:///etc/passwd HTTP/1.1", 400),
            ("G(T http://a.example/ HTTP/1.1", 400),
            (
                "POST http://a.example/ HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2",
                400,
            ),
            ("POST http://a.example/ HTTP/1.1\r\nContent-Length: +1", 400),
            (
                "POST http://a.example/ HTTP/1.1\r\nContent-Length: 1, 1",
                400,
            ),
            (
                "POST http://a.example/ HTTP/1.1\r\nTransfer-Encoding: chunked",
                411,
            ),
            (
                "POST http://a.example/ HTTP/1.1\r\nContent-Length: 4\r\nTransfer-Encoding: chunked",
                411,
            ),
            ("CONNECT a.example:443 HTTP/1.1\r\nContent-Length: 4", 400),
            ("", 400),
        ] {
            assert_eq!(status(head).unwrap_err(), expected, "{head:?}");
        }
        let many = "X: a\r\n".repeat(MAX_HEADERS + 1);
        let many = format!("GET http://a.example/ HTTP/1.1\r\n{}", many.trim_end());
        assert_eq!(status(&many).unwrap_err(), 400);
    }
}
