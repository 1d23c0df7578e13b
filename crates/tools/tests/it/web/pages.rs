//! Conversion of pages, well-formed and malicious ones.

use std::io::Write;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

use super::PageReader;
use super::site::{Response, Site};

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(bytes).unwrap();
    packed.finish().unwrap()
}

/// Reads the answer of a test server.
async fn read(responses: Response, change: impl FnOnce(&mut PageReader)) -> Result<Value, String> {
    let site = Site::on("127.0.0.1:0", &[("/", responses)]).await;
    let mut reader = PageReader::new(&["127.0.0.1"], &[], None);
    change(&mut reader);
    reader
        .fetch(&format!("http://127.0.0.1:{}/", site.port))
        .await
}

#[tokio::test]
async fn page_is_read_as_text_with_its_title() {
    let html = b"<title>A page</title><h1>Hello</h1><p>One <a href='/two'>two</a>.";
    let responses = [
        ("/a", Response::redirect("b?c")),
        ("/b?c", Response::page("text/html; charset=utf-8", html)),
    ];
    let site = Site::on("127.0.0.1:0", &responses).await;
    let reader = PageReader::new(&["127.0.0.1"], &[], None);
    let at = format!("http://127.0.0.1:{}", site.port);
    let page = reader.fetch(&format!("{at}/a#part")).await.unwrap();
    assert_eq!(
        page,
        json!({
            "url": format!("{at}/b?c"),
            "status": 200,
            "content_type": "text/html",
            "title": "A page",
            "text": format!("# Hello\n\nOne [two]({at}/two)."),
        })
    );
    let none = reader.fetch(&format!("{at}/none")).await.unwrap();
    assert_eq!(
        (&none["status"], &none["text"]),
        (&json!(404), &json!("none\n"))
    );
    for requests in site.requests() {
        let lower = requests.to_ascii_lowercase();
        assert!(requests.starts_with("GET /"), "{requests}");
        for unwanted in ["cookie", "authorization", "referer", "#part"] {
            assert!(!lower.contains(unwanted), "{requests}");
        }
    }
}

#[tokio::test]
async fn model_may_request_less_text() {
    let body = "ä".repeat(1000);
    let site = Site::on(
        "127.0.0.1:0",
        &[("/", Response::page("text/plain", body.as_bytes()))],
    )
    .await;
    let reader = PageReader::new(&["127.0.0.1"], &[], None);
    let url = format!("http://127.0.0.1:{}/", site.port);
    let page = reader
        .call(json!({ "url": url, "max_bytes": 5 }))
        .await
        .unwrap();
    assert_eq!(page["text"], "ää");
    assert_eq!(
        page["remark"],
        "the first 4 of 2000 bytes of text are shown"
    );
    let odd = reader.call(json!({ "url": url, "max_bytes": "all" })).await;
    assert!(odd.unwrap_err().contains("invalid arguments"));
}

#[tokio::test]
async fn endless_page_is_truncated() {
    let head = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\n".to_vec();
    let endless = Response::Endless(head, vec![b'a'; 1000], Duration::ZERO);
    let page = read(endless, |reader| reader.settings.max_body_bytes = 2500).await;
    let page = page.unwrap();
    assert_eq!(page["text"], "a".repeat(2500));
    assert_eq!(
        page["remark"],
        "only the first 2500 bytes of the page were read"
    );
}

#[tokio::test]
async fn slow_page_times_out() {
    let head = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\n".to_vec();
    let drips = Response::Endless(head, vec![b'a'], Duration::from_millis(20));
    let headers = b"HTTP/1.1 200 OK\r\n".to_vec();
    let of_headers = Response::Endless(headers, b"x: y\r\n".to_vec(), Duration::from_millis(20));
    for responses in [drips, of_headers] {
        let limit = Duration::from_millis(400);
        let error = read(responses, |reader| reader.settings.timeout = limit).await;
        let error = error.unwrap_err();
        assert!(error.contains("took longer than 400 ms"), "{error}");
    }
}

#[tokio::test]
async fn endless_headers_are_refused() {
    let head = b"HTTP/1.1 200 OK\r\n".to_vec();
    let endless = Response::Endless(head, b"x-y: z\r\n".repeat(1000), Duration::ZERO);
    let error = read(endless, |_| {}).await.unwrap_err();
    assert!(error.contains("failed"), "{error}");
}

#[tokio::test]
async fn compressed_page_is_decompressed_within_limits() {
    let headers = [("content-type", "text/plain"), ("content-encoding", "gzip")];
    let page = read(Response::with(&headers, &gzip(b"small")), |_| {}).await;
    assert_eq!(page.unwrap()["text"], "small");

    let bomb = gzip(&vec![b'a'; 50_000_000]);
    assert!(bomb.len() < 1_000_000);
    let page = read(Response::with(&headers, &bomb), |reader| {
        reader.settings.max_body_bytes = 1_000_000;
    });
    let page = page.await.unwrap();
    let remark = page["remark"].as_str().unwrap();
    assert!(
        remark.contains("only the first 1000000 bytes of the page were read"),
        "{remark}"
    );
    assert!(remark.contains("of 1000000 bytes of text"), "{remark}");

    let twice = gzip(&gzip(b"small"));
    let odd = [
        ("content-type", "text/plain"),
        ("content-encoding", "gzip, gzip"),
    ];
    let error = read(Response::with(&odd, &twice), |_| {})
        .await
        .unwrap_err();
    assert!(
        error.contains("`gzip, gzip`, which is not supported"),
        "{error}"
    );
}

#[tokio::test]
async fn binary_content_is_refused_despite_its_declared_type() {
    for (kind, body, reason) in [
        ("image/png", &b"\x89PNG"[..], "`image/png` (status 200)"),
        (
            "application/octet-stream",
            b"abc",
            "only text, HTML and JSON",
        ),
        ("text/html", b"\x7fELF\x02\0\0\0", "is declared as text"),
        ("application/json", b"\0", "is declared as text"),
        ("", b"PK\x03\x04\0", "is declared as text"),
    ] {
        let error = read(Response::page(kind, body), |_| {}).await.unwrap_err();
        assert!(error.contains(reason), "{kind}: {error}");
    }
}

#[tokio::test]
async fn malformed_html_is_converted_without_control_characters() {
    let html = format!(
        "<title>\u{1b}]0;evil\u{7}</title>{}&#27;[2J\u{202e}text<script>alert(1)",
        "<div><a href=x><svg></svg>".repeat(50_000)
    );
    let page = read(Response::page("text/html", html.as_bytes()), |_| {}).await;
    let page = page.unwrap();
    assert_eq!(page["title"], "]0;evil");
    assert_eq!(page["text"], "[2Jtext");
}

#[tokio::test]
async fn server_with_an_untrusted_certificate_is_not_read() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let plain =
                b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 1\r\n\r\na";
            let _ = stream.write_all(plain).await;
        }
    });
    let reader = PageReader::new(&["127.0.0.1"], &[], None);
    let error = reader.fetch(&format!("https://127.0.0.1:{port}/")).await;
    let error = error.unwrap_err();
    assert!(error.contains("failed"), "{error}");
}
