//! Parses the address of a page, which a model or an untrusted server wrote.

use url::{Position, Url};

use super::error::WebError;

/// Maximum length of an address in bytes; servers refuse longer ones.
const MAX_BYTES: usize = 8 * 1024;

/// Parses an address that a model requests. It must be in the form in which it is sent, because rules about the argument are matched against its
/// text.
pub(super) fn read(text: &str) -> Result<Url, WebError> {
    let url = checked(text, Url::parse)?;
    let plain = plainest(&url)?;
    if is_plain(text, &url) && plain == url {
        Ok(url)
    } else {
        Err(WebError::Spelling(plain.to_string()))
    }
}

/// Normalizes an address: removes a trailing dot of the host and unnecessary percent-encoding in the path. Servers treat both forms as equal.
fn plainest(url: &Url) -> Result<Url, WebError> {
    let mut plain = url.clone();
    if let Some(host) = url.host_str().and_then(|host| host.strip_suffix('.')) {
        let set = plain.set_host(Some(host));
        set.map_err(|error| WebError::Address(error.to_string()))?;
    }
    let mut pieces = url.path().split('%');
    let mut path = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let letter = piece
            .get(..2)
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        let letter = letter.map(char::from);
        match letter.filter(|it| it.is_ascii_alphanumeric() || "-._~".contains(*it)) {
            Some(letter) => {
                path.push(letter);
                path.push_str(&piece[2..]);
            }
            None => {
                path.push('%');
                path.push_str(piece);
            }
        }
    }
    if path != url.path() {
        plain.set_path(&path);
    }
    Ok(plain)
}

/// Parses an address that a program requests; no rule is matched against its text.
pub(super) fn of_program(text: &str) -> Result<Url, WebError> {
    checked(text, Url::parse)
}

/// Returns whether scheme, host and port are in the form in which they are sent, and whether the path has no `.` or `..` to resolve.
fn is_plain(text: &str, url: &Url) -> bool {
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
    checked(location, |location| from.join(location))
}

fn checked(
    text: &str,
    parse: impl FnOnce(&str) -> Result<Url, url::ParseError>,
) -> Result<Url, WebError> {
    let refused = |reason: &str| WebError::Address(reason.to_owned());
    if text.len() > MAX_BYTES {
        return Err(refused("it is too long"));
    }
    // Parsers remove these characters silently, so the parsed address would differ from the one that a person reads.
    if text
        .chars()
        .any(|letter| letter.is_control() || letter.is_whitespace())
    {
        return Err(refused("it holds blanks or control characters"));
    }
    let mut url = parse(text).map_err(|error| refused(&error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(refused("only http and https are read"));
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
    fn a_page_has_a_plain_address_of_the_web() {
        for (text, read_as) in [
            ("https://example.com", "https://example.com/"),
            ("http://example.com/a?b#c", "http://example.com/a?b"),
            (
                "http://example.com:8080/ä..?..",
                "http://example.com:8080/%C3%A4..?..",
            ),
            ("http://[::1]/", "http://[::1]/"),
        ] {
            assert_eq!(read(text).unwrap().as_str(), read_as);
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
            assert!(read(text).is_err(), "{text:?}");
        }
        assert!(read(&format!("http://a.example/{}", "a".repeat(9000))).is_err());
    }

    #[test]
    fn an_address_is_written_as_it_is_sent() {
        for (text, plain) in [
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
            let told = read(text).unwrap_err().to_string();
            let hint = format!("write it as {plain}");
            assert!(told.ends_with(&hint), "{text}: {told}");
            assert!(read(plain).is_ok(), "{plain}");
        }
    }

    #[test]
    fn a_refusal_of_credentials_does_not_repeat_them() {
        let told = read("http://user:secret@example.com/").unwrap_err();
        assert!(!told.to_string().contains("secret"), "{told}");
    }
}
