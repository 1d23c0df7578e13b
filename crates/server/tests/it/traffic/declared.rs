//! Every returned error code is declared for its operation.

use windlass_protocol::operations::OPERATIONS;

use crate::support::Reply;

/// Checks a response of an operation, identified by its method and path template.
#[track_caller]
pub(super) fn check(method: &str, path: &str, reply: &Reply) {
    let mut operations = OPERATIONS.iter();
    let operation = operations.find(|it| it.method.as_str() == method && it.path == path);
    let Some(operation) = operation.filter(|_| reply.status >= 400) else {
        return;
    };
    let (code, declared) = (reply.code(), operation.errors());
    let is_declared = declared.iter().any(|known| known.as_str() == code);
    assert!(is_declared, "{} does not declare `{code}`", operation.name);
}
