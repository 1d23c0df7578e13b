//! The path and query string of a request.

use std::fmt::Write;

use super::{Path, Query};
use crate::api::CallError;

/// Fills the `{names}` of a path and adds the query string, both percent-encoded.
pub(crate) fn request_target(
    template: &str,
    path: &impl Path,
    query: &impl Query,
) -> Result<String, CallError> {
    let parameters = path.parameters();
    let mut target = String::with_capacity(template.len() + 32);
    for (index, segment) in template.split('/').enumerate() {
        if index > 0 {
            target.push('/');
        }
        let name = segment
            .strip_prefix('{')
            .and_then(|name| name.strip_suffix('}'));
        let Some(name) = name else {
            target.push_str(segment);
            continue;
        };
        let value = parameters.iter().find(|(known, _)| *known == name);
        // An empty segment would be the path of another operation.
        match value {
            Some((_, value)) if !value.is_empty() => encode(value, &mut target),
            _ => {
                let text = format!("the path parameter `{name}` is empty");
                return Err(CallError::InvalidRequest(text));
            }
        }
    }
    for (index, (name, value)) in query.pairs().iter().enumerate() {
        target.push(if index == 0 { '?' } else { '&' });
        target.push_str(name);
        target.push('=');
        encode(value, &mut target);
    }
    Ok(target)
}

/// Percent-encodes everything but the unreserved characters of RFC 3986.
fn encode(value: &str, target: &mut String) {
    for byte in value.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                target.push(char::from(byte));
            }
            _ => {
                // Writing to a string does not fail.
                let _ = write!(target, "%{byte:02X}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operations::{CommaList, IdPath, TasksQuery, TurnPath};
    use crate::tasks::TaskStatus;

    #[test]
    fn path_parameters_are_percent_encoded() {
        let path = TurnPath {
            id: "../a?b#c".to_owned(),
            turn_id: "ä %".to_owned(),
        };
        let target = request_target("/v1/threads/{id}/turns/{turn_id}", &path, &());
        let expected = "/v1/threads/..%2Fa%3Fb%23c/turns/%C3%A4%20%25";
        assert_eq!(target.unwrap(), expected);
    }

    #[test]
    fn empty_parameter_is_refused() {
        let path = IdPath::default();
        let refused = request_target("/v1/threads/{id}/resume", &path, &());
        assert!(matches!(refused, Err(CallError::InvalidRequest(_))));
    }

    #[test]
    fn only_set_parameters_are_in_the_query() {
        let query = TasksQuery {
            limit: Some(5),
            status: Some(CommaList(vec![TaskStatus::Queued, TaskStatus::Running])),
            cursor: None,
        };
        let target = request_target("/v1/tasks", &(), &query).unwrap();
        assert_eq!(target, "/v1/tasks?limit=5&status=queued%2Crunning");
        assert_eq!(
            request_target("/v1/tasks", &(), &TasksQuery::default()).unwrap(),
            "/v1/tasks"
        );
    }
}
