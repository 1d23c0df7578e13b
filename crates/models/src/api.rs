//! The supported wire APIs.

use std::fmt;

use crate::decode::WireDecoder;

/// A supported wire API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Api {
    /// OpenAI's Responses API.
    #[cfg(feature = "openai")]
    OpenAi,
    /// OpenAI's Chat Completions.
    #[cfg(feature = "openai-chat")]
    OpenAiChat,
    /// Anthropic's Messages API.
    #[cfg(feature = "anthropic")]
    Anthropic,
    /// Google's Gemini API.
    #[cfg(feature = "gemini")]
    Gemini,
}

impl Api {
    /// The compiled-in APIs.
    pub const ALL: &[Self] = &[
        #[cfg(feature = "openai")]
        Self::OpenAi,
        #[cfg(feature = "openai-chat")]
        Self::OpenAiChat,
        #[cfg(feature = "anthropic")]
        Self::Anthropic,
        #[cfg(feature = "gemini")]
        Self::Gemini,
    ];

    /// Returns the name used in `provider/model`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            #[cfg(feature = "openai")]
            Self::OpenAi => "openai",
            #[cfg(feature = "openai-chat")]
            Self::OpenAiChat => "openai-chat",
            #[cfg(feature = "anthropic")]
            Self::Anthropic => "anthropic",
            #[cfg(feature = "gemini")]
            Self::Gemini => "gemini",
        }
    }

    /// Returns the base URL used if none is set.
    #[must_use]
    pub const fn default_base_url(self) -> &'static str {
        match self {
            #[cfg(feature = "openai")]
            Self::OpenAi => "https://api.openai.com/v1",
            #[cfg(feature = "openai-chat")]
            Self::OpenAiChat => "https://api.openai.com/v1",
            #[cfg(feature = "anthropic")]
            Self::Anthropic => "https://api.anthropic.com",
            #[cfg(feature = "gemini")]
            Self::Gemini => "https://generativelanguage.googleapis.com",
        }
    }

    pub(crate) fn wire(self) -> Box<dyn WireDecoder> {
        match self {
            #[cfg(feature = "openai")]
            Self::OpenAi => Box::<crate::openai::stream::Responses>::default(),
            #[cfg(feature = "openai-chat")]
            Self::OpenAiChat => Box::<crate::openai_chat::stream::Chat>::default(),
            #[cfg(feature = "anthropic")]
            Self::Anthropic => Box::<crate::anthropic::stream::Messages>::default(),
            #[cfg(feature = "gemini")]
            Self::Gemini => Box::<crate::gemini::stream::Generate>::default(),
        }
    }
}

impl fmt::Display for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
