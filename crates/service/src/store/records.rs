//! The stored formats of saved sessions and environments. They have their own versions, and only this file converts them to wire types.

use std::path::PathBuf;

use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};
use thiserror::Error;
use windlass_core::turn_policy::TurnMode;
use windlass_protocol::{
    EnvironmentInfo, EnvironmentPolicy, NetworkPolicy, RECORD_SCHEMA_VERSION, SessionMetadata,
};

use crate::convert::convert_variants;
use crate::operations::threads::thread_record::{stored_mode, wire_mode};

/// The version of the records that are written.
const VERSION: u32 = 1;

/// Why a record cannot be read.
#[derive(Debug, Error)]
pub(crate) enum UnreadableRecord {
    /// The JSON does not match the kind of the record.
    #[error("the record cannot be read: {0}")]
    Json(#[from] serde_json::Error),
    /// A newer version wrote it.
    #[error("the record has version {0}, which only a newer Windlass can read")]
    Version(u32),
}

/// A record with its version.
#[derive(Serialize, Deserialize)]
struct VersionedRecord<T> {
    version: u32,
    record: T,
}

/// Reads a record of this version, or one without a version, which has the wire format.
fn read<T, B>(body: &[u8]) -> Result<T, UnreadableRecord>
where
    T: DeserializeOwned,
    B: DeserializeOwned + Into<T>,
{
    #[derive(Deserialize)]
    struct RecordVersion {
        version: Option<u32>,
    }
    let head: RecordVersion = serde_json::from_slice(body)?;
    match head.version {
        None => Ok(serde_json::from_slice::<B>(body)?.into()),
        Some(VERSION) => Ok(serde_json::from_slice::<VersionedRecord<T>>(body)?.record),
        Some(version) => Err(UnreadableRecord::Version(version)),
    }
}

fn write<T: Serialize>(record: T) -> serde_json::Result<Vec<u8>> {
    let version = VERSION;
    serde_json::to_vec(&VersionedRecord { version, record })
}

/// A saved session. The aliases are names in records without a version.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SessionRecord {
    id: String,
    title: String,
    created_at: String,
    updated_at: String,
    message_count: u64,
    total_tokens: u64,
    model: String,
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        alias = "model_provider"
    )]
    provider: Option<String>,
    workspace: String,
    mode: TurnMode,
    archived: bool,
    thread_id: String,
    turn_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "agent")]
    owner: Option<String>,
    /// Only records without a version have it.
    #[serde(default, skip_serializing, rename = "schema_version")]
    _schema_version: IgnoredAny,
}

/// Reads a saved session.
pub(crate) fn session(body: &[u8]) -> Result<SessionMetadata, UnreadableRecord> {
    let record: SessionRecord = read::<_, SessionRecord>(body)?;
    Ok(SessionMetadata {
        schema_version: RECORD_SCHEMA_VERSION,
        id: record.id,
        title: record.title,
        created_at: record.created_at,
        updated_at: record.updated_at,
        message_count: record.message_count,
        total_tokens: record.total_tokens,
        model: record.model,
        model_provider: record.provider,
        workspace: record.workspace,
        mode: wire_mode(record.mode),
        archived: record.archived,
        thread_id: record.thread_id,
        turn_id: record.turn_id,
        agent: record.owner,
    })
}

/// Returns the record of a saved session.
pub(crate) fn stored_session(session: &SessionMetadata) -> serde_json::Result<Vec<u8>> {
    let session = session.clone();
    write(SessionRecord {
        id: session.id,
        title: session.title,
        created_at: session.created_at,
        updated_at: session.updated_at,
        message_count: session.message_count,
        total_tokens: session.total_tokens,
        model: session.model,
        provider: session.model_provider,
        workspace: session.workspace,
        mode: stored_mode(session.mode),
        archived: session.archived,
        thread_id: session.thread_id,
        turn_id: session.turn_id,
        owner: session.agent,
        _schema_version: IgnoredAny,
    })
}

/// The network access of tools in an environment.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredNetwork {
    Inherit,
    None,
    Filtered,
}

convert_variants! {
    fn wire_network(StoredNetwork) -> NetworkPolicy { Inherit None Filtered }
    fn stored_network(NetworkPolicy) -> StoredNetwork { Inherit None Filtered }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct EnvironmentRecord {
    id: String,
    root: PathBuf,
    write: bool,
    shell: bool,
    network: StoredNetwork,
    created_at: String,
}

/// An environment in a record without a version. Only unprotected ones of the kind `local` were stored.
#[derive(Deserialize)]
struct EnvironmentBeforeVersions {
    id: String,
    root: PathBuf,
    policy: PolicyBeforeVersions,
    created_at: String,
}

/// An unknown field would narrow the environment, so it makes the record unreadable.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PolicyBeforeVersions {
    write: bool,
    shell: bool,
    network: StoredNetwork,
}

impl From<EnvironmentBeforeVersions> for EnvironmentRecord {
    fn from(old: EnvironmentBeforeVersions) -> Self {
        Self {
            id: old.id,
            root: old.root,
            write: old.policy.write,
            shell: old.policy.shell,
            network: old.policy.network,
            created_at: old.created_at,
        }
    }
}

/// Reads an environment that a client registered.
pub(crate) fn environment(body: &[u8]) -> Result<EnvironmentInfo, UnreadableRecord> {
    let record: EnvironmentRecord = read::<_, EnvironmentBeforeVersions>(body)?;
    Ok(EnvironmentInfo {
        id: record.id,
        kind: "local".to_owned(),
        root: record.root,
        policy: EnvironmentPolicy {
            write: record.write,
            shell: record.shell,
            network: wire_network(record.network),
        },
        protected: false,
        created_at: record.created_at,
    })
}

/// Returns the record of an environment that a client registered.
pub(crate) fn stored_environment(environment: &EnvironmentInfo) -> serde_json::Result<Vec<u8>> {
    let environment = environment.clone();
    write(EnvironmentRecord {
        id: environment.id,
        root: environment.root,
        write: environment.policy.write,
        shell: environment.policy.shell,
        network: stored_network(environment.policy.network),
        created_at: environment.created_at,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SESSION: &[u8] = include_bytes!("golden/session-1.json");
    const SESSION_BEFORE: &[u8] = include_bytes!("golden/session-before-versions.json");
    const ENVIRONMENT: &[u8] = include_bytes!("golden/environment-1.json");
    const ENVIRONMENT_BEFORE: &[u8] = include_bytes!("golden/environment-before-versions.json");

    fn text(bytes: &[u8]) -> &str {
        std::str::from_utf8(bytes).unwrap().trim_end()
    }

    #[test]
    fn records_are_read_and_written_byte_for_byte() {
        let written = stored_session(&session(SESSION).unwrap()).unwrap();
        assert_eq!(text(&written), text(SESSION));
        let written = stored_environment(&environment(ENVIRONMENT).unwrap()).unwrap();
        assert_eq!(text(&written), text(ENVIRONMENT));
    }

    #[test]
    fn unversioned_records_are_read() {
        assert_eq!(session(SESSION_BEFORE).unwrap(), session(SESSION).unwrap());
        let wire: SessionMetadata = serde_json::from_slice(SESSION_BEFORE).unwrap();
        assert_eq!(session(SESSION_BEFORE).unwrap(), wire);
        let wire: EnvironmentInfo = serde_json::from_slice(ENVIRONMENT_BEFORE).unwrap();
        assert_eq!(environment(ENVIRONMENT_BEFORE).unwrap(), wire);
        assert_eq!(environment(ENVIRONMENT).unwrap(), wire);
    }

    #[test]
    fn unknown_versions_and_fields_are_refused() {
        let newer = text(SESSION).replace("\"version\":1", "\"version\":2");
        assert!(matches!(
            session(newer.as_bytes()),
            Err(UnreadableRecord::Version(2))
        ));
        for (record, field) in [(SESSION, "\"id\""), (ENVIRONMENT, "\"id\"")] {
            let unknown = text(record).replace(field, "\"newer\":1,\"id\"");
            assert!(session(unknown.as_bytes()).is_err());
            assert!(environment(unknown.as_bytes()).is_err());
        }
    }
}
