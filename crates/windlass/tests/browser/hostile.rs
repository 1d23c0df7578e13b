//! Text that models, tools and clients write stays text, and pages of other origins get nothing.

use serde_json::{Value, json};
use windlass_testkit::{Answer, Browser, FakeServer, TOKEN};

use crate::fixture::{Console, Model, calling, demonstration, id_of, titled};

/// Texts that would run, load or disguise something if a page treated them as more than text.
const HOSTILE: &[&str] = &[
    "<img src=x onerror=\"window.hacked=1\">",
    "<script>window.hacked=2</script>",
    "<svg onload=window.hacked=3>",
    "<iframe srcdoc=\"<script>parent.hacked=4</script>\"></iframe>",
    "[click](javascript:window.hacked=5)",
    "![image](http://127.0.0.1:9/hacked.png)",
    "[a](data:text/html,<script>hacked=6</script>)",
    "\u{1b}]8;;javascript:hacked=7\u{7}link\u{1b}]8;;\u{7}\u{1b}[2J\u{1b}[31mred",
    "safe\u{202e}gpj.exe\u{2066}\u{200b}",
    "</textarea></pre></script><style>*{display:none}</style>",
    "{{constructor.constructor('window.hacked=8')()}}",
    "`````\n<b onmouseover=hacked=9>x</b>",
];

/// Nothing ran, and the console's own elements are the only ones.
#[track_caller]
fn is_inert(console: &Console, page: &str) {
    let script = "return [typeof window.hacked, document.querySelectorAll('main script, main img, main iframe, main style, main svg, main object, main embed, main link').length,
        [...document.querySelectorAll('main a')].filter(a => a.href && !/^https?:/.test(a.href)).length,
        performance.getEntriesByType('resource').filter(entry => new URL(entry.name).origin !== location.origin && !entry.name.startsWith('data:')).length]";
    let found = console.browser.run(script, &[]);
    assert_eq!(found, json!(["undefined", 0, 0, 0]), "{page}");
}

#[test]
fn hostile_text_runs_nothing() {
    let all = HOSTILE.join("\n\n");
    let command = format!("true # {all}");
    let model = Model::answering(vec![
        Answer::text(&[&all])
            .with_thinking(&[&all], "signature")
            .with_call(
                "toolu_1",
                "shell",
                &[&json!({ "command": command }).to_string()],
            ),
        Answer::text(&[&all]),
    ]);
    let home = model.home();
    let Some(console) = Console::open("hostile text", &home) else {
        return;
    };
    let thread = titled(&console.daemon, HOSTILE[0]);
    console.daemon.turn(&thread, &all);
    let browser = &console.browser;
    browser.until("!document.querySelector('.empty') && document.querySelector('w-wait')");
    // The approval shows what a reader could not see.
    console.shows("⟨U+202E⟩");
    console.shows("⟨U+001B⟩");
    is_inert(&console, "inbox");
    let id = id_of(&thread).to_owned();
    let own = format!("/threads/{id}");
    let wait = browser.run("return document.querySelector('w-wait').dataset.wait", &[]);
    let views = ["talk", "events", "waterfall", "request", "files"]
        .map(|view| format!("{own}?view={view}"));
    let pages = ["/runs", "/search?q=img", "/usage?by=thread", "/jobs"].map(str::to_owned);
    let approval = format!("/waits/{}", wait.as_str().unwrap());
    for page in views.into_iter().chain(pages).chain([approval]) {
        console.go(&page);
        browser.until(
            "document.querySelector('main').childElementCount && !document.querySelector('.bars')",
        );
        browser.run(
            "document.querySelectorAll('details').forEach(box => (box.open = true))",
            &[],
        );
        is_inert(&console, &page);
    }
    console.go(&own);
    browser.until("document.querySelector('.md')?.innerText.includes('<img src=x')");
    let rendered = browser.run("return document.querySelector('.scroll').innerText", &[]);
    assert!(!rendered.as_str().unwrap().contains('\u{202e}'));
}

#[test]
fn endless_text_is_cut_and_must_be_shown_before_a_decision() {
    let long = format!("true {}", "x".repeat(200_000));
    let model = Model::answering(vec![calling("shell", &json!({ "command": long }))]);
    let home = model.home();
    let Some(console) = Console::open("endless text", &home) else {
        return;
    };
    let thread = titled(&console.daemon, "Long");
    let lines = "\u{1b}[31mA line with a colour.\n".repeat(200_000);
    console.daemon.turn(&thread, &lines);
    let browser = &console.browser;
    console.go(&format!("/threads/{}", id_of(&thread)));
    browser.until("document.querySelector('w-wait .body-bar button')");
    let cut = browser.until("document.querySelector('.item.user, .item .body').innerText.length");
    assert!(cut.as_u64().unwrap() < 200_000, "{cut}");
    // The delay after its appearance has passed when another card's would have been enabled.
    browser.await_value("new Promise(resolve => setTimeout(resolve, 700))");
    let allowed =
        "return [...document.querySelectorAll('w-wait .primary')].map(button => button.disabled)";
    assert_eq!(browser.run(allowed, &[]), json!([true]));
    browser.until("(() => { const more = document.querySelector('w-wait .body-bar button'); more?.click(); return !more; })()");
    // The end of the text is still out of sight.
    assert_eq!(browser.run(allowed, &[]), json!([true]));
    browser.until("(() => { const text = document.querySelector('w-wait .body'); text.scrollTop = text.scrollHeight; return true; })()");
    browser.until("!document.querySelector('w-wait .primary').disabled");
}

#[test]
fn markup_and_script_are_refused_by_the_browser_itself() {
    let home = demonstration();
    let Some(console) = Console::open("content security policy", &home) else {
        return;
    };
    // A timer leaves the driver's own script, which the policy does not bind.
    let attempt = "await new Promise(resolve => setTimeout(() => {
        const results = [];
        try { document.body.innerHTML = '<p>x</p>'; results.push('markup'); } catch { results.push('refused'); }
        try { new Function('window.hacked = 1')(); results.push('script'); } catch { results.push('refused'); }
        const node = document.createElement('script');
        try { node.text = 'window.hacked = 2'; document.body.append(node); } catch {}
        results.push(typeof window.hacked);
        resolve(results);
    }))";
    let found = console.browser.await_value(attempt);
    assert_eq!(found, json!(["refused", "refused", "undefined"]));
}

#[test]
fn page_of_another_origin_gets_nothing() {
    let home = demonstration();
    let Some(console) = Console::open("another origin", &home) else {
        return;
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let page = |_: &windlass_testkit::Request| windlass_testkit::Reply {
        status: 200,
        headers: vec![("content-type".to_owned(), "text/html".to_owned())],
        chunks: vec!["<title>Other</title>".to_owned()],
        after: windlass_testkit::After::End,
    };
    let server = runtime.block_on(FakeServer::answering(page)).unwrap();
    let browser: &Browser = &console.browser;
    // The same host with another port: the browser sends the console's cookie.
    browser.open(&server.url());
    let address = &console.daemon.client.address;
    let read = browser.await_value(&format!(
        "await fetch('http://{address}/v1/threads', {{credentials: 'include'}}).then(answer => answer.status, () => 'refused')"
    ));
    assert_eq!(read, json!("refused"));
    let changed = browser.await_value(&format!(
        "await fetch('http://{address}/v1/threads', {{method: 'POST', credentials: 'include', mode: 'no-cors', headers: {{'content-type': 'text/plain'}}, body: '{{}}'}}).then(answer => answer.type, () => 'refused')"
    ));
    assert_ne!(changed, json!("basic"));
    let socket = browser.await_value(&format!(
        "await new Promise(resolve => {{ const socket = new WebSocket('ws://{address}/v1/rpc'); socket.onopen = () => resolve('open'); socket.onerror = () => resolve('refused'); }})"
    ));
    assert_eq!(socket, json!("refused"));
    let threads: Value = console
        .daemon
        .client
        .with_token(TOKEN)
        .get("/v1/threads")
        .expect(200);
    assert_eq!(threads, json!([]));
    // The cookie without the key is no login.
    console.go("/login");
    let status = browser.await_value(
        "await fetch('/v1/threads', {credentials: 'same-origin'}).then(answer => answer.status)",
    );
    assert_eq!(status, json!(401));
}
