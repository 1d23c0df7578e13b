//! Targets that pages may and may not lead to.

use std::sync::Arc;

use windlass_core::network_access::NetworkAccessList;
use windlass_tools::Policy;

use super::site::{Response, Site};
use super::{FakeResolver, PageReader, Redirects};
use crate::support::TestWorkspace;

/// Notations of addresses that are not on the public internet.
const PRIVATE: [&str; 26] = [
    "http://127.0.0.2/",
    "http://2130706434/",
    "http://0x7f000002/",
    "http://0x7f.2/",
    "http://0177.0.0.2/",
    "http://017700000002/",
    "http://127.2/",
    "http://127.0.0.2./",
    "http://①②⑦.0.0.2/",
    "http://%31%32%37.0.0.2/",
    "http://0/",
    "http://0.0.0.0/",
    "http://10.0.0.1/",
    "http://172.16.0.1/",
    "http://192.168.1.1/",
    "http://100.64.0.1/",
    "http://169.254.169.254/latest/meta-data/",
    "http://224.0.0.1/",
    "http://255.255.255.255/",
    "http://[::]/",
    "http://[::1]/",
    "http://[::ffff:127.0.0.2]/",
    "http://[64:ff9b::7f00:2]/",
    "http://[2002:7f00:2::]/",
    "http://[fd00::1]/",
    "http://[fe80::1]/",
];

fn is_private_refusal(error: &str) -> bool {
    error.contains("not on the public internet")
}

/// Requests an address; if the tool requires another notation, requests that one.
async fn refused(reader: &PageReader, url: &str) -> String {
    let error = reader.fetch(url).await.unwrap_err();
    match error.split_once("write it as ") {
        Some((_, plain)) => reader.fetch(plain).await.unwrap_err(),
        None => error,
    }
}

#[tokio::test]
async fn private_address_is_refused_in_every_form() {
    let reader = PageReader::new(&[], &[], Some(FakeResolver::new(&[])));
    for url in PRIVATE {
        let error = refused(&reader, url).await;
        assert!(is_private_refusal(&error), "{url}: {error}");
    }
}

#[tokio::test]
async fn names_of_this_machine_are_refused() {
    let site = Site::on(
        "127.0.0.1:0",
        &[("/", Response::page("text/plain", b"secret"))],
    )
    .await;
    let names = ["localhost.", "a.localhost", "printer.local"];
    let here: &[&[&str]] = &[&["127.0.0.1"]];
    // A trailing dot of a name is not sent to the resolver.
    let own = names.map(|name| (name.trim_end_matches('.'), here));
    let by_system = PageReader::new(&[], &[], None);
    let by_names = PageReader::new(&[], &[], Some(FakeResolver::new(&own)));
    let of_system = ["localhost", "LOCALHOST"].map(|host| (&by_system, host));
    for (reader, host) in of_system
        .into_iter()
        .chain(names.map(|host| (&by_names, host)))
    {
        let url = format!("http://{host}:{}/", site.port);
        let error = refused(reader, &url).await;
        assert!(is_private_refusal(&error), "{host}: {error}");
    }
    assert_eq!(site.requests(), [""; 0]);
}

#[tokio::test]
async fn redirect_to_another_host_is_refused() {
    let names = FakeResolver::new(&[("site.example", &[&["127.0.0.1"]])]);
    let further = [
        "//inner.example/",
        "http://both.example/",
        "http://site.example/",
    ];
    let targets: Vec<_> = PRIVATE.into_iter().chain(further).collect();
    let paths: Vec<_> = (0..targets.len()).map(|n| format!("/{n}")).collect();
    let responses: Vec<_> = paths
        .iter()
        .zip(&targets)
        .map(|(path, target)| (path.as_str(), Response::redirect(target)))
        // A header can contain only ASCII.
        .filter(|(_, responses)| matches!(responses, Response::Bytes(bytes) if bytes.is_ascii()))
        .collect();
    let site = Site::on("127.0.0.1:0", &responses).await;
    // The network is open, so only its own address is reachable.
    let reader = PageReader::new(&["127.0.0.1/32"], &[], Some(Arc::clone(&names)));
    for (path, _) in &responses {
        let url = format!("http://site.example:{}{path}", site.port);
        let error = reader.fetch(&url).await.unwrap_err();
        assert!(error.contains("with a separate call"), "{path}: {error}");
    }
    assert_eq!(site.requests().len(), responses.len());
    let requests = names.requests.lock().unwrap();
    assert!(
        requests.iter().all(|name| name == "site.example"),
        "{requests:?}"
    );
}

#[tokio::test]
async fn redirect_to_a_private_address_is_refused() {
    for later in [&["127.0.0.2"][..], &["93.184.216.34", "10.0.0.1"]] {
        let site = Site::on("127.0.0.1:0", &[("/", Response::redirect("/next"))]).await;
        let names = FakeResolver::new(&[("site.example", &[&["127.0.0.1"], later])]);
        let reader = PageReader::new(&["127.0.0.1/32"], &[], Some(names));
        let url = format!("http://site.example:{}/", site.port);
        let error = reader.fetch(&url).await.unwrap_err();
        assert!(is_private_refusal(&error), "{later:?}: {error}");
        assert_eq!(site.requests().len(), 1);
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn name_is_resolved_once() {
    let page = [("/", Response::page("text/plain", b"one"))];
    let open = Site::on("127.0.0.1:0", &page).await;
    let port = open.port;
    let secret = [("/", Response::page("text/plain", b"secret"))];
    let inner = Site::on(&format!("127.0.0.2:{port}"), &secret).await;
    let names = FakeResolver::new(&[("rebind.example", &[&["127.0.0.1"], &["127.0.0.2"]])]);
    let reader = PageReader::new(&["127.0.0.1/32"], &[], Some(Arc::clone(&names)));
    let url = format!("http://rebind.example:{port}/");
    assert_eq!(reader.fetch(&url).await.unwrap()["text"], "one");
    assert_eq!(*names.requests.lock().unwrap(), ["rebind.example"]);
    let error = reader.fetch(&url).await.unwrap_err();
    assert!(is_private_refusal(&error), "{error}");
    assert_eq!((open.requests().len(), inner.requests().len()), (1, 0));
}

#[tokio::test]
async fn opened_hosts_are_reachable_and_denied_ones_are_not() {
    let page = [("/", Response::page("text/plain", b"open"))];
    let site = Site::on("127.0.0.1:0", &page).await;
    let port = site.port;
    let names = || {
        Some(FakeResolver::new(&[
            ("site.example", &[&["127.0.0.1"]]),
            ("other.example", &[&["127.0.0.1"]]),
        ]))
    };
    let by_address = format!("127.0.0.1:{port}");
    for (allow, deny, host, is_reached) in [
        ("site.example", "", "site.example", true),
        ("site.example", "", "other.example", false),
        (by_address.as_str(), "", "127.0.0.1", true),
        (by_address.as_str(), "", "site.example", false),
        ("127.0.0.0/8", "", "other.example", true),
        ("127.0.0.0/8", "other.example", "other.example", false),
        ("127.0.0.0/8", "127.0.0.1", "other.example", false),
        ("site.example", "127.0.0.0/16", "site.example", false),
        ("site.example", "*", "site.example", false),
    ] {
        let deny: Vec<_> = [deny].into_iter().filter(|deny| !deny.is_empty()).collect();
        let reader = PageReader::new(&[allow], &deny, names());
        let before = site.requests().len();
        let read = reader.fetch(&format!("http://{host}:{port}/")).await;
        let shown = format!("{allow} {deny:?} {host}: {read:?}");
        assert_eq!(read.is_ok(), is_reached, "{shown}");
        let requests = site.requests().len() - before;
        assert_eq!(requests, usize::from(is_reached), "{shown}");
    }
}

#[tokio::test]
async fn session_rules_apply_to_every_hop() {
    let site = Site::on("127.0.0.1:0", &[]).await;
    let port = site.port;
    let away = format!("http://other.example:{port}/");
    let responses = [
        ("/away", Response::redirect(&away)),
        ("/here", Response::redirect("/page")),
        ("/page", Response::page("text/plain", b"page")),
    ];
    let site = Site::on("127.0.0.1:0", &responses).await;
    let names = FakeResolver::new(&[
        ("site.example", &[&["127.0.0.1"]]),
        ("other.example", &[&["127.0.0.1"]]),
    ]);
    let mut reader = PageReader::new(&["127.0.0.1/32"], &[], Some(names));
    reader.list = Some(NetworkAccessList::allow_only(["site.example", "127.0.0.1"]));
    let at = |path: &str| format!("http://site.example:{}{path}", site.port);
    assert_eq!(
        reader.fetch(&at("/here")).await.unwrap()["url"],
        at("/page")
    );
    for (url, reason) in [
        (at("/away"), "with a separate call"),
        (away, "denied by the session's network rules"),
    ] {
        let error = reader.fetch(&url).await.unwrap_err();
        assert!(error.contains("other.example"), "{error}");
        assert!(error.contains(reason), "{error}");
    }
    // A session's list that opens a private address does not open it for the operator.
    let mut reader = PageReader::new(&[], &[], Some(FakeResolver::new(&[])));
    reader.list = Some(NetworkAccessList::allow_only(["127.0.0.1"]));
    let url = format!("http://127.0.0.1:{}/page", site.port);
    let error = reader.fetch(&url).await.unwrap_err();
    assert!(is_private_refusal(&error), "{error}");
}

#[tokio::test]
async fn redirects_are_limited_encrypted_and_without_credentials() {
    let mut reader = PageReader::new(&["open.example"], &[], None);
    reader.egress = Arc::new(Redirects(
        [
            ("https://a.example/loop", "/loop"),
            ("https://a.example/down", "http://a.example/"),
            ("http://a.example/up", "https://a.example/"),
            ("https://a.example/away", "https://b.example/"),
            ("https://a.example/port", "https://a.example:8443/"),
            ("https://a.example/user", "https://u:secret@a.example/"),
            ("https://a.example/file", "file:///etc/passwd"),
            ("https://open.example/away", "https://evil.example/?secret"),
            ("https://open.example/here", "https://open.example/there"),
        ]
        .into(),
    ));
    for (url, reason) in [
        ("https://a.example/loop", "more than 5 redirects"),
        ("https://a.example/down", "is not encrypted"),
        ("https://a.example/user", "a user name or a password"),
        ("https://a.example/file", "only http and https"),
        ("https://a.example/away", "with a separate call"),
        ("https://a.example/port", "with a separate call"),
        ("https://open.example/away", "with a separate call"),
    ] {
        let error = reader.fetch(url).await.unwrap_err();
        assert!(error.contains(reason), "{url}: {error}");
    }
    for (url, end) in [
        ("http://a.example/up", "https://a.example/"),
        ("https://open.example/here", "https://open.example/there"),
    ] {
        assert_eq!(reader.fetch(url).await.unwrap()["url"], end);
    }
}

#[tokio::test]
async fn address_in_another_form_is_refused() {
    let page = [("/", Response::page("text/plain", b"page"))];
    let site = Site::on("127.0.0.1:0", &page).await;
    let names = FakeResolver::new(&[("site.example", &[&["127.0.0.1"]])]);
    let reader = PageReader::new(&["site.example"], &[], Some(names));
    let port = site.port;
    for url in [
        format!("http://site.example:{port}/\r\nx-evil: 1"),
        format!("http://site.example:{port}/\nGET /other"),
        format!("http://user:secret@site.example:{port}/"),
        format!("http://user@site.example:{port}/"),
        format!("ftp://site.example:{port}/"),
        format!("site.example:{port}"),
    ] {
        let error = reader.fetch(&url).await.unwrap_err();
        assert!(!error.contains("secret"), "{error}");
    }
    assert_eq!(site.requests(), [""; 0]);
}

#[tokio::test]
async fn environment_without_a_network_reads_no_page() {
    let page = [("/", Response::page("text/plain", b"page"))];
    let site = Site::on("127.0.0.1:0", &page).await;
    let mut reader = PageReader::new(&["127.0.0.1"], &[], None);
    let url = format!("http://127.0.0.1:{}/", site.port);
    assert_eq!(reader.fetch(&url).await.unwrap()["text"], "page");
    reader.workspace = TestWorkspace::with(Policy::default());
    let error = reader.fetch(&url).await.unwrap_err();
    assert_eq!(
        error,
        "the policy of environment `local` allows no network, so no page is read for it"
    );
    assert_eq!(site.requests().len(), 1);
}
