//! OpenAI's Chat Completions, and so Ollama, vLLM, llama.cpp, OpenRouter, Groq, DeepSeek and many more.

pub(crate) mod request;
pub(crate) mod stream;
