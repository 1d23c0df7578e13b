//! What no provider should send and some do.

use serde_json::{Value, json};
use windlass_core::error::ErrorKind;
use windlass_models::ModelSettings;
use windlass_models::settings::ProviderSettings;
use windlass_testkit::{Answer, FakeServer, Wire};

use crate::support::{Got, ask, config, driver_with, exchange, request, told, tools};
use windlass_core::message::Message;

/// Lets the provider send raw bytes in a stream and returns the code of the error.
async fn code_of(wire: Wire, settings: ModelSettings, chunks: &[&[u8]]) -> String {
    let mut server = FakeServer::start().await.unwrap();
    let driver = driver_with(wire, &server.url(), settings, ProviderSettings::default());
    let (got, _) = exchange(&driver, ask(wire), &mut server, async |mut exchange| {
        exchange.begin_stream(&[]).await?;
        for chunk in chunks {
            // A client that has heard enough closes the connection.
            if exchange.chunk(chunk).await.is_err() {
                break;
            }
        }
        Ok(())
    })
    .await;
    let error = got.provider_error();
    assert_eq!(error.kind, ErrorKind::BrokenStream);
    error.code.clone().unwrap_or_else(|| error.message.clone())
}

#[tokio::test]
async fn a_line_that_never_ends_is_refused_before_it_fills_the_memory() {
    let piece = vec![b'x'; 256 * 1024];
    let hundred_megabytes: Vec<&[u8]> = std::iter::once(b"data: ".as_slice())
        .chain(std::iter::repeat_n(piece.as_slice(), 400))
        .collect();
    for wire in Wire::ALL {
        let code = code_of(wire, ModelSettings::default(), &hundred_megabytes).await;
        assert_eq!(code, "line_too_long");
    }
}

#[tokio::test]
async fn an_answer_that_never_ends_is_refused() {
    let settings = ModelSettings {
        max_answer_bytes: 1_000,
        ..ModelSettings::default()
    };
    for wire in Wire::ALL {
        let chunks = [b": keep alive\n\n".as_slice(); 200];
        assert_eq!(
            code_of(wire, settings.clone(), &chunks).await,
            "answer_too_long"
        );
    }
}

#[tokio::test]
async fn what_is_no_text_is_refused() {
    for wire in Wire::ALL {
        let chunks = [b"data: {\"a\":\"\xff\xfe\"}\n\n".as_slice()];
        assert_eq!(
            code_of(wire, ModelSettings::default(), &chunks).await,
            "invalid_utf8"
        );
    }
}

/// Sends the events in another order, and as far as they are read.
async fn told_in_order(wire: Wire, events: &[&String]) -> Got {
    let mut server = FakeServer::start().await.unwrap();
    let driver = crate::support::driver(wire, &server.url());
    let (got, _) = exchange(&driver, ask(wire), &mut server, async |mut exchange| {
        exchange.begin_stream(&[]).await?;
        for event in events {
            if exchange.chunk(event.as_bytes()).await.is_err() {
                break;
            }
        }
        Ok(())
    })
    .await;
    got
}

#[tokio::test]
async fn an_end_before_the_answer_is_no_answer() {
    for (wire, code) in [(Wire::OpenAiChat, "cut"), (Wire::Anthropic, "cut")] {
        let events = wire.events(&Answer::text(&["Hel", "lo"]));
        let backwards: Vec<_> = events.iter().rev().collect();
        let got = told_in_order(wire, &backwards).await;
        assert_eq!(got.provider_error().code.as_deref(), Some(code), "{wire:?}");
        assert_eq!(got.text(), "", "{wire:?}");
    }
}

#[tokio::test]
async fn an_end_that_holds_the_whole_answer_is_the_answer() {
    let wire = Wire::OpenAi;
    let answer = Answer::text(&["Hel", "lo"]).with_call("call_1", "weather", &["{}"]);
    let events = wire.events(&answer);
    let backwards: Vec<_> = events.iter().rev().collect();
    let got = told_in_order(wire, &backwards).await;
    assert!(got.error.is_none(), "{got:?}");
    assert_eq!(got.text(), "Hello");
    assert_eq!(got.calls.len(), 1);
    // In its order the answer is the same, and nothing of it comes twice.
    let again = told_in_order(wire, &events.iter().collect::<Vec<_>>()).await;
    assert_eq!((again.text(), &again.calls), (got.text(), &got.calls));
}

#[tokio::test]
async fn pieces_of_what_did_not_begin_are_refused() {
    let answer = Answer::default().with_call("call_1", "weather", &["{\"place\":", " \"Oslo\"}"]);
    for (wire, beginnings) in [
        (Wire::Anthropic, vec!["content_block_start"]),
        (Wire::OpenAi, vec!["output_item.added", "output_item.done"]),
    ] {
        let events = wire.events(&answer);
        let is_kept = |event: &&String| !beginnings.iter().any(|name| event.contains(name));
        let headless: Vec<_> = events.iter().filter(is_kept).collect();
        assert!(headless.len() < events.len());
        let got = told_in_order(wire, &headless).await;
        let error = got.provider_error();
        assert_eq!(error.code.as_deref(), Some("out_of_order"), "{wire:?}");
    }
}

#[tokio::test]
async fn an_empty_answer_is_an_answer() {
    for wire in Wire::ALL {
        let (got, _) = told(wire, ask(wire), &Answer::default()).await;
        assert!(got.error.is_none() && got.text().is_empty() && got.calls.is_empty());
        assert_eq!(got.finish_reason(), "stop");
    }
}

#[tokio::test]
async fn a_call_with_broken_arguments_reaches_the_model_again() {
    // Gemini reads calls itself, and says so when it cannot.
    for wire in [Wire::OpenAi, Wire::OpenAiChat, Wire::Anthropic] {
        let mut config = config(wire);
        config.tools = tools();
        let answer = Answer::default().with_call("call_1", "weather", &["{\"place\": Oslo"]);
        let ask = vec![Message::user("weather?")];
        let (got, _) = told(wire, request(config.clone(), ask.clone()), &answer).await;
        assert_eq!(
            got.calls[0].arguments,
            Value::String("{\"place\": Oslo".to_owned())
        );
        let refusal = "invalid arguments for tool `weather`".to_owned();
        let history = [
            ask,
            vec![
                got.message(),
                Message::tool_result("call_1", None, Some(refusal)),
            ],
        ]
        .concat();
        let (_, sent) = told(wire, request(config, history), &Answer::text(&["Sorry."])).await;
        let body = sent.json();
        let shown_back = match wire {
            Wire::OpenAi => serde_json::from_str(body["input"][1]["arguments"].as_str().unwrap()),
            Wire::OpenAiChat => {
                let call = &body["messages"][2]["tool_calls"][0];
                serde_json::from_str(call["function"]["arguments"].as_str().unwrap())
            }
            _ => Ok(body["messages"][1]["content"][0]["input"].clone()),
        };
        assert_eq!(
            shown_back.unwrap(),
            json!({ "invalid_arguments": "{\"place\": Oslo" }),
            "{body:#}"
        );
    }
}

#[tokio::test]
async fn a_malformed_call_of_gemini_is_worth_another_try() {
    let answer = Answer::default().with_stop("MALFORMED_FUNCTION_CALL");
    let (got, _) = told(Wire::Gemini, ask(Wire::Gemini), &answer).await;
    assert_eq!(got.provider_error().code.as_deref(), Some("malformed_call"));
    assert!(got.error.unwrap().kind().is_transient());
}
