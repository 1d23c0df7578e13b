//! The keys that a server is given.

use windlass_core::mcp::ScopedMcpServer;
use windlass_core::traits::SECRET_MASK;

/// A value that is shorter is no key, and would be found in every other word.
const MIN_BYTES: usize = 8;

/// Returns what looks like a key in the configuration of a server, with the name of its place.
pub(super) fn of(server: &ScopedMcpServer) -> Vec<(String, String)> {
    // The key is what follows the word for the kind of key.
    let headers = server.headers.iter().map(|(name, value)| {
        let key = value.rsplit(' ').next().unwrap_or_default();
        (name.clone(), key.to_owned())
    });
    let env = server.env.iter().filter(|(name, _)| is_secret(name));
    let env = env.map(|(name, value)| (name.clone(), value.clone()));
    let keys = headers.chain(env);
    keys.filter(|(_, key)| key.len() >= MIN_BYTES).collect()
}

/// Takes the keys of a server out of what it says.
pub(super) fn hide(server: &ScopedMcpServer, text: &mut String) {
    for (_, key) in of(server) {
        if text.contains(&key) {
            *text = text.replace(&key, SECRET_MASK);
        }
    }
}

/// Tells whether a variable sounds as if it held a key.
fn is_secret(variable: &str) -> bool {
    let variable = variable.to_ascii_uppercase();
    let words = ["TOKEN", "KEY", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL"];
    words.iter().any(|word| variable.contains(word))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn keys_are_found_and_taken_out() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let server = ScopedMcpServer {
            headers: BTreeMap::from([pair("Authorization", "Bearer abcdefgh")]),
            env: BTreeMap::from([
                pair("A_TOKEN", "12345678"),
                pair("LANG", "C.UTF-8."),
                pair("B_KEY", "no"),
            ]),
            ..ScopedMcpServer::default()
        };
        let mut said = "abcdefgh 12345678 C.UTF-8. no".to_owned();
        hide(&server, &mut said);
        assert_eq!(said, format!("{SECRET_MASK} {SECRET_MASK} C.UTF-8. no"));
    }
}
