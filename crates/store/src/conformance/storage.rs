//! The rules of stores of keys and secrets.

use std::sync::Arc;

use windlass_core::traits::SessionStorageStore;
use windlass_core::typed_id::SessionId;

use super::check::{CheckOutcome, ConformanceCheck};

type StorageRef = Arc<dyn SessionStorageStore>;

/// The rules of every store of values and secrets.
pub const STORAGE_CHECKS: &[ConformanceCheck<dyn SessionStorageStore>] = checks![
    rules::values_are_set_replaced_and_deleted,
    rules::secrets_are_set_replaced_and_deleted,
    rules::values_and_secrets_are_separate,
    rules::sessions_are_separate_and_can_be_forgotten,
    rules::any_text_is_a_valid_name_and_value,
    rules::r71_list_of_secrets_contains_only_names_and_times,
];

mod rules {
    use super::{CheckOutcome, SessionId, StorageRef};

    pub(super) async fn values_are_set_replaced_and_deleted(store: StorageRef) -> CheckOutcome {
        let session = SessionId::new();
        require!(
            store.get_value(session, "k").await?.is_none(),
            "a value that was not set"
        );
        for key in ["k", "b", "ä"] {
            store.set_value(session, key, "1").await?;
        }
        let before = store.list_keys(session).await?;
        store.set_value(session, "k", "2").await?;
        require_eq!(
            store.get_value(session, "k").await?.as_deref(),
            Some("2"),
            "replaced value"
        );
        let after = store.list_keys(session).await?;
        let keys: Vec<_> = after.iter().map(|info| info.key.as_str()).collect();
        require_eq!(keys, ["b", "k", "ä"], "keys");
        require_eq!(
            after[1].created_at,
            before[1].created_at,
            "creation time of a replaced value"
        );
        require!(
            after[1].updated_at >= before[1].updated_at,
            "updated_at decreased"
        );
        require!(
            store.delete_value(session, "k").await?,
            "a value was not deleted"
        );
        require!(
            !store.delete_value(session, "k").await?,
            "a value was deleted twice"
        );
        require!(
            store.get_value(session, "k").await?.is_none(),
            "a deleted value"
        );
        Ok(())
    }

    pub(super) async fn secrets_are_set_replaced_and_deleted(store: StorageRef) -> CheckOutcome {
        let session = SessionId::new();
        require!(
            store.get_secret(session, "k").await?.is_none(),
            "a secret that was not set"
        );
        for name in ["k", "b"] {
            store.set_secret(session, name, "1").await?;
        }
        let before = store.list_secrets(session).await?;
        store.set_secret(session, "k", "2").await?;
        require_eq!(
            store.get_secret(session, "k").await?.as_deref(),
            Some("2"),
            "replaced secret"
        );
        let after = store.list_secrets(session).await?;
        let names: Vec<_> = after.iter().map(|info| info.name.as_str()).collect();
        require_eq!(names, ["b", "k"], "names");
        require_eq!(
            after[1].created_at,
            before[1].created_at,
            "creation time of a replaced secret"
        );
        require!(
            store.delete_secret(session, "k").await?,
            "a secret was not deleted"
        );
        require!(
            !store.delete_secret(session, "k").await?,
            "a secret was deleted twice"
        );
        Ok(())
    }

    pub(super) async fn values_and_secrets_are_separate(store: StorageRef) -> CheckOutcome {
        let session = SessionId::new();
        store.set_value(session, "k", "value").await?;
        store.set_secret(session, "k", "secret").await?;
        require_eq!(
            store.get_value(session, "k").await?.as_deref(),
            Some("value"),
            "value"
        );
        require!(
            store.delete_value(session, "k").await?,
            "the value was not deleted"
        );
        require_eq!(
            store.get_secret(session, "k").await?.as_deref(),
            Some("secret"),
            "secret"
        );
        require!(
            store.list_keys(session).await?.is_empty(),
            "a secret is listed as a key"
        );
        Ok(())
    }

    pub(super) async fn sessions_are_separate_and_can_be_forgotten(
        store: StorageRef,
    ) -> CheckOutcome {
        let (one, two) = (SessionId::new(), SessionId::new());
        store.set_value(one, "k", "one").await?;
        store.set_secret(one, "k", "one").await?;
        require!(
            store.get_value(two, "k").await?.is_none(),
            "another session's value"
        );
        require!(
            store.get_secret(two, "k").await?.is_none(),
            "another session's secret"
        );
        require!(
            store.list_keys(two).await?.is_empty(),
            "another session's keys"
        );
        require!(
            !store.delete_secret(two, "k").await?,
            "another session's secret was deleted"
        );
        store.set_value(two, "k", "two").await?;
        store.forget_session(one).await?;
        require!(
            store.get_value(one, "k").await?.is_none(),
            "a forgotten session's value"
        );
        require!(
            store.list_secrets(one).await?.is_empty(),
            "a forgotten session's secrets"
        );
        require_eq!(
            store.get_value(two, "k").await?.as_deref(),
            Some("two"),
            "the other session"
        );
        Ok(())
    }

    pub(super) async fn any_text_is_a_valid_name_and_value(store: StorageRef) -> CheckOutcome {
        let session = SessionId::new();
        let long = "x".repeat(100_000);
        for text in ["", " ", "a/../b", "a\0b", "日本語", &long] {
            store.set_value(session, text, text).await?;
            store.set_secret(session, text, text).await?;
            let value = store.get_value(session, text).await?;
            require!(value.as_deref() == Some(text), "a value was changed");
            let secret = store.get_secret(session, text).await?;
            require!(secret.as_deref() == Some(text), "a secret was changed");
        }
        Ok(())
    }

    pub(super) async fn r71_list_of_secrets_contains_only_names_and_times(
        store: StorageRef,
    ) -> CheckOutcome {
        let session = SessionId::new();
        store.set_secret(session, "name", "secret-7391").await?;
        let listed = store.list_secrets(session).await?;
        let shown = format!("{listed:?}");
        require!(shown.contains("name"), "a secret is not listed");
        require!(
            !shown.contains("7391"),
            "a list shows the value of a secret"
        );
        require!(
            store.list_keys(session).await?.is_empty(),
            "a secret is listed among the values"
        );
        Ok(())
    }
}
