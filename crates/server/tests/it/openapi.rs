//! The API's own description.

use serde_json::Value;
use windlass_protocol::ErrorCode;

use crate::support::Daemon;

const CHECKED_IN: &str = include_str!("../../../../docs/openapi.json");

/// Collects every reference of a document.
fn references(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                match (name.as_str(), value.as_str()) {
                    ("$ref", Some(target)) => found.push(target.to_owned()),
                    _ => references(value, found),
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|value| references(value, found)),
        _ => {}
    }
}

#[test]
fn every_error_code_is_described_under_its_name() {
    let described: Value = serde_json::from_str(CHECKED_IN).unwrap();
    let described = &described["components"]["schemas"]["ErrorCode"]["enum"];
    let names: Vec<_> = ErrorCode::ALL.iter().map(|code| code.as_str()).collect();
    assert_eq!(*described, serde_json::json!(names));
}

#[tokio::test]
async fn the_description_that_is_served_is_the_one_that_is_checked_in() {
    let daemon = Daemon::start().await;
    let served = daemon.client.get("/v1/openapi.json").await.expect(200);
    let mut found = Vec::new();
    references(&served, &mut found);
    for target in found {
        let pointer = target.trim_start_matches('#');
        assert!(
            served.pointer(pointer).is_some(),
            "{target} is not described"
        );
    }
    if std::env::var_os("WINDLASS_BLESS").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi.json");
        let text = serde_json::to_string_pretty(&served).unwrap();
        std::fs::write(path, text + "\n").unwrap();
        return;
    }
    let checked_in: Value = serde_json::from_str(CHECKED_IN).unwrap();
    assert!(
        served == checked_in,
        "docs/openapi.json is not what is served; run the test with WINDLASS_BLESS=1"
    );
}
