//! OpenAI's Chat Completions, also used by Ollama, vLLM, llama.cpp, OpenRouter, Groq, DeepSeek and many others.

pub(crate) mod request;
pub(crate) mod stream;
