//! The API as an OpenAPI 3.1 document, derived from the declared operations and events.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use crate::operations::{Method, Operation, RequestBody, RequiredScope, ResponseForm};
use crate::{ErrorBody, EventName, RUNTIME_API_VERSION, events, operations};

/// Name of the schema of any event.
const ANY_EVENT: &str = "RuntimeEvent";

/// An OpenAPI document that is being built.
#[derive(Default)]
pub(crate) struct Document {
    paths: BTreeMap<&'static str, Map<String, Value>>,
    schemas: BTreeMap<String, RefOr<Schema>>,
    refusals: BTreeMap<String, Value>,
    events: Vec<(String, Value)>,
}

/// Returns the description of the whole API.
#[must_use]
pub fn document() -> Value {
    let mut document = Document::default();
    document.schema::<ErrorBody>();
    document.schema::<events::Envelope>();
    operations::describe(&mut document);
    events::describe(&mut document);
    document.finish()
}

fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

fn response_reference(name: &str) -> Value {
    json!({ "$ref": format!("#/components/responses/{name}") })
}

impl Document {
    /// Adds the schema of a type with everything it refers to; returns a reference to it.
    pub(crate) fn schema<T: ToSchema + PartialSchema>(&mut self) -> Value {
        let mut parts = Vec::new();
        T::schemas(&mut parts);
        let name = T::name().into_owned();
        if name == "Value" {
            return json!({});
        }
        parts.push((name.clone(), T::schema()));
        self.schemas.extend(parts);
        reference(&name)
    }

    pub(crate) fn add(
        &mut self,
        operation: &Operation,
        body: Option<Value>,
        response: Option<Value>,
    ) {
        let refusals = refusals(operation);
        let methods = self.paths.entry(operation.path).or_default();
        let method = operation.method.as_str().to_ascii_lowercase();
        methods.insert(method, describe(operation, body, response, &refusals));
        let refusals = refusals.into_iter();
        self.refusals
            .extend(refusals.map(|refusal| (refusal.name, refusal.response)));
    }

    pub(crate) fn add_event(&mut self, name: EventName, payload: &Value) {
        let event = json!({
            "allOf": [reference("RuntimeEventEnvelope"), {
                "type": "object",
                "properties": {
                    "event": { "type": "string", "enum": [name.as_str()] },
                    "kind": { "type": "string", "enum": [name.as_str()] },
                    "payload": payload,
                },
                "required": ["event", "kind", "payload"],
            }],
        });
        self.events.push((format!("{name:?}Event"), event));
    }

    fn finish(self) -> Value {
        let any: Vec<_> = self
            .events
            .iter()
            .map(|(name, _)| reference(name))
            .collect();
        let any = json!({
            "description": "An event of a thread: the data of a frame, or a line of an export.",
            "oneOf": any,
        });
        let schemas = self.schemas.into_iter().map(|(name, schema)| {
            let mut schema = serde_json::to_value(schema).unwrap_or_default();
            drop_defaults(&mut schema);
            (name, schema)
        });
        let schemas: BTreeMap<_, _> = schemas
            .chain(self.events)
            .chain([(ANY_EVENT.to_owned(), any)])
            .collect();
        json!({
            "openapi": "3.1.0",
            "info": {
                "title": "Windlass Runtime API",
                "version": RUNTIME_API_VERSION,
                "license": { "name": "MIT OR Apache-2.0" },
            },
            "security": [{ "token": [] }],
            "paths": self.paths,
            "components": {
                "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
                "schemas": schemas,
                "responses": self.refusals,
            },
        })
    }
}

/// Removes defaults: generators treat a field with a default as always present, which is wrong for requests.
fn drop_defaults(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            if let Some(Value::Object(properties)) = fields.get_mut("properties") {
                for property in properties.values_mut().filter_map(Value::as_object_mut) {
                    property.remove("default");
                }
            }
            fields.values_mut().for_each(drop_defaults);
        }
        Value::Array(values) => values.iter_mut().for_each(drop_defaults),
        _ => {}
    }
}

fn content(media: &str, schema: Value) -> Value {
    json!({ media: { "schema": schema } })
}

/// Returns the name of a stream's element.
fn element(reference: &Value) -> String {
    let target = reference["$ref"].as_str().unwrap_or_default();
    let name = target.rsplit('/').next().unwrap_or_default();
    let name = if name == "RuntimeEventEnvelope" {
        ANY_EVENT
    } else {
        name
    };
    name.to_owned()
}

fn describe(
    operation: &Operation,
    body: Option<Value>,
    response: Option<Value>,
    refusals: &[Refusal],
) -> Value {
    let mut success = json!({ "description": operation.summary });
    let element = response.as_ref().map(element);
    let schema = response.unwrap_or_else(|| json!({ "type": "string" }));
    let text = |description: String| json!({ "type": "string", "description": description });
    match operation.response {
        ResponseForm::Json => success["content"] = content("application/json", schema),
        ResponseForm::List => {
            let list = json!({ "type": "array", "items": schema });
            success["content"] = content("application/json", list);
        }
        ResponseForm::Events | ResponseForm::Frames => {
            let description = match element {
                Some(element) => format!("The `data` of each frame is a `{element}`."),
                None => "Frames with their own names, from `turn.started` to `done`.".to_owned(),
            };
            success["content"] = content("text/event-stream", text(description));
        }
        ResponseForm::Lines => {
            let description = format!(
                "`{{\"thread\": Thread}}`, then a `{}` per line. The first line of a fork also has `shared`: the `turns` and `items` \
                 that it shares with its parent, unless `since_seq` is after them.",
                element.unwrap_or_default()
            );
            success["content"] = content("application/x-ndjson", text(description));
        }
        ResponseForm::Text => success["content"] = content("text/plain", schema),
        ResponseForm::Empty => {}
    }
    let refusals = refusals.iter();
    let mut responses: Map<String, Value> = refusals
        .map(|refusal| (refusal.status.clone(), response_reference(&refusal.name)))
        .collect();
    responses.insert(operation.status.to_string(), success);
    let mut described = json!({
        "operationId": operation.id(),
        "summary": operation.summary,
        "responses": responses,
    });
    let parameters: Vec<_> = parameters(operation).collect();
    if !parameters.is_empty() {
        described["parameters"] = parameters.into();
    }
    if let Some(body) = body {
        described["requestBody"] = json!({
            "required": operation.body == RequestBody::Required,
            "content": content("application/json", body),
        });
    }
    if operation.scope == RequiredScope::Anyone {
        described["security"] = json!([]);
    }
    described
}

/// A response with an error. Operations that refuse with the same codes share it.
struct Refusal {
    /// The status code, or `default`.
    status: String,
    name: String,
    response: Value,
}

/// Returns a response for each status of an error, with its codes. A newer daemon may have more.
fn refusals(operation: &Operation) -> Vec<Refusal> {
    let response = |description: String| json!({ "description": description, "content": content("application/json", reference("ErrorBody")) });
    let mut by_status: BTreeMap<u16, Vec<&str>> = BTreeMap::new();
    for code in operation.errors() {
        by_status
            .entry(code.status())
            .or_default()
            .push(code.as_str());
    }
    let listed = by_status.into_iter().map(|(status, codes)| {
        let mut response = response(format!("`{}`", codes.join("`, `")));
        let name = codes.join(".");
        response["x-error-codes"] = codes.into();
        Refusal {
            status: status.to_string(),
            name,
            response,
        }
    });
    let other = Refusal {
        status: "default".to_owned(),
        name: "other".to_owned(),
        response: response("The request was refused".to_owned()),
    };
    listed.chain([other]).collect()
}

fn parameters(operation: &Operation) -> impl Iterator<Item = Value> {
    let in_path = operation.path.split('/').filter_map(|part| {
        let name = part.strip_prefix('{')?.strip_suffix('}')?;
        Some(json!({
            "name": name, "in": "path", "required": true,
            "schema": { "type": "string", "pattern": "^[A-Za-z0-9_-]+$" },
        }))
    });
    let in_query = operation.query.iter().map(|parameter| {
        let mut schema = json!({ "type": parameter.schema });
        if parameter.schema == "integer" {
            schema["minimum"] = 0.into();
        }
        json!({ "name": parameter.name, "in": "query", "schema": schema, "description": parameter.meaning })
    });
    in_path.chain(in_query).chain(header(operation))
}

/// Returns the header that a request may have in addition to the token.
fn header(operation: &Operation) -> Option<Value> {
    match (operation.method, operation.response) {
        (_, ResponseForm::Frames) => None,
        (Method::Post, _) => Some(json!({
            "name": "Idempotency-Key", "in": "header",
            "schema": { "type": "string", "minLength": 1, "maxLength": 255 },
            "description": "Identifies the request, so that it can be repeated: the same key and body give the first response.",
        })),
        (Method::Get, ResponseForm::Events) if operation.path.starts_with("/v1/threads/") => {
            Some(json!({
                "name": "Last-Event-ID", "in": "header",
                "schema": { "type": "integer", "minimum": 0 },
                "description": "The `seq` of the last received event, as browsers send it; it takes precedence over `since_seq`.",
            }))
        }
        _ => None,
    }
}
