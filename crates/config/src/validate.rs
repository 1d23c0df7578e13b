//! Rejects meaningless values while a text is parsed, so that the error has the line.

use serde::de::{Deserialize, Deserializer, Error};

use crate::split_url;

/// Parses the URL of a proxy. The error does not quote it: it may contain a password.
pub(crate) fn proxy<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    match Option::<String>::deserialize(from)? {
        Some(url) if !is_http(&url) => Err(Error::custom(
            "`proxy` is not the URL of a proxy; write one such as \"http://proxy.example:3128\"",
        )),
        proxy => Ok(proxy),
    }
}

fn is_http(url: &str) -> bool {
    let (scheme, host, _) = split_url(url);
    let is_known = ["http", "https"].contains(&scheme.to_ascii_lowercase().as_str());
    is_known && !host.is_empty() && !host.starts_with(':') && !host.contains(char::is_whitespace)
}

/// Parses the name of a program.
pub(crate) fn program<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    match Option::<String>::deserialize(from)? {
        Some(name) if name.trim().is_empty() => Err(Error::custom(
            "`command` is empty; name the program to start",
        )),
        program => Ok(program),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::Config;

    fn read(text: &str) -> Result<Config, String> {
        Config::parse(text, Path::new("")).map_err(|error| error.to_string())
    }

    #[test]
    fn proxy_is_a_url_and_its_password_is_not_displayed() {
        for proxy in [
            "http://proxy.example:3128",
            "https://me:word@127.0.0.1:1/",
            "HTTP://[::1]:3128",
        ] {
            assert!(read(&format!("proxy = '{proxy}'")).is_ok(), "{proxy}");
        }
        for proxy in [
            "",
            "nope",
            "me:word@proxy.example:1",
            "socks5://me:word@127.0.0.1:1",
            "http://",
            "http://me:word@",
            "http://:3128",
            "http://a b",
        ] {
            let error = read(&format!("\nproxy = '{proxy}'")).unwrap_err();
            assert!(
                error.starts_with("line 2: `proxy` is not the URL"),
                "{error}"
            );
            assert!(!error.contains("word"), "{error}");
        }
    }

    #[test]
    fn empty_command_of_a_server_is_rejected() {
        assert!(read("[mcp_servers.a]\ncommand = 'npx'").is_ok());
        for empty in ["", " "] {
            let error = read(&format!("[mcp_servers.a]\ncommand = '{empty}'")).unwrap_err();
            assert_eq!(
                error,
                "line 2: `command` is empty; name the program to start"
            );
        }
    }
}
