//! Signing in, the inbox, the record of a long thread, and the small screen.

use serde_json::json;
use windlass_testkit::Home;

use crate::fixture::{Console, demonstration, id_of, titled};

#[test]
fn wrong_token_is_refused_and_the_right_one_opens_the_inbox() {
    let home = demonstration();
    let Some(console) = Console::open("login", &home) else {
        return;
    };
    let browser = &console.browser;
    console.shows("Nothing waits for you");
    browser.run("localStorage.clear()", &[]);
    console.go("/runs");
    browser.until("document.querySelector('input[name=token]')");
    browser.type_text("input[name=token]", "another-token");
    browser.click(".login button");
    browser.until("document.querySelector('[role=alert]')");
    assert!(!console.text().contains("Activity\n"), "{}", console.text());
    browser.run(
        "document.querySelector('input[name=token]').value = ''",
        &[],
    );
    browser.type_text("input[name=token]", windlass_testkit::TOKEN);
    browser.click(".login button");
    // The page that was asked for.
    browser.until("location.pathname.endsWith('/runs') && document.querySelector('table.runs')");
}

#[test]
fn printed_link_logs_one_browser_in_once() {
    let home = demonstration();
    let Some(console) = Console::open("login link", &home) else {
        return;
    };
    let browser = &console.browser;
    let mut command = home.command(&["console", "--print"]);
    command.env("WINDLASS_RUNTIME_TOKEN", windlass_testkit::TOKEN);
    let printed = command.output().unwrap();
    assert!(printed.status.success(), "{printed:?}");
    let link = String::from_utf8(printed.stdout).unwrap();
    let link = link
        .split_whitespace()
        .find(|word| word.contains("/console/login#"))
        .unwrap();
    for is_first in [true, false] {
        browser.run("localStorage.clear()", &[]);
        browser.open("about:blank");
        browser.open(link);
        if is_first {
            browser.until("document.querySelector('.waits')");
        } else {
            browser.until("document.querySelector('[role=alert]')");
        }
        let address = browser.run("return location.href", &[]);
        assert!(!address.as_str().unwrap().contains('#'), "{address}");
        console.go("/login");
    }
}

#[test]
fn allowing_a_call_in_the_inbox_runs_the_command() {
    let home = demonstration();
    let Some(console) = Console::open("inbox", &home) else {
        return;
    };
    let thread = titled(&console.daemon, "Look around");
    let turn = console.daemon.turn(&thread, "What is in this directory?");
    console.go("/");
    console.shows("Look around");
    console.shows("uname -s");
    console
        .browser
        .until("document.querySelector('w-wait button.primary:enabled')");
    console.browser.click("w-wait button.primary");
    console.turn_becomes(&turn, "completed");
    console.browser.until("!document.querySelector('w-wait')");
    console.go(&format!("/threads/{}", id_of(&thread)));
    console.shows("completed shell");
    assert_eq!(console.browser.messages(), [""; 0]);
}

#[test]
fn denied_call_does_not_run() {
    let home = demonstration();
    let Some(console) = Console::open("denial", &home) else {
        return;
    };
    let thread = titled(&console.daemon, "Look around");
    let turn = console.daemon.turn(&thread, "What is in this directory?");
    console.go(&format!("/threads/{}", id_of(&thread)));
    console
        .browser
        .until("document.querySelector('w-wait button.danger:enabled')");
    // The key acts on the focused card.
    console.browser.run(
        "const card = document.querySelector('w-wait'); card.focus(); card.dispatchEvent(new KeyboardEvent('keydown', {key: 'D', shiftKey: true, bubbles: true}))",
        &[],
    );
    console.turn_becomes(&turn, "completed");
    console.browser.until("!document.querySelector('w-wait')");
    let detail = console.daemon.detail(&thread).to_string();
    assert!(detail.contains("not approved"), "{detail}");
}

#[test]
fn long_record_has_few_elements_and_every_event_has_an_address() {
    let home = Home::new();
    let Some(console) = Console::open("events", &home) else {
        return;
    };
    let thread = titled(&console.daemon, "Many turns");
    for number in 0..120 {
        let turn = console.daemon.turn(&thread, &format!("Number {number}"));
        console.turn_becomes(&turn, "completed");
    }
    let latest = console.daemon.detail(&thread)["latest_seq"]
        .as_u64()
        .unwrap();
    assert!(latest > 600, "{latest}");
    console.go(&format!("/threads/{}?view=events", id_of(&thread)));
    let browser = &console.browser;
    browser.until("document.querySelectorAll('.w-row:not(.loading)').length > 5");
    // The newest events are in sight.
    browser.until(&format!("document.querySelector('#row-{latest}')"));
    assert!(
        browser
            .run("return document.querySelectorAll('*').length", &[])
            .as_u64()
            .unwrap()
            < 1500
    );
    // An address leads to its event, also after a key.
    let middle = latest / 2;
    console.go(&format!(
        "/threads/{}?view=events&at={middle}",
        id_of(&thread)
    ));
    browser.until(&format!(
        "document.querySelector('#row-{middle}[aria-selected=true]:not(.loading)')"
    ));
    browser.until("document.querySelector('aside h2')");
    browser.run("document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {key: 'j', bubbles: true}))", &[]);
    browser.until(&format!("location.search.includes('at={}')", middle + 1));
    // The state at an event has the turns up to it, and no later one.
    let next = middle + 1;
    browser.until(&format!("document.querySelector('aside').dataset.seq === '{next}' && document.querySelector('aside h2')"));
    browser.click("aside .actions button");
    browser.until("document.querySelector('.state')?.innerText.includes('State at')");
    let shown = browser.run("return document.querySelector('.state').innerText", &[]);
    assert!(!shown.as_str().unwrap().contains("Number 119"), "{shown}");
}

#[test]
fn nothing_is_wider_than_a_small_screen() {
    let home = demonstration();
    let Some(console) = Console::open("small screen", &home) else {
        return;
    };
    let long = "word".repeat(80);
    let thread = titled(&console.daemon, &long);
    console.daemon.turn(&thread, &long);
    let (thread, browser) = (id_of(&thread).to_owned(), &console.browser);
    let views = ["talk", "events", "waterfall", "request", "files"];
    let views = views.map(|view| format!("/threads/{thread}?view={view}"));
    let pages = ["/", "/runs", "/jobs", "/usage", "/settings", "/search"].map(str::to_owned);
    for page in pages.into_iter().chain(views) {
        for is_dark in [false, true] {
            browser.screen(390, 844, is_dark);
            console.go(&page);
            browser.until("document.querySelector('main').childElementCount && !document.querySelector('.bars')");
            let size = browser.run(
                "return [document.documentElement.scrollWidth, innerWidth]",
                &[],
            );
            assert!(size[0].as_u64() <= size[1].as_u64(), "{page}: {size}");
        }
    }
    assert_eq!(
        browser.run("return getComputedStyle(document.body).colorScheme", &[]),
        json!("light dark")
    );
}
