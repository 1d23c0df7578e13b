//! An answer that is shown while it is written.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::io::Write;
use std::time::Duration;

use windlass_runtime::{Conversation, LlmSimConfig};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let slow = LlmSimConfig::fixed(
        "A windlass hauls a heavy load turn by turn, and its pawl keeps it from slipping back.",
    )
    .with_piece_delay(Duration::from_millis(30));
    let mut chat = Conversation::builder().simulator(slow).start().await?;

    let mut answer = chat.stream("What is a windlass?").await?;
    while let Some(piece) = answer.next().await {
        print!("{piece}");
        std::io::stdout().flush()?;
    }
    let reply = answer.finish().await?;
    println!(
        "\n({} model call, {} characters)",
        reply.turn.iterations,
        reply.text.len()
    );
    Ok(())
}
