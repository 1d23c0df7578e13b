//! Invalid data from providers.

use serde_json::{Value, json};
use windlass_core::error::ErrorKind;
use windlass_models::ModelSettings;
use windlass_models::settings::ProviderSettings;
use windlass_testkit::{Answer, FakeServer, Wire};

use crate::support::{
    CollectedAnswer, ask, config, driver_with, exchange, exchange_answer, request, tools,
};
use windlass_core::message::Message;

/// Makes the provider send raw bytes in a stream and returns the error code.
async fn code_of(wire: Wire, settings: ModelSettings, chunks: &[&[u8]]) -> String {
    let mut server = FakeServer::start().await.unwrap();
    let driver = driver_with(wire, &server.url(), settings, ProviderSettings::default());
    let (got, _) = exchange(&driver, ask(wire), &mut server, async |mut exchange| {
        exchange.begin_stream(&[]).await?;
        for chunk in chunks {
            // The client closes the connection once its limit is reached.
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
async fn endless_line_is_refused_within_bounds() {
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
async fn endless_answer_is_refused() {
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
async fn non_utf8_answer_is_refused() {
    for wire in Wire::ALL {
        let chunks = [b"data: {\"a\":\"\xff\xfe\"}\n\n".as_slice()];
        assert_eq!(
            code_of(wire, ModelSettings::default(), &chunks).await,
            "invalid_utf8"
        );
    }
}

/// Sends the events in the given order, as long as the client reads them.
async fn exchange_in_order(wire: Wire, events: &[&String]) -> CollectedAnswer {
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
async fn stream_end_before_the_answer_is_an_error() {
    for (wire, code) in [(Wire::OpenAiChat, "cut"), (Wire::Anthropic, "cut")] {
        let events = wire.events(&Answer::text(&["Hel", "lo"]));
        let backwards: Vec<_> = events.iter().rev().collect();
        let got = exchange_in_order(wire, &backwards).await;
        assert_eq!(got.provider_error().code.as_deref(), Some(code), "{wire:?}");
        assert_eq!(got.text(), "", "{wire:?}");
    }
}

#[tokio::test]
async fn final_event_with_the_whole_answer_is_used() {
    let wire = Wire::OpenAi;
    let answer = Answer::text(&["Hel", "lo"]).with_call("call_1", "weather", &["{}"]);
    let events = wire.events(&answer);
    let backwards: Vec<_> = events.iter().rev().collect();
    let got = exchange_in_order(wire, &backwards).await;
    assert!(got.error.is_none(), "{got:?}");
    assert_eq!(got.text(), "Hello");
    assert_eq!(got.calls.len(), 1);
    // In the right order the answer is unchanged, and nothing is repeated.
    let again = exchange_in_order(wire, &events.iter().collect::<Vec<_>>()).await;
    assert_eq!((again.text(), &again.calls), (got.text(), &got.calls));
}

#[tokio::test]
async fn deltas_without_a_start_are_refused() {
    let answer = Answer::default().with_call("call_1", "weather", &["{\"place\":", " \"Oslo\"}"]);
    for (wire, beginnings) in [
        (Wire::Anthropic, vec!["content_block_start"]),
        (Wire::OpenAi, vec!["output_item.added", "output_item.done"]),
    ] {
        let events = wire.events(&answer);
        let is_continuation = |event: &&String| !beginnings.iter().any(|name| event.contains(name));
        let headless: Vec<_> = events.iter().filter(is_continuation).collect();
        assert!(headless.len() < events.len());
        let got = exchange_in_order(wire, &headless).await;
        let error = got.provider_error();
        assert_eq!(error.code.as_deref(), Some("out_of_order"), "{wire:?}");
    }
}

#[tokio::test]
async fn empty_answer_is_accepted() {
    for wire in Wire::ALL {
        let (got, _) = exchange_answer(wire, ask(wire), &Answer::default()).await;
        assert!(got.error.is_none() && got.text().is_empty() && got.calls.is_empty());
        assert_eq!(got.finish_reason(), "stop");
    }
}

#[tokio::test]
async fn call_with_broken_arguments_is_sent_back_to_the_model() {
    // Gemini parses calls itself and reports malformed ones.
    for wire in [Wire::OpenAi, Wire::OpenAiChat, Wire::Anthropic] {
        let mut config = config(wire);
        config.tools = tools();
        let answer = Answer::default().with_call("call_1", "weather", &["{\"place\": Oslo"]);
        let ask = vec![Message::user("weather?")];
        let (got, _) = exchange_answer(wire, request(config.clone(), ask.clone()), &answer).await;
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
        let (_, sent) =
            exchange_answer(wire, request(config, history), &Answer::text(&["Sorry."])).await;
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
async fn malformed_gemini_call_is_retryable() {
    let answer = Answer::default().with_stop("MALFORMED_FUNCTION_CALL");
    let (got, _) = exchange_answer(Wire::Gemini, ask(Wire::Gemini), &answer).await;
    assert_eq!(got.provider_error().code.as_deref(), Some("malformed_call"));
    assert!(got.error.unwrap().kind().is_transient());
}
