//! The vocabulary of errors.

use serde_json::{json, to_value};
use windlass_protocol::{ErrorBody, ErrorCode};

const PAGE: &str = include_str!("../../../../docs/errors.md");

#[test]
fn every_code_is_written_as_its_name_and_is_explained_with_its_status() {
    for code in ErrorCode::ALL {
        assert_eq!(to_value(code).unwrap(), code.as_str());
        let entry = format!("| `{code}` | {} |", code.status());
        assert!(PAGE.contains(&entry), "docs/errors.md lacks `{entry}`");
    }
}

#[test]
fn the_page_explains_no_code_that_does_not_exist() {
    // How a turn ends has words of its own, and no status.
    let rows = PAGE.lines().filter_map(|line| {
        let (code, rest) = line.strip_prefix("| `")?.split_once("` | ")?;
        let status = rest.split(' ').next()?;
        status.parse::<u16>().is_ok().then_some(code)
    });
    let rows: Vec<_> = rows.collect();
    assert_eq!(rows.len(), ErrorCode::ALL.len());
    for code in rows {
        assert!(
            ErrorCode::ALL.iter().any(|known| known.as_str() == code),
            "{code} is not a code"
        );
    }
}

#[test]
fn a_body_keeps_the_fields_of_the_original() {
    let body = ErrorBody::new(
        ErrorCode::TurnActive,
        "Thread already has an active turn",
        Some(json!({"turn_id": "turn_1"})),
    );
    assert_eq!(
        to_value(&body).unwrap(),
        json!({"error": {"message": "Thread already has an active turn", "status": 409, "code": "turn_active", "details": {"turn_id": "turn_1"}}})
    );
    let of_original = json!({"error": {"message": "x", "status": 404}});
    let read: ErrorBody = serde_json::from_value(of_original.clone()).unwrap();
    assert_eq!(to_value(&read).unwrap(), of_original);
}
