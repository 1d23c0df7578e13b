//! A tool for the current time.

use std::sync::Arc;

use async_trait::async_trait;
use chrono::{FixedOffset, SecondsFormat};
use serde::Deserialize;
use serde_json::{Value, json};
use windlass_macros::OpaqueDebug;

use super::session_tool::{SessionTool, ToolFailure, boxed, fail, object, reads};
use crate::capabilities::Capability;
use crate::clock::{Clock, SystemClock};
use crate::tools::{Tool, ToolHints};
use crate::traits::ToolContext;

/// A tool for the current date and time.
///
/// ```
/// use std::sync::Arc;
/// use windlass_core::ManualClock;
/// use windlass_core::capabilities::{Capability, CapabilityRegistry, CurrentTimeCapability};
///
/// let clock = Arc::new(ManualClock::at(chrono::DateTime::UNIX_EPOCH));
/// let mut registry = CapabilityRegistry::with_builtins();
/// registry.register(CurrentTimeCapability::with_clock(clock));
/// ```
#[derive(OpaqueDebug, Clone)]
pub struct CurrentTimeCapability {
    clock: Arc<dyn Clock>,
}

impl CurrentTimeCapability {
    /// Creates the capability with a clock other than the system's.
    pub fn with_clock(clock: Arc<dyn Clock>) -> Self {
        Self { clock }
    }
}

impl Default for CurrentTimeCapability {
    fn default() -> Self {
        Self::with_clock(Arc::new(SystemClock))
    }
}

impl Capability for CurrentTimeCapability {
    constants!(
        "current_time",
        "Current Time",
        "Returns the current date and time.",
        "Utilities"
    );
    fn tools(&self) -> Vec<Box<dyn Tool>> {
        vec![boxed(GetCurrentTime(Arc::clone(&self.clock)))]
    }
}

struct GetCurrentTime(Arc<dyn Clock>);

#[derive(Deserialize)]
struct Args {
    utc_offset: Option<String>,
}

#[async_trait]
impl SessionTool for GetCurrentTime {
    type Args = Args;
    const NAME: &'static str = "get_current_time";
    const DESCRIPTION: &'static str =
        "Return the current date and time, in UTC or at a fixed offset from it.";

    fn schema(&self) -> Value {
        object(
            json!({ "utc_offset": { "type": "string", "description": "Such as +02:00 or -05:30; default: UTC" } }),
            &[],
        )
    }
    fn hints(&self) -> ToolHints {
        reads()
    }
    async fn run(&self, args: Args, _ctx: &ToolContext) -> Result<Value, ToolFailure> {
        let offset = match args.utc_offset.as_deref().map(str::trim) {
            None | Some("" | "Z" | "UTC") => FixedOffset::east_opt(0),
            Some(text) => offset(text),
        };
        let Some(offset) = offset else {
            return fail("`utc_offset` must look like +02:00, between -23:59 and +23:59");
        };
        let utc = self.0.now();
        let now = utc.with_timezone(&offset);
        Ok(json!({
            "time": now.to_rfc3339_opts(SecondsFormat::Secs, false),
            "weekday": now.format("%A").to_string(),
            "unix_seconds": utc.timestamp()
        }))
    }
}

/// Parses an offset of exactly the form `+02:00`.
fn offset(text: &str) -> Option<FixedOffset> {
    let [sign, h1, h0, b':', m1, m0] = *text.as_bytes() else {
        return None;
    };
    let two = |tens: u8, ones: u8| {
        let is_number = tens.is_ascii_digit() && ones.is_ascii_digit();
        is_number.then(|| i32::from(tens - b'0') * 10 + i32::from(ones - b'0'))
    };
    let (hours, minutes) = (two(h1, h0)?, two(m1, m0).filter(|minutes| *minutes < 60)?);
    let seconds = (hours * 60 + minutes) * 60;
    match sign {
        b'+' => FixedOffset::east_opt(seconds),
        b'-' => FixedOffset::west_opt(seconds),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{THEN, call, odd_arguments};
    use super::*;
    use crate::clock::ManualClock;
    use crate::typed_id::SessionId;

    async fn at(args: Value) -> Result<Value, String> {
        let capability = CurrentTimeCapability::with_clock(Arc::new(ManualClock::at(THEN)));
        let ctx = ToolContext::new(SessionId::new());
        call(&capability, "get_current_time", args, &ctx).await
    }

    #[tokio::test]
    async fn time_is_returned_at_an_offset() {
        for (args, time) in [
            (json!({}), "1970-01-01T00:00:00+00:00"),
            (json!({"utc_offset": "UTC"}), "1970-01-01T00:00:00+00:00"),
            (json!({"utc_offset": "+02:00"}), "1970-01-01T02:00:00+02:00"),
            (json!({"utc_offset": "-05:30"}), "1969-12-31T18:30:00-05:30"),
        ] {
            assert_eq!(at(args).await.unwrap()["time"], time);
        }
        assert_eq!(at(json!({})).await.unwrap()["weekday"], "Thursday");
    }

    #[tokio::test]
    async fn invalid_offset_is_refused() {
        for text in [
            "+2",
            "Europe/Paris",
            "+99:00",
            "+01:75",
            "02:00",
            "é0:0",
            "+-1:00",
        ] {
            let error = at(json!({"utc_offset": text})).await.unwrap_err();
            assert!(error.starts_with("`utc_offset`"), "{text}");
        }
        odd_arguments(&CurrentTimeCapability::default()).await;
    }
}
