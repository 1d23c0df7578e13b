//! Targets that pages may and may not lead to.

use std::sync::Arc;

use windlass_core::network_access::NetworkAccessList;
use windlass_tools::Policy;

use super::site::{Says, Site};
use super::{Names, Reader, Redirects};
use crate::support::Place;

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

fn is_private_refusal(told: &str) -> bool {
    told.contains("not on the public internet")
}

/// Requests an address; if the tool requires another notation, requests that one.
async fn refused(reader: &Reader, url: &str) -> String {
    let told = reader.fetch(url).await.unwrap_err();
    match told.split_once("write it as ") {
        Some((_, plain)) => reader.fetch(plain).await.unwrap_err(),
        None => told,
    }
}

#[tokio::test]
async fn no_spelling_of_a_private_address_is_reached() {
    let reader = Reader::new(&[], &[], Some(Names::of(&[])));
    for url in PRIVATE {
        let told = refused(&reader, url).await;
        assert!(is_private_refusal(&told), "{url}: {told}");
    }
}

#[tokio::test]
async fn no_name_of_this_machine_is_reached() {
    let site = Site::on("127.0.0.1:0", &[("/", Says::page("text/plain", b"secret"))]).await;
    let names = ["localhost.", "a.localhost", "printer.local"];
    let here: &[&[&str]] = &[&["127.0.0.1"]];
    // A trailing dot of a name is not sent to the resolver.
    let own = names.map(|name| (name.trim_end_matches('.'), here));
    let by_system = Reader::new(&[], &[], None);
    let by_names = Reader::new(&[], &[], Some(Names::of(&own)));
    let of_system = ["localhost", "LOCALHOST"].map(|host| (&by_system, host));
    for (reader, host) in of_system
        .into_iter()
        .chain(names.map(|host| (&by_names, host)))
    {
        let url = format!("http://{host}:{}/", site.port);
        let told = refused(reader, &url).await;
        assert!(is_private_refusal(&told), "{host}: {told}");
    }
    assert_eq!(site.heard(), [""; 0]);
}

#[tokio::test]
async fn a_redirect_leads_to_no_other_host() {
    let names = Names::of(&[("site.example", &[&["127.0.0.1"]])]);
    let further = [
        "//inner.example/",
        "http://both.example/",
        "http://site.example/",
    ];
    let targets: Vec<_> = PRIVATE.into_iter().chain(further).collect();
    let paths: Vec<_> = (0..targets.len()).map(|n| format!("/{n}")).collect();
    let says: Vec<_> = paths
        .iter()
        .zip(&targets)
        .map(|(path, target)| (path.as_str(), Says::redirect(target)))
        // A header can contain only ASCII.
        .filter(|(_, says)| matches!(says, Says::Bytes(bytes) if bytes.is_ascii()))
        .collect();
    let site = Site::on("127.0.0.1:0", &says).await;
    // The network is open, so only its own address is reachable.
    let reader = Reader::new(&["127.0.0.1/32"], &[], Some(Arc::clone(&names)));
    for (path, _) in &says {
        let url = format!("http://site.example:{}{path}", site.port);
        let told = reader.fetch(&url).await.unwrap_err();
        assert!(told.contains("by a call of its own"), "{path}: {told}");
    }
    assert_eq!(site.heard().len(), says.len());
    let asked = names.asked.lock().unwrap();
    assert!(asked.iter().all(|name| name == "site.example"), "{asked:?}");
}

#[tokio::test]
async fn a_redirect_leads_to_no_private_address_either() {
    for later in [&["127.0.0.2"][..], &["93.184.216.34", "10.0.0.1"]] {
        let site = Site::on("127.0.0.1:0", &[("/", Says::redirect("/next"))]).await;
        let names = Names::of(&[("site.example", &[&["127.0.0.1"], later])]);
        let reader = Reader::new(&["127.0.0.1/32"], &[], Some(names));
        let url = format!("http://site.example:{}/", site.port);
        let told = reader.fetch(&url).await.unwrap_err();
        assert!(is_private_refusal(&told), "{later:?}: {told}");
        assert_eq!(site.heard().len(), 1);
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_name_that_leads_elsewhere_the_second_time_is_asked_once() {
    let page = [("/", Says::page("text/plain", b"one"))];
    let open = Site::on("127.0.0.1:0", &page).await;
    let port = open.port;
    let secret = [("/", Says::page("text/plain", b"secret"))];
    let inner = Site::on(&format!("127.0.0.2:{port}"), &secret).await;
    let names = Names::of(&[("rebind.example", &[&["127.0.0.1"], &["127.0.0.2"]])]);
    let reader = Reader::new(&["127.0.0.1/32"], &[], Some(Arc::clone(&names)));
    let url = format!("http://rebind.example:{port}/");
    assert_eq!(reader.fetch(&url).await.unwrap()["text"], "one");
    assert_eq!(*names.asked.lock().unwrap(), ["rebind.example"]);
    let told = reader.fetch(&url).await.unwrap_err();
    assert!(is_private_refusal(&told), "{told}");
    assert_eq!((open.heard().len(), inner.heard().len()), (1, 0));
}

#[tokio::test]
async fn what_the_operator_opens_is_reached_and_what_is_denied_is_not() {
    let page = [("/", Says::page("text/plain", b"open"))];
    let site = Site::on("127.0.0.1:0", &page).await;
    let port = site.port;
    let names = || {
        Some(Names::of(&[
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
        let reader = Reader::new(&[allow], &deny, names());
        let before = site.heard().len();
        let read = reader.fetch(&format!("http://{host}:{port}/")).await;
        let shown = format!("{allow} {deny:?} {host}: {read:?}");
        assert_eq!(read.is_ok(), is_reached, "{shown}");
        let heard = site.heard().len() - before;
        assert_eq!(heard, usize::from(is_reached), "{shown}");
    }
}

#[tokio::test]
async fn the_list_of_the_session_holds_for_every_hop() {
    let site = Site::on("127.0.0.1:0", &[]).await;
    let port = site.port;
    let away = format!("http://other.example:{port}/");
    let says = [
        ("/away", Says::redirect(&away)),
        ("/here", Says::redirect("/page")),
        ("/page", Says::page("text/plain", b"page")),
    ];
    let site = Site::on("127.0.0.1:0", &says).await;
    let names = Names::of(&[
        ("site.example", &[&["127.0.0.1"]]),
        ("other.example", &[&["127.0.0.1"]]),
    ]);
    let mut reader = Reader::new(&["127.0.0.1/32"], &[], Some(names));
    reader.list = Some(NetworkAccessList::allow_only(["site.example", "127.0.0.1"]));
    let at = |path: &str| format!("http://site.example:{}{path}", site.port);
    assert_eq!(
        reader.fetch(&at("/here")).await.unwrap()["url"],
        at("/page")
    );
    for (url, reason) in [
        (at("/away"), "by a call of its own"),
        (away, "denied by the session's network rules"),
    ] {
        let told = reader.fetch(&url).await.unwrap_err();
        assert!(told.contains("other.example"), "{told}");
        assert!(told.contains(reason), "{told}");
    }
    // A session's list that opens a private address does not open it for the operator.
    let mut reader = Reader::new(&[], &[], Some(Names::of(&[])));
    reader.list = Some(NetworkAccessList::allow_only(["127.0.0.1"]));
    let url = format!("http://127.0.0.1:{}/page", site.port);
    let told = reader.fetch(&url).await.unwrap_err();
    assert!(is_private_refusal(&told), "{told}");
}

#[tokio::test]
async fn redirects_end_stay_encrypted_and_carry_no_credentials() {
    let mut reader = Reader::new(&["open.example"], &[], None);
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
        ("https://a.example/down", "without encryption"),
        ("https://a.example/user", "a user name or a password"),
        ("https://a.example/file", "only http and https"),
        ("https://a.example/away", "by a call of its own"),
        ("https://a.example/port", "by a call of its own"),
        ("https://open.example/away", "by a call of its own"),
    ] {
        let told = reader.fetch(url).await.unwrap_err();
        assert!(told.contains(reason), "{url}: {told}");
    }
    for (url, end) in [
        ("http://a.example/up", "https://a.example/"),
        ("https://open.example/here", "https://open.example/there"),
    ] {
        assert_eq!(reader.fetch(url).await.unwrap()["url"], end);
    }
}

#[tokio::test]
async fn an_address_that_says_more_than_a_page_is_refused() {
    let page = [("/", Says::page("text/plain", b"page"))];
    let site = Site::on("127.0.0.1:0", &page).await;
    let names = Names::of(&[("site.example", &[&["127.0.0.1"]])]);
    let reader = Reader::new(&["site.example"], &[], Some(names));
    let port = site.port;
    for url in [
        format!("http://site.example:{port}/\r\nx-evil: 1"),
        format!("http://site.example:{port}/\nGET /other"),
        format!("http://user:secret@site.example:{port}/"),
        format!("http://user@site.example:{port}/"),
        format!("ftp://site.example:{port}/"),
        format!("site.example:{port}"),
    ] {
        let told = reader.fetch(&url).await.unwrap_err();
        assert!(!told.contains("secret"), "{told}");
    }
    assert_eq!(site.heard(), [""; 0]);
}

#[tokio::test]
async fn an_environment_without_a_network_reads_no_page() {
    let page = [("/", Says::page("text/plain", b"page"))];
    let site = Site::on("127.0.0.1:0", &page).await;
    let mut reader = Reader::new(&["127.0.0.1"], &[], None);
    let url = format!("http://127.0.0.1:{}/", site.port);
    assert_eq!(reader.fetch(&url).await.unwrap()["text"], "page");
    reader.place = Place::with(Policy::default());
    let told = reader.fetch(&url).await.unwrap_err();
    assert_eq!(
        told,
        "environment `local` has no network: its policy says so, and no page is read for it"
    );
    assert_eq!(site.heard().len(), 1);
}
