//! Values of the right type without a meaning. They are refused where they are parsed, so that the error has the file and the line.

use serde::de::{Deserialize, Deserializer, Error};

/// Reads the address of a proxy. It is not shown: it may hold a password.
pub(crate) fn proxy<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    let url = Option::<String>::deserialize(from)?;
    if url.as_deref().is_none_or(is_http) {
        Ok(url)
    } else {
        Err(Error::custom(
            "`proxy` is no address of a proxy; write one such as \"http://proxy.example:3128\"",
        ))
    }
}

fn is_http(url: &str) -> bool {
    let Some((scheme, rest)) = url.split_once("://") else {
        return false;
    };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let host = rest[..end].rsplit('@').next().unwrap_or_default();
    let is_known = ["http", "https"].contains(&scheme.to_ascii_lowercase().as_str());
    is_known && !host.is_empty() && !host.starts_with(':') && !host.contains(char::is_whitespace)
}

/// Reads the name of a program.
pub(crate) fn program<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    let program = Option::<String>::deserialize(from)?;
    if program
        .as_deref()
        .is_some_and(|name| name.trim().is_empty())
    {
        Err(Error::custom(
            "`command` is empty; name the program to start",
        ))
    } else {
        Ok(program)
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
    fn a_proxy_is_an_address_and_no_password_is_shown() {
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
            let told = read(&format!("\nproxy = '{proxy}'")).unwrap_err();
            assert!(told.starts_with("line 2: `proxy` is no address"), "{told}");
            assert!(!told.contains("word"), "{told}");
        }
    }

    #[test]
    fn a_server_without_a_program_is_told_with_its_line() {
        assert!(read("[mcp_servers.a]\ncommand = 'npx'").is_ok());
        for empty in ["", " "] {
            let told = read(&format!("[mcp_servers.a]\ncommand = '{empty}'")).unwrap_err();
            assert_eq!(
                told,
                "line 2: `command` is empty; name the program to start"
            );
        }
    }
}
