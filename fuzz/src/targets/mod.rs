//! What can be fuzzed.

mod agents;
mod arguments;
mod bytes;
mod configuration;
mod event_json;
mod faults;
mod globs;
mod ignore_files;
mod model_streams;
mod patterns;
mod rpc_frames;
mod schema_values;
mod schemas;
mod scratch;
mod turn_machine;

pub use agents::{agent_acp, agent_claude, agent_codex};
pub use arguments::arguments_of_calls as arguments;
pub use configuration::configuration;
pub use event_json::event_json;
pub use faults::FAULTS;
pub use globs::globs;
pub use ignore_files::ignore_files;
pub use model_streams::{stream_anthropic, stream_gemini, stream_openai, stream_openai_chat};
pub use rpc_frames::rpc_frames;
pub use schemas::schemas;
pub use turn_machine::turn_machine;

/// Something that bytes are thrown at.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// What the command line calls it.
    pub name: &'static str,
    /// What it checks.
    pub summary: &'static str,
    /// How many bytes are worth trying.
    pub longest_input: usize,
    /// Panics when something that must always hold does not.
    pub run: fn(&[u8]),
}

/// All targets, in the order in which they run.
pub const TARGETS: &[Target] = &[
    Target {
        name: "turn_machine",
        summary: "any order of inputs keeps what must always hold of turns",
        longest_input: 400,
        run: turn_machine,
    },
    Target {
        name: "event_json",
        summary: "what decodes as an event encodes and decodes to the same event",
        longest_input: 600,
        run: event_json,
    },
    Target {
        name: "stream_openai",
        summary: "what OpenAI's Responses may send is heard the same however it is cut",
        longest_input: 120,
        run: stream_openai,
    },
    Target {
        name: "stream_openai_chat",
        summary: "what Chat Completions may send is heard the same however it is cut",
        longest_input: 120,
        run: stream_openai_chat,
    },
    Target {
        name: "stream_anthropic",
        summary: "what Anthropic's Messages may send is heard the same however it is cut",
        longest_input: 120,
        run: stream_anthropic,
    },
    Target {
        name: "stream_gemini",
        summary: "what Gemini may send is heard the same however it is cut",
        longest_input: 120,
        run: stream_gemini,
    },
    Target {
        name: "rpc_frames",
        summary: "any frames on a socket are answered once each, in order, and runs keep their rules",
        longest_input: 600,
        run: rpc_frames,
    },
    Target {
        name: "agent_claude",
        summary: "whatever Claude Code prints, calls and turns keep their order",
        longest_input: 300,
        run: agent_claude,
    },
    Target {
        name: "agent_codex",
        summary: "whatever Codex's app-server prints, calls and turns keep their order",
        longest_input: 300,
        run: agent_codex,
    },
    Target {
        name: "agent_acp",
        summary: "whatever an agent says over ACP, calls and turns keep their order",
        longest_input: 300,
        run: agent_acp,
    },
    Target {
        name: "globs",
        summary: "any pattern of glob and grep is answered or refused, and both read it alike",
        longest_input: 600,
        run: globs,
    },
    Target {
        name: "ignore_files",
        summary: "whatever ignore files say, glob and grep answer and agree",
        longest_input: 600,
        run: ignore_files,
    },
    Target {
        name: "schemas",
        summary: "any schema of a tool is taken or refused with a reason",
        longest_input: 400,
        run: schemas,
    },
    Target {
        name: "arguments",
        summary: "any arguments are taken or refused, and what is too deep reaches no tool",
        longest_input: 500,
        run: arguments,
    },
    Target {
        name: "configuration",
        summary: "any windlass.toml is read or refused at a line, and shows no key",
        longest_input: 300,
        run: configuration,
    },
];
