use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;

use proptest::prelude::*;
use windlass_core::events::{CustomData, Event, EventContext, EventData, EventRequest};
use windlass_core::typed_id::{EventId, MessageId, SessionId, TurnId};

use super::*;
use crate::durable::record::{Encoded, RecordBuffer, RecordSource, StoredRecord, encode};
use crate::journal::StreamKey;

fn long(text: &str) -> String {
    text.repeat(100)
}

#[track_caller]
fn check(texts: &[&str], expected: &[&[Reference]]) {
    let mut window = Window::default();
    for ((seq, text), expected) in (1..).zip(texts).zip(expected) {
        assert_eq!(window.refer(seq, text.as_bytes()), *expected);
    }
}

#[test]
fn equal_part_around_a_value_becomes_a_reference() {
    let value = long("a");
    let first = format!(r#"{{"x":1,"text":"{value}","y":1}}"#);
    let second = format!(r#"{{"z":2,"text":"{value}","y":2}}"#);
    let to_first = Reference {
        part: 6..first.len() - 2,
        seq: 1,
        start: 6,
    };
    check(&[&first, &second], &[&[], &[to_first]]);
}

#[test]
fn common_prefix_becomes_a_reference() {
    let value = long("word ");
    let first = format!(r#"{{"input":"{value}"}}"#);
    let second = format!(r#"{{"summary":"{}…"}}"#, &value[..200]);
    let to_first = Reference {
        part: 9..12 + 200,
        seq: 1,
        start: 7,
    };
    // The end of the key is equal too.
    check(&[&first, &second], &[&[], &[to_first]]);
}

#[test]
fn references_are_not_chained() {
    let (a, b) = (long("a"), long("b"));
    let mut window = Window::default();
    let first = format!(r#"{{"a":"{a}"}}"#);
    let second = format!(r#"{{"a":"{a}","b":"{b}"}}"#);
    assert_eq!(window.refer(1, first.as_bytes()), []);
    assert_eq!(window.refer(2, second.as_bytes()).len(), 1);
    let third = window.refer(3, second.as_bytes());
    let from: Vec<_> = third.iter().map(|reference| reference.seq).collect();
    assert_eq!(from, [1, 2]);
}

#[test]
fn short_values_are_written_out() {
    let text = r#"{"id":"event_0123","list":[1,2],"data":{"delta":"some words"}}"#;
    check(&[text, text], &[&[], &[]]);
}

fn event(seq: u64, data: EventData) -> Arc<Event> {
    let request = EventRequest::new(SessionId::from_seed(1), EventContext::default(), data);
    Arc::new(request.into_event(EventId::new(), Some(seq)))
}

fn custom(payload: serde_json::Value) -> EventData {
    let name = "test".to_owned();
    EventData::Custom(CustomData { name, payload })
}

fn of_turn(kind: &str, turn: TurnId) -> EventData {
    let fields = serde_json::json!({
        "turn_id": turn, "input_message_id": MessageId::new(), "iterations": 1, "delta": long("d"),
    });
    EventData::from_type(kind, fields).unwrap()
}

/// Stored rows, by number, and blobs, by digest.
struct StoredRows(HashMap<u64, (i64, Vec<u8>)>, HashMap<Vec<u8>, Vec<u8>>);

impl RecordSource for StoredRows {
    type Error = Infallible;

    fn stream(&self) -> Result<i64, Infallible> {
        Ok(1)
    }

    fn blob(&self, name: &[u8]) -> Result<Option<Vec<u8>>, Infallible> {
        Ok(self.1.get(name).cloned())
    }

    fn record(&self, seq: u64) -> Result<Option<(i64, Vec<u8>)>, Infallible> {
        Ok(self.0.get(&seq).cloned())
    }
}

impl StoredRows {
    fn of(records: &[Encoded]) -> Self {
        let mut rows = Self(HashMap::new(), HashMap::new());
        for record in records {
            let (form, body) = record.body();
            rows.0
                .insert(record.seq.unwrap(), (form.code(), body.to_vec()));
            if let Some(bytes) = record.blob() {
                rows.1.insert(body.to_vec(), bytes.to_vec());
            }
        }
        rows
    }

    fn read(&self, seq: u64, buffer: &mut RecordBuffer) -> Result<Arc<Event>, String> {
        let (form, body) = &self.0[&seq];
        let Ok(stored) = StoredRecord::new((seq, 1, [0; 32]), (*form, body), self, buffer);
        stored.checked_bytes()?;
        stored
            .decode(&StreamKey::new("s"))
            .map_err(|error| error.to_string())
    }
}

/// Returns which records are stored with references.
fn referring(records: &[Encoded]) -> Vec<u64> {
    let referring = records.iter().filter(|record| record.version() > 1);
    referring.filter_map(|record| record.seq).collect()
}

#[test]
fn references_stay_within_a_turn_and_a_group() {
    let (one, two) = (TurnId::new(), TurnId::new());
    let text = || custom(long("said ").into());
    let mut data = vec![
        text(),
        text(),
        of_turn("turn.started", one),
        text(),
        text(),
        of_turn("output.message.delta", one),
        of_turn("output.message.delta", one),
        of_turn("turn.completed", one),
        of_turn("turn.started", two),
        text(),
    ];
    data.resize_with(GROUP as usize + 2, text);
    let events: Vec<_> = (1..)
        .zip(data)
        .map(|(seq, data)| event(seq, data))
        .collect();
    let mut window = Window::default();
    let records = encode(&events, &mut window).unwrap();
    let expected: Vec<u64> = [5]
        .into_iter()
        .chain(11..=GROUP)
        .chain([GROUP + 2])
        .collect();
    assert_eq!(referring(&records), expected);
}

#[test]
fn only_the_next_append_of_the_claim_continues_a_window() {
    let mut windows = Windows::default();
    let open = || {
        let mut window = Window::default();
        let events = [
            event(1, of_turn("turn.started", TurnId::new())),
            event(2, custom(long("a").into())),
        ];
        encode(&events, &mut window).unwrap();
        window
    };
    for (next, is_known) in [((1, 3), true), ((1, 4), false), ((2, 3), false)] {
        windows.put(7, open(), (1, 3));
        let window = windows.take(7, next);
        assert_eq!(window.records.is_empty(), !is_known, "{next:?}");
        assert_eq!(windows.bytes, 0);
    }
    windows.put(7, Window::default(), (1, 3));
    assert_eq!(windows.by_stream.count(), 0, "no turn is open");
}

#[test]
fn unresolved_reference_is_reported() {
    let events = [
        event(1, of_turn("turn.started", TurnId::new())),
        event(2, custom(long("a").into())),
        event(3, custom(long("a").into())),
    ];
    let records = encode(&events, &mut Window::default()).unwrap();
    let mut rows = StoredRows::of(&records);
    assert_eq!(
        rows.read(3, &mut RecordBuffer::default()),
        Ok(events[2].clone())
    );
    rows.0.get_mut(&2).unwrap().1.truncate(20);
    let error = rows.read(3, &mut RecordBuffer::default()).unwrap_err();
    assert_eq!(error, "it refers to a part of record 2 that is not there");
    rows.0.remove(&2);
    let error = rows.read(3, &mut RecordBuffer::default()).unwrap_err();
    assert_eq!(error, "it refers to record 2, which is missing");
}

fn payload() -> impl Strategy<Value = serde_json::Value> {
    let text = prop_oneof![
        "[a-c\"\\\\\n{}\\[\\]:,]{0,8}".prop_map(|text| text.repeat(40)),
        "\\PC{0,20}".prop_map(|text| text.repeat(9)),
        Just("{\"text\":\"".repeat(30)),
        Just("x".repeat(40_000)),
        "[a-z]{1,4}",
    ];
    let leaf = text.prop_map(serde_json::Value::from);
    leaf.prop_recursive(3, 12, 3, |inner| {
        let list = prop::collection::vec(inner.clone(), 0..3).prop_map(serde_json::Value::from);
        let map = prop::collection::btree_map("[a-b]{1,2}", inner, 0..3)
            .prop_map(|map| serde_json::Value::Object(map.into_iter().collect()));
        prop_oneof![list, map]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_events_round_trip(
        values in prop::collection::vec(payload(), 1..4),
        picks in prop::collection::vec((0..4_usize, 0..4_usize, any::<bool>()), 1..160),
    ) {
        let turn = TurnId::new();
        let pick = |n: usize| values[n % values.len()].clone();
        let data = picks.iter().map(|(one, other, has_both)| match has_both {
            true => custom(serde_json::json!({ "one": pick(*one), "other": pick(*other) })),
            false => custom(pick(*one)),
        });
        let data = std::iter::once(of_turn("turn.started", turn)).chain(data);
        let events: Vec<_> = (1..).zip(data).map(|(seq, data)| event(seq, data)).collect();
        let mut window = Window::default();
        let mut records = Vec::new();
        for batch in events.chunks(7) {
            records.extend(encode(batch, &mut window).unwrap());
        }
        let rows = StoredRows::of(&records);
        let mut buffer = RecordBuffer::default();
        for event in &events {
            let seq = event.seq();
            prop_assert_eq!(&rows.read(seq, &mut buffer).unwrap(), event);
            prop_assert_eq!(&rows.read(seq, &mut RecordBuffer::default()).unwrap(), event);
        }
    }
}
