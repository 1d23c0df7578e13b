//! Decoding of events.
//!
//! The type name selects the form of the payload. An event is written with its type before its payload, so that the payload is decoded directly into
//! its type. In any other order, the payload is first read as a JSON value.

use std::fmt;

use chrono::{DateTime, Utc};
use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::{Event, EventData};

const FIELDS: &[&str] = &[
    "id",
    "type",
    "ts",
    "session_id",
    "context",
    "data",
    "metadata",
    "tags",
    "sequence",
];

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "snake_case")]
enum Field {
    Id,
    Type,
    Ts,
    SessionId,
    Context,
    Data,
    Metadata,
    Tags,
    Sequence,
    #[serde(other)]
    Other,
}

enum Payload {
    Decoded(EventData),
    Raw(Value),
}

/// A timestamp that is parsed fast.
#[derive(Deserialize)]
struct Moment(#[serde(with = "crate::moment")] DateTime<Utc>);

/// Reads the payload of a type.
struct PayloadOf<'a>(&'a str);

impl<'de> DeserializeSeed<'de> for PayloadOf<'_> {
    type Value = EventData;

    fn deserialize<D: Deserializer<'de>>(self, payload: D) -> Result<EventData, D::Error> {
        EventData::read(self.0, payload)
    }
}

impl<'de> Deserialize<'de> for Event {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_struct("Event", FIELDS, EventVisitor)
    }
}

struct EventVisitor;

impl<'de> Visitor<'de> for EventVisitor {
    type Value = Event;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an event")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Event, A::Error> {
        let (mut id, mut event_type, mut ts, mut session_id) = (None, None::<String>, None, None);
        let (mut context, mut payload) = (None, None);
        let (mut metadata, mut tags, mut sequence) = (None, None, None);
        while let Some(field) = map.next_key()? {
            match field {
                Field::Id => set(&mut id, "id", map.next_value()?)?,
                Field::Type => set(&mut event_type, "type", map.next_value()?)?,
                Field::Ts => set(&mut ts, "ts", map.next_value::<Moment>()?.0)?,
                Field::SessionId => set(&mut session_id, "session_id", map.next_value()?)?,
                Field::Context => set(&mut context, "context", map.next_value()?)?,
                Field::Data if payload.is_some() => return Err(A::Error::duplicate_field("data")),
                // Decoded in place: a payload is large, and each move of it costs.
                Field::Data => match &event_type {
                    Some(name) => {
                        payload = Some(Payload::Decoded(map.next_value_seed(PayloadOf(name))?));
                    }
                    None => payload = Some(Payload::Raw(map.next_value()?)),
                },
                Field::Metadata => set(&mut metadata, "metadata", map.next_value()?)?,
                Field::Tags => set(&mut tags, "tags", map.next_value()?)?,
                Field::Sequence => set(&mut sequence, "sequence", map.next_value()?)?,
                Field::Other => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        let missing = A::Error::missing_field;
        let event_type = event_type.ok_or_else(|| missing("type"))?;
        let data = match payload.ok_or_else(|| missing("data"))? {
            Payload::Decoded(data) => data,
            Payload::Raw(value) => {
                EventData::from_type(&event_type, value).map_err(A::Error::custom)?
            }
        };
        Ok(Event {
            id: id.ok_or_else(|| missing("id"))?,
            event_type,
            ts: ts.ok_or_else(|| missing("ts"))?,
            session_id: session_id.ok_or_else(|| missing("session_id"))?,
            context: context.unwrap_or_default(),
            data,
            metadata: metadata.flatten(),
            tags: tags.flatten(),
            sequence: sequence.flatten(),
        })
    }
}

/// Sets a field; refuses a duplicate.
fn set<T, E: Error>(field: &mut Option<T>, name: &'static str, value: T) -> Result<(), E> {
    match field.replace(value) {
        None => Ok(()),
        Some(_) => Err(E::duplicate_field(name)),
    }
}
