//! A daemon that is killed and started again.

use serde_json::json;
use windlass_testkit::{Daemon, TOKEN};

use crate::fixture::{Console, demonstration, id_of, shows, titled};

#[test]
fn page_reports_a_killed_daemon_reconnects_and_misses_no_event() {
    let home = demonstration();
    let Some(console) = Console::open("restart", &home) else {
        return;
    };
    let thread = titled(&console.daemon, "Survivor");
    let id = id_of(&thread).to_owned();
    console.daemon.turn(&thread, "What is in this directory?");
    console.go(&format!("/threads/{id}"));
    let browser = &console.browser;
    browser.until("document.querySelector('w-wait button.primary:enabled')");
    browser.until("document.querySelector('.live').innerText.includes('● live')");
    // The same subscription as a page makes it; each event must follow the one before.
    browser.await_value(&format!(
        "await import(document.querySelector('script[type=module]').src.replace('boot.js', 'model/socket.js')).then(socket => {{
            window.seen = [];
            socket.subscribe('{id}', 0, event => window.seen.push([event.previous_seq, event.seq]));
        }})"
    ));
    browser.until("window.seen.length > 5");

    let address = console.daemon.client.address.clone();
    let port = address.rsplit(':').next().unwrap().to_owned();
    let Console { browser, daemon } = console;
    daemon.kill();
    shows(&browser, "Not live since");
    let allow = browser.run(
        "return document.querySelector('w-wait button.primary').disabled",
        &[],
    );
    assert_eq!(allow, json!(true));

    let mut command = home.command(&["serve", "--token", TOKEN, "--port", &port, "--workspace"]);
    let daemon = Daemon::started(command.arg(&home.workspace));
    browser.until("document.querySelector('.live').innerText.includes('● live')");
    browser.until("document.querySelector('w-wait button.primary:enabled')");
    browser.click("w-wait button.primary");
    browser.until("document.querySelector('.turn-head').innerText.includes('completed')");
    shows(&browser, "resumed after a restart");
    let latest = daemon.client.events(&thread, 0).replay().pop().unwrap().seq;
    browser.until(&format!("window.seen.at(-1)[1] === {latest}"));
    let gaps = browser.run(
        "return window.seen.filter(([before], at) => at && before !== window.seen[at - 1][1])",
        &[],
    );
    assert_eq!(gaps, json!([]));
}
