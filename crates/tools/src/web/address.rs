//! Parses the address of a page, which a model or an untrusted server wrote.

use url::{Position, Url};

use super::error::WebError;

/// Maximum length of an address in bytes; servers refuse longer ones.
const MAX_BYTES: usize = 8 * 1024;

/// Parses an address that a model requests. It must be in the form in which it is sent, because rules about the argument are matched against its
/// text.
pub(super) fn parse_strict(text: &str) -> Result<Url, WebError> {
    let url = parse_checked(text, Url::parse)?;
    let normal = normalized(&url)?;
    if is_normalized(text, &url) && normal == url {
        Ok(url)
    } else {
        Err(WebError::Spelling(normal.to_string()))
    }
}

/// Normalizes an address: removes a trailing dot of the host and unnecessary percent-encoding in the path. Servers treat both forms as equal.
fn normalized(url: &Url) -> Result<Url, WebError> {
    let mut normal = url.clone();
    if let Some(host) = url.host_str().and_then(|host| host.strip_suffix('.')) {
        let set = normal.set_host(Some(host));
        set.map_err(|error| WebError::Address(error.to_string()))?;
    }
    let mut pieces = url.path().split('%');
    let mut path = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let c = piece
            .get(..2)
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        let c = c.map(char::from);
        match c.filter(|it| it.is_ascii_alphanumeric() || "-._~".contains(*it)) {
            Some(c) => {
                path.push(c);
                path.push_str(&piece[2..]);
            }
            None => {
                path.push('%');
                path.push_str(piece);
            }
        }
    }
    if path != url.path() {
        normal.set_path(&path);
    }
    Ok(normal)
}

/// Parses an address that a program requests; no rule is matched against its text.
pub(super) fn parse(text: &str) -> Result<Url, WebError> {
    parse_checked(text, Url::parse)
}

/// Returns whether scheme, host and port are in the form in which they are sent, and whether the path has no `.` or `..` to resolve.
fn is_normalized(text: &str, url: &Url) -> bool {
    let Some(rest) = text.strip_prefix(&url[..Position::BeforePath]) else {
        return false;
    };
    let path = rest.split(['?', '#']).next().unwrap_or_default();
    let is_dots = |part: &str| {
        let part = part.to_ascii_lowercase().replace("%2e", ".");
        matches!(part.as_str(), "." | "..")
    };
    (rest.is_empty() || rest.starts_with('/'))
        && !path.contains('\\')
        && !path.split('/').any(is_dots)
}

/// Parses the target of a redirect.
pub(super) fn join(from: &Url, location: &str) -> Result<Url, WebError> {
    parse_checked(location, |location| from.join(location))
}

fn parse_checked(
    text: &str,
    parse: impl FnOnce(&str) -> Result<Url, url::ParseError>,
) -> Result<Url, WebError> {
    let refused = |reason: &str| WebError::Address(reason.to_owned());
    if text.len() > MAX_BYTES {
        return Err(refused("it is too long"));
    }
    // Parsers remove these characters silently, so the parsed address would differ from the one that a person reads.
    if text.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Err(refused("it contains whitespace or control characters"));
    }
    let mut url = parse(text).map_err(|error| refused(&error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(refused("only http and https are supported"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(WebError::Credentials);
    }
    // The fragment is never sent; without it the address is the requested one.
    url.set_fragment(None);
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_http_addresses_are_accepted() {
        for (text, read_as) in [
            ("https://example.com", "https://example.com/"),
            ("http://example.com/a?b#c", "http://example.com/a?b"),
            (
                "http://example.com:8080/ä..?..",
                "http://example.com:8080/%C3%A4..?..",
            ),
            ("http://[::1]/", "http://[::1]/"),
        ] {
            assert_eq!(parse_strict(text).unwrap().as_str(), read_as);
        }
        for text in [
            "",
            "example.com",
            "file:///etc/passwd",
            "ftp://example.com/",
            "javascript:alert(1)",
            "http://",
            "http://example.com/\r\nHost: other",
            "http://exa\tmple.com/",
            "http://example.com /",
            "http://user@example.com/",
            "http://:secret@example.com/",
            "http://example.com:99999/",
            "http://1.2.3.256/",
            "http://[::1%25lo]/",
        ] {
            assert!(parse_strict(text).is_err(), "{text:?}");
        }
        assert!(parse_strict(&format!("http://a.example/{}", "a".repeat(9000))).is_err());
    }

    #[test]
    fn address_must_be_in_its_normal_form() {
        for (text, normal) in [
            ("HTTP://evil.example/", "http://evil.example/"),
            ("https://EVIL.example/", "https://evil.example/"),
            ("http:evil.example/", "http://evil.example/"),
            ("http:/evil.example/", "http://evil.example/"),
            ("http:\\\\evil.example/", "http://evil.example/"),
            ("http:///evil.example/", "http://evil.example/"),
            ("https://evil.example:443/", "https://evil.example/"),
            ("https://evil.example:/", "https://evil.example/"),
            ("https://evil.example?x", "https://evil.example/?x"),
            ("https://evil.example#x", "https://evil.example/"),
            ("https://evil.example\\x", "https://evil.example/x"),
            ("https://%65vil.example/", "https://evil.example/"),
            ("https://ｅvil.example/", "https://evil.example/"),
            ("https://evil.example/a/../b", "https://evil.example/b"),
            ("https://evil.example/a/.%2E/b", "https://evil.example/b"),
            ("https://evil.example/a\\..\\b", "https://evil.example/b"),
            ("http://2130706433/", "http://127.0.0.1/"),
            ("https://evil.example./", "https://evil.example/"),
            ("https://evil.example./a", "https://evil.example/a"),
            (
                "https://evil.example/%61%2Db%2fc",
                "https://evil.example/a-b%2fc",
            ),
        ] {
            let error = parse_strict(text).unwrap_err().to_string();
            let hint = format!("write it as {normal}");
            assert!(error.ends_with(&hint), "{text}: {error}");
            assert!(parse_strict(normal).is_ok(), "{normal}");
        }
    }

    #[test]
    fn credentials_are_not_repeated_in_the_error() {
        let error = parse_strict("http://user:secret@example.com/").unwrap_err();
        assert!(!error.to_string().contains("secret"), "{error}");
    }
}
