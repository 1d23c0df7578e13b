//! Requests that the proxy of a command forwards or refuses.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use windlass_core::network_access::NetworkAccessList;
use windlass_core::typed_id::SessionId;
use windlass_tools::{
    Launcher, OpenHosts, ProxyLimits, RunningProxy, ShellProxy, WebEgress, WebRules,
};

use super::FakeResolver;
use super::site::{Response, Site};

/// Timeout of conditions that should become true soon.
const SOON: Duration = Duration::from_secs(60);

/// The operator's settings for commands: open hosts, and the rules of the web.
pub(super) struct ProxySettings<'a> {
    pub(super) hosts: &'a [&'a str],
    pub(super) allow: &'a [&'a str],
    pub(super) deny: &'a [&'a str],
    pub(super) names: Arc<FakeResolver>,
}

impl ProxySettings<'_> {
    pub(super) fn proxy(&self, launcher: Launcher) -> ShellProxy {
        let rules = WebRules::parse(self.allow, self.deny).unwrap();
        let egress = WebEgress::new(Arc::new(rules)).with_resolver(Arc::clone(&self.names) as _);
        ShellProxy::new(egress, OpenHosts::parse(self.hosts).unwrap(), launcher)
    }
}

/// A proxy whose clients are not in a sandbox.
struct UnsandboxedProxy {
    at: SocketAddr,
    running: RunningProxy,
}

impl UnsandboxedProxy {
    fn new(settings: &ProxySettings<'_>) -> Self {
        Self::with(settings, ProxyLimits::default(), None)
    }

    fn with(
        settings: &ProxySettings<'_>,
        limits: ProxyLimits,
        list: Option<NetworkAccessList>,
    ) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let at = listener.local_addr().unwrap();
        let unused = Launcher {
            program: "/nowhere".into(),
            words: Vec::new(),
        };
        let running = settings
            .proxy(unused)
            .with_limits(limits)
            .serve(None, listener, list);
        Self { at, running }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.at).await.unwrap()
    }

    /// Sends a text and returns the complete answer.
    async fn ask(&self, text: &str) -> String {
        let mut stream = self.connect().await;
        stream.write_all(text.as_bytes()).await.unwrap();
        rest(&mut stream).await
    }

    async fn tunnel(&self, to: &str) -> String {
        self.ask(&format!("CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n\r\n"))
            .await
    }

    async fn get(&self, url: &str) -> String {
        self.ask(&format!("GET {url} HTTP/1.1\r\n\r\n")).await
    }
}

/// Reads to the end, even if the other side resets the connection.
async fn rest(stream: &mut TcpStream) -> String {
    let mut read = Vec::new();
    let all = tokio::time::timeout(SOON, stream.read_to_end(&mut read));
    let _ = all.await.unwrap();
    String::from_utf8_lossy(&read).into_owned()
}

fn page(body: &str) -> Response {
    Response::page("text/plain", body.as_bytes())
}

async fn site() -> Site {
    Site::on("127.0.0.1:0", &[("/", page("open"))]).await
}

const HERE: &[&[&str]] = &[&["127.0.0.1"]];

#[tokio::test]
async fn only_open_hosts_are_reachable() {
    let site = site().await;
    let port = site.port;
    let named = format!("site.example:{port}");
    let settings = ProxySettings {
        hosts: &[&named],
        allow: &["127.0.0.1/32"],
        deny: &[],
        names: FakeResolver::new(&[("site.example", HERE), ("other.example", HERE)]),
    };
    let open = UnsandboxedProxy::new(&settings);
    let got = open.get(&format!("http://{named}/")).await;
    assert!(
        got.starts_with("HTTP/1.1 200") && got.ends_with("open"),
        "{got}"
    );
    let mut tunnel = open.connect().await;
    let connect =
        format!("CONNECT {named} HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\nhost: {named}\r\n\r\n");
    tunnel.write_all(connect.as_bytes()).await.unwrap();
    let got = rest(&mut tunnel).await;
    assert!(
        got.starts_with("HTTP/1.1 200 Connection established\r\n\r\nHTTP/1.1 200 OK"),
        "{got}"
    );
    assert_eq!(open.running.refusals(), None);

    for got in [
        open.get(&format!("http://other.example:{port}/")).await,
        open.tunnel(&format!("other.example:{port}")).await,
        open.tunnel(&format!("127.0.0.1:{port}")).await,
        open.tunnel(&format!("site.example.other.example:{port}"))
            .await,
    ] {
        assert!(got.starts_with("HTTP/1.1 403 Forbidden"), "{got}");
        assert!(got.contains("the hosts that the operator opens"), "{got}");
    }
    let error = open.running.refusals().unwrap();
    assert!(
        error.contains(&format!("other.example:{port} is not open")),
        "{error}"
    );
    assert_eq!(site.requests().len(), 2);
    assert_eq!(
        *settings.names.requests.lock().unwrap(),
        ["site.example"; 2]
    );
}

#[tokio::test]
async fn tunnel_to_another_port_is_refused() {
    let settings = ProxySettings {
        hosts: &["site.example"],
        allow: &["127.0.0.0/8"],
        deny: &[],
        names: FakeResolver::new(&[("site.example", HERE)]),
    };
    let open = UnsandboxedProxy::new(&settings);
    for port in [22, 25, 6379, 8080, 65535, 0] {
        let got = open.tunnel(&format!("site.example:{port}")).await;
        assert!(got.starts_with("HTTP/1.1 403"), "{port}: {got}");
        let got = open.get(&format!("http://site.example:{port}/")).await;
        assert!(got.starts_with("HTTP/1.1 403"), "{port}: {got}");
    }
    assert_eq!(*settings.names.requests.lock().unwrap(), [""; 0]);
}

#[tokio::test]
async fn open_name_with_a_private_address_is_refused() {
    for (answer, is_spelt) in [
        (&["10.0.0.1"][..], false),
        (&["127.0.0.1"], false),
        (&["169.254.169.254"], false),
        (&["100.64.0.1"], false),
        (&["::1"], false),
        (&["fe80::1"], false),
        (&["fd00::1"], false),
        (&["::ffff:10.0.0.1"], false),
        (&["64:ff9b::a00:1"], false),
        (&["93.184.216.34", "10.0.0.1"], false),
        (&["127.0.0.1"], true),
    ] {
        let settings = ProxySettings {
            hosts: &["inner.example", "127.0.0.1", "[::1]"],
            allow: &[],
            deny: &[],
            names: FakeResolver::new(&[("inner.example", &[answer])]),
        };
        let open = UnsandboxedProxy::new(&settings);
        let hosts = if !is_spelt {
            vec!["inner.example"]
        } else {
            vec!["127.0.0.1", "2130706433", "0x7f.1", "[::1]"]
        };
        for host in hosts {
            for got in [
                open.tunnel(&format!("{host}:443")).await,
                open.get(&format!("http://{host}/")).await,
            ] {
                assert!(got.starts_with("HTTP/1.1 403"), "{host} {answer:?}: {got}");
                assert!(got.contains("not on the public internet"), "{host}: {got}");
            }
        }
    }
}

#[tokio::test]
async fn redirect_to_a_private_address_is_refused() {
    let to = "http://169.254.169.254/latest/meta-data/";
    let site = Site::on("127.0.0.1:0", &[("/", Response::redirect(to))]).await;
    let named = format!("site.example:{}", site.port);
    let settings = ProxySettings {
        hosts: &[&named, "169.254.169.254"],
        allow: &["127.0.0.1/32"],
        deny: &[],
        names: FakeResolver::new(&[("site.example", HERE)]),
    };
    let open = UnsandboxedProxy::new(&settings);
    let got = open.get(&format!("http://{named}/")).await;
    assert!(got.contains(&format!("location: {to}")), "{got}");
    let got = open.get(to).await;
    assert!(got.starts_with("HTTP/1.1 403"), "{got}");
    assert!(got.contains("not on the public internet"), "{got}");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn name_is_resolved_once_per_connection() {
    let outer = site().await;
    let port = outer.port;
    let inner = Site::on(&format!("127.0.0.2:{port}"), &[("/", page("secret"))]).await;
    let named = format!("rebind.example:{port}");
    let settings = ProxySettings {
        hosts: &[&named],
        allow: &["127.0.0.1/32"],
        deny: &[],
        names: FakeResolver::new(&[("rebind.example", &[&["127.0.0.1"], &["127.0.0.2"]])]),
    };
    let open = UnsandboxedProxy::new(&settings);
    let got = open.get(&format!("http://{named}/")).await;
    assert!(got.ends_with("open"), "{got}");
    assert_eq!(settings.names.requests.lock().unwrap().len(), 1);
    let got = open.tunnel(&named).await;
    assert!(got.starts_with("HTTP/1.1 403"), "{got}");
    assert_eq!((outer.requests().len(), inner.requests().len()), (1, 0));
}

#[tokio::test]
async fn denied_hosts_stay_closed() {
    let site = site().await;
    let named = format!("site.example:{}", site.port);
    let names = || FakeResolver::new(&[("site.example", HERE)]);
    let forbidden = "rules of the operator or of the session forbid it";
    let private = "not on the public internet";
    let only = NetworkAccessList::allow_only;
    for (deny, list, why) in [
        (&["site.example"][..], None, forbidden),
        (&["127.0.0.1"], None, private),
        (&[], Some(only(["other.example"])), forbidden),
        (
            &[],
            Some(NetworkAccessList::block(["site.example"])),
            forbidden,
        ),
        (&[], Some(NetworkAccessList::deny_all()), forbidden),
    ] {
        let settings = ProxySettings {
            hosts: &[&named],
            allow: &["127.0.0.1/32"],
            deny,
            names: names(),
        };
        let open = UnsandboxedProxy::with(&settings, ProxyLimits::default(), list.clone());
        for got in [
            open.tunnel(&named).await,
            open.get(&format!("http://{named}/")).await,
        ] {
            assert!(got.starts_with("HTTP/1.1 403"), "{deny:?} {list:?}: {got}");
            assert!(got.contains(why), "{got}");
        }
    }
    assert_eq!(site.requests(), [""; 0]);
}

#[tokio::test]
async fn tunnel_does_not_bypass_path_rules() {
    let site = site().await;
    let named = format!("site.example:{}", site.port);
    for part in [
        format!("http://{named}/admin"),
        format!("https://{named}/admin"),
        format!("http://127.0.0.1:{}/admin", site.port),
    ] {
        let of_session = Some(NetworkAccessList {
            allowed: vec!["*".to_owned()],
            blocked: vec![part.clone()],
        });
        for (deny, list) in [(vec![part.as_str()], None), (Vec::new(), of_session)] {
            let settings = ProxySettings {
                hosts: &[&named],
                allow: &["127.0.0.1/32"],
                deny: &deny,
                names: FakeResolver::new(&[("site.example", HERE)]),
            };
            let open = UnsandboxedProxy::with(&settings, ProxyLimits::default(), list);
            let got = open.tunnel(&named).await;
            assert!(got.starts_with("HTTP/1.1 403"), "{part}: {got}");
            // A request that is not encrypted is judged by its content.
            let got = open.get(&format!("http://{named}/")).await;
            assert!(got.ends_with("open"), "{part}: {got}");
        }
    }
    assert_eq!(site.requests().len(), 6);
}

#[tokio::test]
async fn pipelined_request_is_not_forwarded() {
    let site = site().await;
    let named = format!("site.example:{}", site.port);
    let settings = ProxySettings {
        hosts: &[&named],
        allow: &["127.0.0.1/32"],
        deny: &[],
        names: FakeResolver::new(&[("site.example", HERE)]),
    };
    let open = UnsandboxedProxy::new(&settings);
    let hidden = "GET /hidden HTTP/1.1\r\nHost: inner.example\r\n\r\n";
    let smuggled = format!(
        "GET http://{named}/ HTTP/1.1\r\nHost: inner.example\r\nConnection: keep-alive, host\r\nProxy-Authorization: x\r\n\r\n{hidden}"
    );
    let got = open.ask(&smuggled).await;
    assert!(got.ends_with("open"), "{got}");
    let requests = site.requests().concat();
    assert!(requests.contains(&format!("host: {named}")), "{requests}");
    for absent in [
        "inner.example",
        "hidden",
        "proxy-authorization",
        "keep-alive",
    ] {
        assert!(
            !requests.to_lowercase().contains(absent),
            "{absent}: {requests}"
        );
    }
    for (head, status) in [
        ("Host: a\r\nHost: b", "400"),
        ("X: a\nHost: inner.example", "400"),
        ("Transfer-Encoding: chunked\r\nContent-Length: 5", "411"),
        ("Content-Length: 5\r\nContent-Length: 6", "400"),
    ] {
        let got = open
            .ask(&format!(
                "POST http://{named}/ HTTP/1.1\r\n{head}\r\n\r\n{hidden}"
            ))
            .await;
        assert!(
            got.starts_with(&format!("HTTP/1.1 {status}")),
            "{head:?}: {got}"
        );
    }
    assert_eq!(site.requests().len(), 1);
}

#[tokio::test]
async fn number_of_connections_is_limited() {
    let settings = ProxySettings {
        hosts: &[],
        allow: &[],
        deny: &[],
        names: FakeResolver::new(&[]),
    };
    let limits = ProxyLimits {
        open_connections: 2,
        connections: 4,
        ..ProxyLimits::default()
    };
    let open = UnsandboxedProxy::with(&settings, limits, None);
    let mut waiting = vec![open.connect().await, open.connect().await];
    for _ in 0..2 {
        let got = rest(&mut open.connect().await).await;
        assert!(got.starts_with("HTTP/1.1 503"), "{got}");
    }
    // The listener closes now or soon; a connection that it has not accepted yet ends.
    while let Ok(mut stream) = TcpStream::connect(open.at).await {
        assert_eq!(rest(&mut stream).await, "");
    }
    // Accepted connections stay open.
    for stream in &mut waiting {
        stream
            .write_all(b"CONNECT a.example:443 HTTP/1.1\r\n\r\n")
            .await
            .unwrap();
        assert!(rest(stream).await.starts_with("HTTP/1.1 403"));
    }
    let error = open.running.refusals().unwrap();
    assert!(error.contains("more than 2 connections at once"), "{error}");
    assert!(
        error.contains("more than 4 connections of one command"),
        "{error}"
    );
}

#[tokio::test]
async fn calls_share_the_limit_of_open_connections() {
    let settings = ProxySettings {
        hosts: &[],
        allow: &[],
        deny: &[],
        names: FakeResolver::new(&[]),
    };
    let unused = Launcher {
        program: "/nowhere".into(),
        words: Vec::new(),
    };
    let proxy = settings.proxy(unused).with_open_connections(2);
    let serve = |proxy: ShellProxy| {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let at = listener.local_addr().unwrap();
        let running = proxy.serve(None, listener, None);
        UnsandboxedProxy { at, running }
    };
    let (one, other) = (serve(proxy.clone()), serve(proxy));
    let mut waiting = vec![one.connect().await, one.connect().await];
    // The refusal shows that the earlier connections were accepted.
    assert!(
        rest(&mut one.connect().await)
            .await
            .starts_with("HTTP/1.1 503")
    );
    let got = rest(&mut other.connect().await).await;
    assert!(got.starts_with("HTTP/1.1 503"), "{got}");
    let error = other.running.refusals().unwrap();
    assert!(error.contains("commands of this host together"), "{error}");
    for stream in &mut waiting {
        stream.write_all(b"nonsense\r\n\r\n").await.unwrap();
        assert!(rest(stream).await.starts_with("HTTP/1.1 400"));
    }
    drop(waiting);
    // The slots of ended connections become free now or soon.
    let mut got = String::new();
    for _ in 0..600 {
        got = other.tunnel("a.example:443").await;
        if got.starts_with("HTTP/1.1 403") {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{got}");
}

#[tokio::test]
async fn one_session_cannot_use_all_connections() {
    let settings = ProxySettings {
        hosts: &[],
        allow: &[],
        deny: &[],
        names: FakeResolver::new(&[]),
    };
    let unused = Launcher {
        program: "/nowhere".into(),
        words: Vec::new(),
    };
    let proxy = settings.proxy(unused).with_open_connections(8);
    let serve = |session_id: SessionId| {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let at = listener.local_addr().unwrap();
        let running = proxy.serve(Some(session_id), listener, None);
        UnsandboxedProxy { at, running }
    };
    let greedy = SessionId::new();
    // Two calls of one session share a quarter of the slots.
    let (one, two, other) = (serve(greedy), serve(greedy), serve(SessionId::new()));
    let first = one.connect().await;
    let second = one.connect().await;
    let got = rest(&mut one.connect().await).await;
    assert!(got.starts_with("HTTP/1.1 503"), "{got}");
    let got = rest(&mut two.connect().await).await;
    assert!(got.starts_with("HTTP/1.1 503"), "{got}");
    let error = two.running.refusals().unwrap();
    assert!(error.contains("more than 2 connections"), "{error}");
    assert!(error.contains("of this conversation together"), "{error}");
    // Other sessions are not affected.
    let got = other.tunnel("a.example:443").await;
    assert!(got.starts_with("HTTP/1.1 403"), "{got}");
    drop((first, second));
}

#[tokio::test]
async fn endless_head_and_body_are_cut_off() {
    let endless = Response::Endless(
        b"HTTP/1.1 200 OK\r\n\r\n".to_vec(),
        vec![b'x'; 4096],
        Duration::ZERO,
    );
    let site = Site::on("127.0.0.1:0", &[("/", endless)]).await;
    let named = format!("site.example:{}", site.port);
    let settings = ProxySettings {
        hosts: &[&named],
        allow: &["127.0.0.1/32"],
        deny: &[],
        names: FakeResolver::new(&[("site.example", HERE)]),
    };
    let limits = ProxyLimits {
        bytes: 100_000,
        ..ProxyLimits::default()
    };
    let open = UnsandboxedProxy::with(&settings, limits, None);
    let head = format!("GET http://{named}/ HTTP/1.1\r\nX: {}", "x".repeat(20_000));
    let got = open.ask(&head).await;
    assert!(got.starts_with("HTTP/1.1 431"), "{got}");
    let got = open.get(&format!("http://{named}/")).await;
    assert!((1000..=100_000).contains(&got.len()), "{}", got.len());
    let error = open.running.refusals().unwrap();
    assert!(error.contains("more than 100000 bytes"), "{error}");
}

#[tokio::test]
async fn list_of_refusals_is_limited() {
    let settings = ProxySettings {
        hosts: &[],
        allow: &[],
        deny: &[],
        names: FakeResolver::new(&[]),
    };
    let open = UnsandboxedProxy::new(&settings);
    for n in 0..30 {
        let long = "a".repeat(200);
        let got = open.tunnel(&format!("{long}{n}.example:443")).await;
        assert!(got.starts_with("HTTP/1.1 403"), "{got}");
        let longer = "a.".repeat(3000);
        let got = open.get(&format!("http://{longer}{n}.example/")).await;
        assert!(got.starts_with("HTTP/1.1 400"), "{got}");
    }
    let error = open.running.refusals().unwrap();
    assert!(
        error.len() < 8 * 500 && error.ends_with("and others"),
        "{error}"
    );
}

#[tokio::test]
async fn proxy_ends_with_its_call() {
    let settings = ProxySettings {
        hosts: &[],
        allow: &[],
        deny: &[],
        names: FakeResolver::new(&[]),
    };
    let open = UnsandboxedProxy::new(&settings);
    let mut waiting = open.connect().await;
    let at = open.at;
    drop(open);
    assert_eq!(rest(&mut waiting).await, "");
    while TcpStream::connect(at).await.is_ok() {
        tokio::task::yield_now().await;
    }
}
