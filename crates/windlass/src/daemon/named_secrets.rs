//! The operator's secrets: their sources, and the hosts and commands that may receive them.

use std::path::Path;

use anyhow::{Context, bail};
use windlass_core::named_secrets::{MAX_SECRET_BYTES, NamedSecret, NamedSecrets, SecretHeader};
use windlass_core::network_access::NetworkAccessList;

use crate::config::{Config, SecretEntry};
use crate::data::own_file;

/// The default header that contains a secret.
const HEADER: &str = "Authorization: Bearer {}";

/// Reads the configured secrets.
pub(crate) fn load(
    config: &Config,
    variable: impl Fn(&str) -> Option<String>,
) -> anyhow::Result<NamedSecrets> {
    let mut secrets = Vec::new();
    for (name, entry) in &config.secrets {
        let read = secret(name, entry, &variable);
        secrets.push(read.with_context(|| format!("secrets.{name}"))?);
    }
    Ok(NamedSecrets::new(secrets)?)
}

/// Returns the files that contain secrets; tools must not see them.
pub(super) fn files(config: &Config) -> impl Iterator<Item = &Path> {
    let entries = config.secrets.values();
    entries.filter_map(|entry| entry.file.as_deref())
}

fn secret(
    name: &str,
    entry: &SecretEntry,
    variable: &impl Fn(&str) -> Option<String>,
) -> anyhow::Result<NamedSecret> {
    let value = match (&entry.variable, &entry.file) {
        (Some(of), None) => {
            variable(of).with_context(|| format!("the daemon has no variable {of}"))?
        }
        (None, Some(file)) => {
            let shown = file.display();
            let text = own_file::read_named(file);
            let text = text.with_context(|| format!("{shown} cannot be read"))?;
            text.trim_end_matches(['\r', '\n']).to_owned()
        }
        (Some(_), Some(_)) => bail!("it has both `variable` and `file`; a secret has one of them"),
        (None, None) => bail!("it has neither `variable` nor `file`"),
    };
    if value.len() > MAX_SECRET_BYTES {
        bail!("it is longer than {MAX_SECRET_BYTES} bytes");
    }
    if !entry.commands && entry.hosts.is_empty() {
        bail!("nothing may receive it: set `commands` or `hosts`");
    }
    Ok(NamedSecret {
        name: name.to_owned(),
        value,
        in_commands: entry.commands,
        header: header(entry)?,
        agents: entry.agents.clone(),
    })
}

fn header(entry: &SecretEntry) -> anyhow::Result<Option<SecretHeader>> {
    if entry.hosts.is_empty() {
        return match entry.header {
            Some(_) => bail!("`header` needs `hosts`"),
            None => Ok(None),
        };
    }
    let hosts = entry.hosts.iter().map(|host| {
        if host.contains("://") {
            host.clone()
        } else {
            format!("https://{host}")
        }
    });
    let to = NetworkAccessList::allow_only(hosts);
    to.validate()?;
    if to.allowed.iter().any(|host| host.contains("://*")) {
        bail!("a secret is sent to named hosts, not to `*`");
    }
    let header = entry.header.as_deref().unwrap_or(HEADER);
    let read = header.split_once(':').and_then(|(name, value)| {
        let before = value.trim_start().strip_suffix("{}")?;
        Some((name, before))
    });
    let (name, before) = read.context("`header` has the form `Name: {}`")?;
    Ok(Some(SecretHeader {
        to,
        name: name.to_owned(),
        before: before.to_owned(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> anyhow::Result<NamedSecrets> {
        let text = format!("[secrets.TOKEN]\n{text}");
        let config = Config::parse(&text, Path::new(""))?;
        load(&config, |name| {
            (name == "HELD").then(|| "abcdefgh-4711".to_owned())
        })
    }

    #[test]
    fn secret_is_sent_only_to_configured_receivers() {
        let secrets = read("variable = 'HELD'\ncommands = true\nhosts = ['api.example']").unwrap();
        let given: Vec<_> = secrets.variables().collect();
        assert_eq!(given, [("TOKEN", "abcdefgh-4711")]);
        let sent: Vec<_> = secrets.headers("https://api.example/x").collect();
        assert_eq!(sent, [("Authorization", "Bearer abcdefgh-4711".to_owned())]);
        assert_eq!(secrets.headers("http://api.example/x").count(), 0);
        assert!(secrets.of_owner(Some("ci")).is_empty());
        let own = "variable = 'HELD'\nhosts = ['http://127.0.0.1:8080']\nheader = 'X-Key: {}'";
        let secrets = read(own).unwrap();
        let sent: Vec<_> = secrets.headers("http://127.0.0.1:8080/").collect();
        assert_eq!(sent, [("X-Key", "abcdefgh-4711".to_owned())]);
        assert_eq!(secrets.variables().count(), 0);
    }

    #[test]
    fn errors_do_not_contain_the_value() {
        for (text, why) in [
            ("commands = true", "neither `variable` nor `file`"),
            ("variable = 'HELD'\nfile = 'x'\ncommands = true", "both"),
            ("variable = 'NONE'\ncommands = true", "no variable NONE"),
            ("file = '/nowhere/x'\ncommands = true", "cannot be read"),
            ("variable = 'HELD'", "nothing may receive it"),
            ("variable = 'HELD'\nhosts = ['*.example']", "not to `*`"),
            ("variable = 'HELD'\nhosts = ['a b']", "a b"),
            (
                "variable = 'HELD'\nhosts = ['a']\nheader = 'X'",
                "`Name: {}`",
            ),
            (
                "variable = 'HELD'\ncommands = true\nheader = 'X: {}'",
                "needs `hosts`",
            ),
        ] {
            let error = format!("{:#}", read(text).unwrap_err());
            assert!(error.contains(why) && !error.contains("4711"), "{error}");
        }
        let error = Config::parse("[secrets.A]\nvalue = 'abcdefgh-4711'", Path::new(""));
        let error = error.unwrap_err().to_string();
        assert!(
            error.contains("value") && !error.contains("4711"),
            "{error}"
        );
    }
}
