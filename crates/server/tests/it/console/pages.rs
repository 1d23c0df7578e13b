//! Pages and assets.

use crate::support::TestDaemon;

#[tokio::test]
async fn every_page_is_the_same_shell_without_data() {
    let daemon = TestDaemon::start().await;
    let anonymous = daemon.client.anonymous();
    let shell = anonymous.get("/console/").await;
    for path in [
        "/console",
        "/console/login",
        "/console/threads/thr_1?view=events&at=7",
        "/console/runs?q=%3Cscript%3Ealert(1)%3C/script%3E",
        "/console/%22%3E%3Cimg%20src=x%3E",
        "/console/../v1/threads",
    ] {
        let page = anonymous.get(path).await;
        assert_eq!((page.status, &page.body), (200, &shell.body), "{path}");
        let policy = page.header("content-security-policy").unwrap();
        for part in [
            "default-src 'none'",
            "script-src 'self'",
            "frame-ancestors 'none'",
            "require-trusted-types-for 'script'",
        ] {
            assert!(policy.contains(part), "{policy}");
        }
        assert_eq!(page.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(page.header("referrer-policy"), Some("no-referrer"));
        assert_eq!(
            page.header("cross-origin-opener-policy"),
            Some("same-origin")
        );
        assert_eq!(page.header("cache-control"), Some("no-store"));
    }
}

#[tokio::test]
async fn shell_names_assets_that_exist() {
    let daemon = TestDaemon::start().await;
    let anonymous = daemon.client.anonymous();
    let shell = anonymous.get("/console/").await;
    let shell = String::from_utf8(shell.body.to_vec()).unwrap();
    let quoted = shell
        .split('"')
        .filter(|text| text.starts_with("/console/"));
    let assets: Vec<_> = quoted.collect();
    assert!(assets.len() >= 2, "{shell}");
    for asset in assets {
        let reply = anonymous.get(asset).await;
        assert_eq!(reply.status, 200, "{asset}");
        assert!(reply.header("content-security-policy").is_some());
    }
    for path in [
        "/console/assets/dev/none.js",
        "/console/assets/dev/../../Cargo.toml",
        "/console/assets/dev/%2e%2e/%2e%2e/Cargo.toml",
        "/console/assets/boot.js",
        "/console/assets/",
    ] {
        assert_eq!(anonymous.get(path).await.status, 404, "{path}");
    }
}

#[tokio::test]
async fn address_of_the_daemon_leads_browsers_to_the_console() {
    let daemon = TestDaemon::start().await;
    let browser = daemon.client.anonymous();
    let browser = browser.with("accept", "text/html,application/xhtml+xml,*/*;q=0.8");
    let moved = browser.get("/").await;
    assert_eq!(
        (moved.status, moved.header("location")),
        (303, Some("/console/"))
    );
    assert_eq!(browser.get("/v1/rpc").await.status, 404);
    assert_eq!(daemon.client.get("/").await.code(), "unknown_path");
}

#[tokio::test]
async fn pages_accept_only_get() {
    let daemon = TestDaemon::start().await;
    for (method, path) in [
        ("POST", "/console/"),
        ("PUT", "/console/login"),
        ("DELETE", "/console/threads/x"),
        ("POST", "/console/session"),
    ] {
        let reply = daemon.client.raw(method, path, None).await;
        assert_eq!(reply.status, 405, "{method} {path}");
    }
}
