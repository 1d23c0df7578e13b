//! Doing what an agent asks of the host.

use serde_json::{Value, json};
use windlass_core::backend::{HostAccess, HostAccessError, TerminalExit};

use crate::protocol::{HostAnswer, HostAsk};

/// Asks the host, and words its answer as the Agent Client Protocol does.
pub(super) async fn perform(
    host: &dyn HostAccess,
    ask: HostAsk,
) -> Result<HostAnswer, HostAccessError> {
    let answer = match ask {
        HostAsk::Read { path, line, limit } => {
            json!({"content": host.read_text(&path, line, limit).await?})
        }
        HostAsk::Write { path, text } => {
            host.write_text(&path, &text).await?;
            Value::Null
        }
        HostAsk::StartTerminal(request) => {
            json!({"terminalId": host.start_terminal(request).await?})
        }
        HostAsk::TerminalOutput(id) => {
            let output = host.terminal_output(&id).await?;
            let exit = output.exit.as_ref().map(worded);
            json!({"output": output.text, "truncated": output.is_cut, "exitStatus": exit})
        }
        HostAsk::WaitForTerminal(id) => worded(&host.wait_for_terminal(&id).await?),
        HostAsk::KillTerminal(id) => {
            host.kill_terminal(&id).await?;
            json!({})
        }
        HostAsk::ReleaseTerminal(id) => {
            host.release_terminal(&id).await?;
            json!({})
        }
    };
    Ok(HostAnswer(answer))
}

fn worded(exit: &TerminalExit) -> Value {
    json!({"exitCode": exit.code, "signal": exit.signal})
}
