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

/// A program part that random bytes are tested on.
#[derive(Debug, Clone, Copy)]
pub struct FuzzTarget {
    /// The name on the command line.
    pub name: &'static str,
    /// The checked property.
    pub summary: &'static str,
    /// The maximum length of an input, in bytes.
    pub longest_input: usize,
    /// Runs one input; panics if the property is violated.
    pub run: fn(&[u8]),
}

/// All targets, in the order in which they run.
pub const TARGETS: &[FuzzTarget] = &[
    FuzzTarget {
        name: "turn_machine",
        summary: "any order of inputs preserves the invariants of turns",
        longest_input: 400,
        run: turn_machine,
    },
    FuzzTarget {
        name: "event_json",
        summary: "an event that decodes encodes and decodes to the same event",
        longest_input: 600,
        run: event_json,
    },
    FuzzTarget {
        name: "stream_openai",
        summary: "a stream of OpenAI Responses decodes equally however it is split",
        longest_input: 120,
        run: stream_openai,
    },
    FuzzTarget {
        name: "stream_openai_chat",
        summary: "a stream of Chat Completions decodes equally however it is split",
        longest_input: 120,
        run: stream_openai_chat,
    },
    FuzzTarget {
        name: "stream_anthropic",
        summary: "a stream of Anthropic Messages decodes equally however it is split",
        longest_input: 120,
        run: stream_anthropic,
    },
    FuzzTarget {
        name: "stream_gemini",
        summary: "a stream of Gemini decodes equally however it is split",
        longest_input: 120,
        run: stream_gemini,
    },
    FuzzTarget {
        name: "rpc_frames",
        summary: "any frames on a socket are answered once each, in order, and run rules are enforced",
        longest_input: 600,
        run: rpc_frames,
    },
    FuzzTarget {
        name: "agent_claude",
        summary: "any output of Claude Code preserves the order of calls and turns",
        longest_input: 300,
        run: agent_claude,
    },
    FuzzTarget {
        name: "agent_codex",
        summary: "any output of Codex's app-server preserves the order of calls and turns",
        longest_input: 300,
        run: agent_codex,
    },
    FuzzTarget {
        name: "agent_acp",
        summary: "any ACP messages of an agent preserve the order of calls and turns",
        longest_input: 300,
        run: agent_acp,
    },
    FuzzTarget {
        name: "globs",
        summary: "any pattern of glob and grep is answered or refused, and both interpret it equally",
        longest_input: 600,
        run: globs,
    },
    FuzzTarget {
        name: "ignore_files",
        summary: "with any ignore files, glob and grep answer and agree",
        longest_input: 600,
        run: ignore_files,
    },
    FuzzTarget {
        name: "schemas",
        summary: "any schema of a tool is accepted or refused with a reason",
        longest_input: 400,
        run: schemas,
    },
    FuzzTarget {
        name: "arguments",
        summary: "any arguments are accepted or refused, and too deep ones reach no tool",
        longest_input: 500,
        run: arguments,
    },
    FuzzTarget {
        name: "configuration",
        summary: "any windlass.toml is read or refused at a line, and shows no key",
        longest_input: 300,
        run: configuration,
    },
];
