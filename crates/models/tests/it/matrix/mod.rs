//! Each scenario with each of the four wire APIs.

mod answers;
mod connections;
mod faults;

use self::answers::{
    arguments_in_pieces, image, one_tool, parallel_tools, reasoning_round_trip, structured_output,
    text, usage,
};
use self::connections::{list_models, one_connection_serves_many_calls};
use self::faults::{
    cancel_before_the_stream, cancel_in_the_stream, cut_stream, error_401, error_404,
    error_429_with_retry_after, error_500_then_success, garbage, out_of_room, overloaded,
    overloaded_in_the_stream, refused_by_filter, stall_before_the_stream, stall_in_the_stream,
    too_long,
};

macro_rules! matrix {
    ($($case:ident),* $(,)?) => {
        matrix!(@of openai, OpenAi, $($case),*);
        matrix!(@of openai_chat, OpenAiChat, $($case),*);
        matrix!(@of anthropic, Anthropic, $($case),*);
        matrix!(@of gemini, Gemini, $($case),*);
    };
    (@of $module:ident, $wire:ident, $($case:ident),*) => {
        mod $module {
            use windlass_testkit::Wire;

            $(#[tokio::test]
            async fn $case() {
                super::$case(Wire::$wire).await;
            })*
        }
    };
}

matrix!(
    text,
    reasoning_round_trip,
    one_tool,
    parallel_tools,
    arguments_in_pieces,
    image,
    structured_output,
    usage,
    error_401,
    error_404,
    error_429_with_retry_after,
    error_500_then_success,
    overloaded,
    overloaded_in_the_stream,
    too_long,
    refused_by_filter,
    out_of_room,
    stall_before_the_stream,
    stall_in_the_stream,
    cut_stream,
    garbage,
    cancel_in_the_stream,
    cancel_before_the_stream,
    list_models,
    one_connection_serves_many_calls,
);
