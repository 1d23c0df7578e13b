//! Secrets of the operator. Models refer to them by name, and tools insert them where the operator allows it.

use std::fmt;
use std::sync::Arc;

use crate::network_access::NetworkAccessList;

/// Minimum length of a secret. A shorter value occurs in other text by chance and cannot be masked.
pub const MIN_SECRET_BYTES: usize = 8;
/// Maximum length of a secret, in bytes.
pub const MAX_SECRET_BYTES: usize = 16 * 1024;
/// Maximum number of secrets: every record is searched for each of them.
pub const MAX_SECRETS: usize = 64;

/// A secret of the operator, and its destinations. `Debug` does not show the value.
#[derive(Clone, PartialEq, Eq)]
pub struct NamedSecret {
    /// The name, in the form of an environment variable.
    pub name: String,
    /// The secret, never logged or recorded.
    pub value: String,
    /// Whether commands find it in the variable of its name.
    pub in_commands: bool,
    /// The requests that contain it.
    pub header: Option<SecretHeader>,
    /// The agents whose threads have it too. Threads of the operator have it in any case.
    pub agents: Vec<String>,
}

/// The requests that contain a secret, and the header that contains it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretHeader {
    /// The destinations; each pattern has a scheme.
    pub to: NetworkAccessList,
    pub name: String,
    /// Prefix of the secret in the header, such as `Bearer `.
    pub before: String,
}

impl NamedSecret {
    /// Returns whether requests to an address may contain it.
    #[must_use]
    pub fn goes_to(&self, url: &str) -> bool {
        // A list without patterns allows everything.
        let is_destination =
            |to: &NetworkAccessList| !to.allowed.is_empty() && to.is_url_allowed(url);
        let header = self.header.as_ref();
        header.is_some_and(|header| is_destination(&header.to))
    }
}

impl fmt::Debug for NamedSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NamedSecret")
            .field("name", &self.name)
            .field("in_commands", &self.in_commands)
            .field("header", &self.header)
            .field("agents", &self.agents)
            .finish_non_exhaustive()
    }
}

/// Why secrets cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("secret `{name}`: {problem}")]
pub struct InvalidSecret {
    pub name: String,
    pub problem: &'static str,
}

/// The operator's secrets, or the subset that one call may use.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NamedSecrets(Arc<[NamedSecret]>);

impl NamedSecrets {
    /// Checks and wraps secrets.
    ///
    /// # Errors
    /// A secret cannot be sent, inserted or masked.
    pub fn new(secrets: Vec<NamedSecret>) -> Result<Self, InvalidSecret> {
        for (n, secret) in secrets.iter().enumerate() {
            let problem = match () {
                () if n >= MAX_SECRETS => "there are too many",
                () if !is_name(&secret.name) => "a name has letters, digits and `_`",
                () if secrets[..n].iter().any(|other| other.name == secret.name) => {
                    "there are two of this name"
                }
                () if secret.value.len() < MIN_SECRET_BYTES => {
                    "it is shorter than 8 bytes and could not be distinguished from other text"
                }
                () if secret.value.len() > MAX_SECRET_BYTES => "it is longer than 16384 bytes",
                () if secret.value.contains('\0') => "it contains a NUL character",
                () if secret.header.is_some() && !is_line(&secret.value) => {
                    "it is sent in a header and is not a line of visible characters"
                }
                () if !secret.header.iter().all(is_header) => "its header cannot be sent",
                () => continue,
            };
            return Err(InvalidSecret {
                name: secret.name.clone(),
                problem,
            });
        }
        Ok(Self(secrets.into()))
    }

    /// Returns whether there are no secrets.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Iterates over all secrets.
    pub fn iter(&self) -> impl Iterator<Item = &NamedSecret> {
        self.0.iter()
    }

    /// Returns a secret by its name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&NamedSecret> {
        self.0.iter().find(|secret| secret.name == name)
    }

    /// Returns the secrets that an owner may use; `None` is the operator, who may use all.
    #[must_use]
    pub fn of_owner(&self, owner: Option<&str>) -> Self {
        let Some(owner) = owner else {
            return self.clone();
        };
        let own = self.0.iter();
        let own = own.filter(|secret| secret.agents.iter().any(|agent| agent == owner));
        Self(own.cloned().collect())
    }

    /// Returns the variables that commands get.
    pub fn variables(&self) -> impl Iterator<Item = (&str, &str)> {
        let given = self.0.iter().filter(|secret| secret.in_commands);
        given.map(|secret| (secret.name.as_str(), secret.value.as_str()))
    }

    /// Returns the headers that a request gets.
    pub fn headers(&self, url: &str) -> impl Iterator<Item = (&str, String)> {
        self.0.iter().filter_map(move |secret| {
            let header = secret.header.as_ref()?;
            secret.goes_to(url).then(|| {
                let value = format!("{}{}", header.before, secret.value);
                (header.name.as_str(), value)
            })
        })
    }
}

fn is_name(name: &str) -> bool {
    let is_first = |byte: &u8| byte.is_ascii_alphabetic() || *byte == b'_';
    let is_rest = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    name.len() <= 128 && name.as_bytes().first().is_some_and(is_first) && name.bytes().all(is_rest)
}

fn is_line(text: &str) -> bool {
    text.bytes()
        .all(|byte| byte == b' ' || byte.is_ascii_graphic())
}

fn is_header(header: &SecretHeader) -> bool {
    let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    let has_name = !header.name.is_empty() && header.name.bytes().all(is_of_name);
    has_name && is_line(&header.before) && !header.to.allowed.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(name: &str, value: &str) -> NamedSecret {
        NamedSecret {
            name: name.to_owned(),
            value: value.to_owned(),
            in_commands: true,
            header: None,
            agents: vec!["ci".to_owned()],
        }
    }

    #[test]
    fn secret_that_cannot_be_masked_or_sent_is_refused() {
        let sent = |value: &str, header: &str, to: &[&str]| NamedSecret {
            header: Some(SecretHeader {
                to: NetworkAccessList::allow_only(to.to_vec()),
                name: header.to_owned(),
                before: String::new(),
            }),
            ..secret("A", value)
        };
        for (secrets, why) in [
            (vec![secret("A", "short")], "shorter"),
            (vec![secret("A", &"x".repeat(20_000))], "longer"),
            (vec![secret("A B", "long enough")], "a name has"),
            (vec![secret("1A", "long enough")], "a name has"),
            (vec![secret("", "long enough")], "a name has"),
            (vec![secret("A", "long enough"); 2], "two of this name"),
            (vec![secret("A", "long\0enough")], "NUL"),
            (
                vec![sent("long\r\nenough", "X", &["https://a"])],
                "not a line",
            ),
            (
                vec![sent("long enough", "X:", &["https://a"])],
                "its header",
            ),
            (vec![sent("long enough", "X", &[])], "its header"),
        ] {
            let error = NamedSecrets::new(secrets).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
        let many = (0..=MAX_SECRETS).map(|n| secret(&format!("A{n}"), "long enough"));
        assert!(NamedSecrets::new(many.collect()).is_err());
    }

    #[test]
    fn agents_have_only_the_secrets_granted_to_them() {
        let mut own = secret("OWN", "of the operator");
        own.agents.clear();
        let all = NamedSecrets::new(vec![own, secret("SHARED", "of both of them")]).unwrap();
        let names = |secrets: &NamedSecrets| -> Vec<String> {
            let variables = secrets.variables();
            variables.map(|(name, _)| name.to_owned()).collect()
        };
        assert_eq!(names(&all.of_owner(None)), ["OWN", "SHARED"]);
        assert_eq!(names(&all.of_owner(Some("ci"))), ["SHARED"]);
        assert!(all.of_owner(Some("other")).is_empty());
        assert!(!format!("{all:?}").contains("of the operator"));
    }

    #[cfg(feature = "url-rules")]
    #[test]
    fn header_is_sent_only_to_its_hosts() {
        let mut own = secret("OWN", "of the operator");
        own.header = Some(SecretHeader {
            to: NetworkAccessList::allow_only(["https://api.example"]),
            name: "Authorization".to_owned(),
            before: "Bearer ".to_owned(),
        });
        let secrets = NamedSecrets::new(vec![own]).unwrap();
        let sent: Vec<_> = secrets.headers("https://api.example/a").collect();
        assert_eq!(
            sent,
            [("Authorization", "Bearer of the operator".to_owned())]
        );
        for url in [
            "http://api.example/",
            "https://api.example:8443/",
            "https://api.example.evil.example/",
            "https://api.example@evil.example/",
            "https://x.api.example/",
            "https://evil.example/?https://api.example/",
            "nonsense",
        ] {
            assert_eq!(secrets.headers(url).count(), 0, "{url}");
        }
    }
}
