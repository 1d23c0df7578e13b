//! Drivers of model providers: OpenAI's Responses and Chat Completions (and compatible servers),
//! Anthropic's Messages and Google's Gemini.
//!
//! A driver converts the conversation to a request, and the bytes of the answer to events. Nothing is dropped or
//! invented, because the journal must contain the real exchange. It makes each call once: retries are the runtime's task,
//! and [`FallbackDriver`] switches to another model.
//!
//! A single model by its name ([`model`]):
//!
//! ```
//! let model = windlass_models::model("anthropic/claude-haiku-4-5", "the key")?;
//! // let chat = Conversation::builder().model(model).start().await?;
//! # let _ = model;
//! # Ok::<(), windlass_core::AgentLoopError>(())
//! ```
//!
//! A runtime that calls models of several providers registers their drivers:
//!
//! ```
//! use windlass_core::llm_driver_registry::{DriverRegistry, ProviderType};
//! use windlass_models::{ModelSettings, register_drivers};
//!
//! let mut drivers = DriverRegistry::new();
//! register_drivers(&mut drivers, ModelSettings::default())?;
//! assert!(drivers.has_driver(&ProviderType::Anthropic));
//! # Ok::<(), windlass_models::BaseUrlError>(())
//! ```

#![cfg_attr(
    not(all(
        feature = "openai",
        feature = "openai-chat",
        feature = "anthropic",
        feature = "gemini"
    )),
    allow(
        dead_code,
        unused_imports,
        unused_variables,
        reason = "one API alone does not use all that they share"
    )
)]

#[cfg(not(any(
    feature = "openai",
    feature = "openai-chat",
    feature = "anthropic",
    feature = "gemini"
)))]
compile_error!(
    "windlass-models has no API enabled: enable `openai`, `openai-chat`, `anthropic` or `gemini`"
);

#[cfg(feature = "anthropic")]
mod anthropic;
mod api;
mod base_url;
mod call_ids;
pub mod cassette;
pub mod decode;
mod drivers;
mod error;
mod fallback;
mod families;
#[cfg(feature = "gemini")]
mod gemini;
mod http;
mod model;
#[cfg(feature = "openai")]
mod openai;
#[cfg(feature = "openai-chat")]
mod openai_chat;
#[cfg(any(feature = "openai", feature = "openai-chat"))]
mod openai_errors;
pub mod prices;
mod prompt;
mod providers;
mod reasoning_state;
mod register;
pub mod settings;

pub use api::Api;
pub use base_url::{BaseUrlError, BaseUrlFault, check_base_url};
pub use drivers::ModelDriver;
pub use fallback::{FallbackDriver, FallbackLink};
pub use families::window_of;
pub use model::{model, model_at, model_with, unknown_provider};
pub use providers::{KnownProvider, PROVIDERS};
pub use register::register_drivers;
pub use settings::ModelSettings;
