//! Keys in the configuration of a server.

use url::Url;
use windlass_core::mcp::ScopedMcpServer;
use windlass_core::traits::SECRET_MASK;

/// Minimum length of a key in bytes: a shorter value would match inside ordinary words.
const MIN_BYTES: usize = 8;

/// Returns the probable keys in the configuration of a server, each with the name of its setting.
pub(super) fn keys_of(server: &ScopedMcpServer) -> Vec<(String, String)> {
    let mut keys = Vec::new();
    for (name, value) in &server.headers {
        if has_any(name, &["COOKIE"]) {
            for (cookie, key) in value.split(';').filter_map(|pair| pair.split_once('=')) {
                keys.push((format!("{name}_{}", cookie.trim()), key.to_owned()));
            }
        } else if is_secret(name) || has_any(name, &["AUTH"]) {
            // The key follows the name of the authentication scheme.
            let key = value.rsplit(' ').next().unwrap_or_default();
            keys.push((name.clone(), key.to_owned()));
        }
    }
    let env = server.env.iter().filter(|(name, _)| is_secret(name));
    keys.extend(env.map(|(name, value)| (name.clone(), value.clone())));
    if let Some(url) = server.url.as_deref().and_then(|url| Url::parse(url).ok()) {
        let pairs = url.query_pairs().filter(|(name, _)| is_secret(name));
        keys.extend(pairs.map(|(name, key)| (name.into_owned(), key.into_owned())));
    }
    keys.retain(|(_, key)| key.len() >= MIN_BYTES);
    keys
}

/// Masks the keys in a text that is stored in a file: a later reader has no configuration to mask them with.
pub(super) fn mask(server: &ScopedMcpServer, text: &mut String) {
    for (name, key) in keys_of(server) {
        if text.contains(&key) {
            *text = text.replace(&key, &format!("{SECRET_MASK}{name}]"));
        }
    }
}

/// Returns whether a setting with this name probably contains a key.
fn is_secret(name: &str) -> bool {
    let words = ["TOKEN", "KEY", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL"];
    has_any(name, &words)
}

fn has_any(name: &str, words: &[&str]) -> bool {
    let name = name.to_ascii_uppercase();
    words.iter().any(|word| name.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_found_and_other_values_are_not() {
        let pairs = |pairs: &[(&str, &str)]| {
            let pairs = pairs.iter();
            pairs.map(|(a, b)| ((*a).into(), (*b).into())).collect()
        };
        let server = ScopedMcpServer {
            url: Some("https://a.example/mcp?api_key=queried%20key&page=12345678".to_owned()),
            headers: pairs(&[
                ("Authorization", "Bearer abcdefgh"),
                ("X-Api-Key", "ijklmnop"),
                ("Cookie", "id=crumbled1; theme=brown; sid=crumbled2"),
                ("Accept", "application/json"),
                ("X-MCP-Toolsets", "issues,pull_requests"),
            ]),
            env: pairs(&[
                ("A_TOKEN", "12345678"),
                ("LANG", "C.UTF-8."),
                ("B_KEY", "no"),
            ]),
            ..ScopedMcpServer::default()
        };
        let mut found = keys_of(&server);
        found.sort();
        let expected = [
            ("A_TOKEN", "12345678"),
            ("Authorization", "abcdefgh"),
            ("Cookie_id", "crumbled1"),
            ("Cookie_sid", "crumbled2"),
            ("X-Api-Key", "ijklmnop"),
            ("api_key", "queried key"),
        ];
        assert_eq!(found, expected.map(|(a, b)| (a.to_owned(), b.to_owned())));
    }
}
