//! Schemas of tools that clients bring.

use windlass_runtime::check_schema;

use super::bytes::Bytes;
use super::schema_values::schema;

/// Any schema is taken or refused with a reason, and what was written and read back fares the same.
pub fn schemas(data: &[u8]) {
    let schema = schema(&mut Bytes::new(data));
    let answer = check_schema(&schema);
    if let Err(reason) = &answer {
        assert!(!reason.is_empty(), "{schema} is refused without a reason");
    }
    // What is deeper than a reader of JSON goes was never read.
    if let Ok(again) = serde_json::from_str(&schema.to_string()) {
        let again = check_schema(&again);
        assert_eq!(
            again.is_ok(),
            answer.is_ok(),
            "{schema}: {answer:?}, {again:?}"
        );
    }
}
