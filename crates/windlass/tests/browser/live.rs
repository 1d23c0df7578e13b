//! What happens while a page is open.

use serde_json::json;
use tokio::runtime::Runtime;
use windlass_testkit::{Answer, FakeServer, Home, TOKEN, Wire};

use crate::fixture::{Console, Model, calling, demonstration, id_of, titled};

#[test]
fn text_that_streamed_before_the_page_was_opened_is_shown() {
    let runtime = Runtime::new().unwrap();
    let mut server = runtime.block_on(FakeServer::start()).unwrap();
    let home = Home::with_model(&server.url());
    let Some(console) = Console::open("streaming", &home) else {
        return;
    };
    let thread = titled(&console.daemon, "Stream");
    console.daemon.turn(&thread, "Speak");
    let events = Wire::Anthropic.events(&Answer::text(&["The first half, ", "and the second."]));
    let half = events.iter().position(|event| event.contains("first half"));
    let (before, after) = events.split_at(half.unwrap() + 1);
    let mut exchange = runtime.block_on(server.next());
    runtime.block_on(async {
        exchange.begin_stream(&[]).await.unwrap();
        for event in before {
            exchange.chunk(event.as_bytes()).await.unwrap();
        }
    });
    let mut recorded = console.daemon.client.events(&thread, 0);
    recorded.until("item.delta");
    console.go(&format!("/threads/{}", id_of(&thread)));
    console.shows("The first half,");
    runtime.block_on(async {
        for event in after {
            exchange.chunk(event.as_bytes()).await.unwrap();
        }
        exchange.finish().await.unwrap();
    });
    console.shows("The first half, and the second.");
    console.shows("completed");
}

#[test]
fn answer_to_a_question_reaches_the_model() {
    let question = json!({ "questions": [{
        "id": "colour", "header": "Colour", "question": "Which colour <b>now</b>?",
        "options": [{ "label": "Red", "description": "warm" }, { "label": "Blue", "description": "cold" }],
    }] });
    let model = Model::answering(vec![
        calling("request_user_input", &question),
        Answer::text(&["Thank you."]),
    ]);
    let home = model.home();
    let Some(console) = Console::open("question", &home) else {
        return;
    };
    let thread = titled(&console.daemon, "A choice");
    let turn = console.daemon.turn(&thread, "Ask me");
    console.go("/");
    console.shows("Which colour <b>now</b>?");
    console
        .browser
        .until("document.querySelector('w-wait button.primary:enabled')");
    console.browser.click("w-wait input[value=Blue]");
    console.browser.click("w-wait button.primary");
    console.turn_becomes(&turn, "completed");
    let detail = console.daemon.detail(&thread).to_string();
    assert!(detail.contains("Blue"), "{detail}");
}

#[test]
fn page_survives_the_end_of_its_session() {
    let home = demonstration();
    let Some(console) = Console::open("session", &home) else {
        return;
    };
    let thread = titled(&console.daemon, "Draft");
    console.go(&format!("/threads/{}", id_of(&thread)));
    let browser = &console.browser;
    browser.until("document.querySelector('.live').innerText.includes('● live')");
    browser.type_text(".composer textarea", "A prompt that is not lost");
    let ended = home
        .command(&["console", "--log-out-all"])
        .output()
        .unwrap();
    assert!(ended.status.success());
    browser.until("document.querySelector('dialog input[name=token]')");
    browser.type_text("dialog input[name=token]", TOKEN);
    browser.click("dialog .login button");
    browser.until("!document.querySelector('dialog') && document.querySelector('.live').innerText.includes('● live')");
    browser.click(".composer button.primary");
    browser
        .until("document.querySelector('.item.user')?.innerText === 'A prompt that is not lost'");
}
