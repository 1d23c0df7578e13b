//! Built-in capabilities that need no I/O of their own.

mod agent_instructions;
mod ask_user;
mod btw;
mod compaction;
mod current_time;
mod infinity_context;
mod loop_detection;
mod message_metadata;
mod noop;
mod plan;
mod session;
mod session_file_system;
mod session_storage;
mod session_tool;
mod skills;
mod stateless_todo_list;
mod test_math;
#[cfg(test)]
mod testing;

pub use agent_instructions::AgentInstructionsCapability;
pub use ask_user::AskUserCapability;
pub use btw::BtwCapability;
pub use compaction::{CompactionCapability, CompactionConfig};
pub use current_time::CurrentTimeCapability;
pub use infinity_context::InfinityContextCapability;
pub use loop_detection::LoopDetectionCapability;
pub use message_metadata::MessageMetadataCapability;
pub use noop::NoopCapability;
pub use plan::PlanCapability;
pub use session::SessionCapability;
pub use session_file_system::SessionFileSystemCapability;
pub use session_storage::SessionStorageCapability;
pub use skills::{Skill, SkillsCapability, parse_skill};
pub use stateless_todo_list::StatelessTodoListCapability;
pub use test_math::TestMathCapability;
