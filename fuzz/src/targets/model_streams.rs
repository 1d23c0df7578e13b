//! The streams of the four model APIs.

use serde_json::{Value, json};
use windlass_core::error::ProviderError;
use windlass_core::llm_driver_registry::LlmStreamEvent;
use windlass_models::Api;
use windlass_models::decode::{AnswerDecoder, DecodeOptions};
use windlass_testkit::{Answer, Wire};

/// The stream of OpenAI's Responses.
pub fn stream_openai(data: &[u8]) {
    holds(Api::OpenAi, Wire::OpenAi, data);
}

/// The stream of OpenAI's Chat Completions.
pub fn stream_openai_chat(data: &[u8]) {
    holds(Api::OpenAiChat, Wire::OpenAiChat, data);
}

/// The stream of Anthropic's Messages.
pub fn stream_anthropic(data: &[u8]) {
    holds(Api::Anthropic, Wire::Anthropic, data);
}

/// The stream of Gemini.
pub fn stream_gemini(data: &[u8]) {
    holds(Api::Gemini, Wire::Gemini, data);
}

/// Bytes that are no events seldom get far, so they are tried a second time as choices among events that the API
/// could send, some of them damaged.
fn holds(api: Api, wire: Wire, data: &[u8]) {
    check(api, data, data);
    check(api, compose(wire, data).as_bytes(), data);
}

/// However the bytes are cut, the same is heard; an answer ends once and nothing follows.
fn check(api: Api, bytes: &[u8], cuts: &[u8]) {
    let (whole, ended) = decode(api, &[bytes]);
    let mut pieces = Vec::new();
    let mut rest = bytes;
    for cut in cuts.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let (piece, after) = rest.split_at(usize::from(*cut).clamp(1, rest.len()));
        pieces.push(piece);
        rest = after;
    }
    let (cut, cut_ended) = decode(api, &pieces);
    assert_eq!(joined(&whole), joined(&cut), "a cut changes what is heard");
    assert_eq!(ended, cut_ended, "a cut changes how it ends");

    let ends = whole
        .iter()
        .filter(|event| matches!(event, LlmStreamEvent::Done(_)));
    assert_eq!(
        ends.count(),
        usize::from(ended.is_ok()),
        "{ended:?} {whole:?}"
    );
    if ended.is_ok() {
        assert!(
            matches!(whole.last(), Some(LlmStreamEvent::Done(_))),
            "something follows the end"
        );
    }
    places_exist(&whole);
}

/// Reasoning has a position that exists in the answer.
fn places_exist(events: &[LlmStreamEvent]) {
    let mut text = 0;
    for event in events {
        match event {
            LlmStreamEvent::TextDelta(delta) => text += delta.len(),
            LlmStreamEvent::ReasonItem { payload, .. } => {
                assert_eq!(payload["text"], json!(text), "reasoning at another place");
            }
            LlmStreamEvent::ToolCalls(calls) => {
                assert!(
                    calls.iter().all(|call| !call.id.is_empty()),
                    "a call without id"
                );
            }
            _ => {}
        }
    }
}

fn decode(api: Api, pieces: &[&[u8]]) -> (Vec<LlmStreamEvent>, Result<(), ProviderError>) {
    let options = DecodeOptions {
        max_line_bytes: 4_096,
        ..DecodeOptions::default()
    };
    let mut decoder = AnswerDecoder::new(api, options);
    let fed = pieces.iter().try_for_each(|piece| decoder.feed(piece));
    let ended = fed.and_then(|()| decoder.end());
    (std::iter::from_fn(|| decoder.next_piece()).collect(), ended)
}

fn joined(events: &[LlmStreamEvent]) -> String {
    format!("{events:?}")
}

fn compose(wire: Wire, data: &[u8]) -> String {
    let answers = [
        Answer::text(&["Hel", "l\u{f6}"]).with_thinking(&["hm", "m"], "c2ln"),
        Answer::text(&["x"])
            .with_call("c1", "tool", &["{\"a\":", "1}"])
            .with_call("", "tool", &["{"]),
        Answer::default().with_stop("refusal"),
    ];
    let mut pool: Vec<String> = answers
        .iter()
        .flat_map(|answer| wire.events(answer))
        .collect();
    pool.push(wire.error_event());
    let odd = [
        "data: [DONE]\n\n",
        "data: null\n\n",
        "data: []\n\n",
        "data: {}\n\n",
        ": c\n\n",
        "data: \"x\"\n\n",
    ];
    pool.extend(odd.map(str::to_owned));
    let mut stream = String::new();
    for choice in data.chunks(3) {
        let [event, damage, place] = [0, 1, 2].map(|n| choice.get(n).copied().unwrap_or(0));
        let event = &pool[usize::from(event) % pool.len()];
        match damage % 4 {
            0 | 1 => stream.push_str(event),
            2 => stream.push_str(&damaged(event, damage, place)),
            _ => stream.push_str(&event.replace('\n', "\r\n")),
        }
    }
    stream
}

/// Replaces one value of the event by an unexpected one.
fn damaged(event: &str, with: u8, place: u8) -> String {
    let Some((head, rest)) = event.split_once("data: ") else {
        return event.to_owned();
    };
    let Ok(mut data) = serde_json::from_str::<Value>(rest.trim_end()) else {
        return event.to_owned();
    };
    let odd = [
        Value::Null,
        json!(""),
        json!("x"),
        json!(0),
        json!(-1),
        json!(u64::MAX),
        json!(1.5),
        json!([]),
        json!({}),
        json!([{}]),
        json!(true),
    ];
    let mut left = usize::from(place) % 40;
    replace(
        &mut data,
        &mut left,
        &odd[usize::from(with / 4) % odd.len()],
    );
    format!("{head}data: {data}\n\n")
}

fn replace(value: &mut Value, left: &mut usize, with: &Value) -> bool {
    if *left == 0 {
        *value = with.clone();
        return true;
    }
    *left -= 1;
    match value {
        Value::Array(values) => values.iter_mut().any(|value| replace(value, left, with)),
        Value::Object(fields) => fields.values_mut().any(|value| replace(value, left, with)),
        _ => false,
    }
}
