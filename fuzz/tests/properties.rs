//! Any order of inputs keeps what must always hold: the targets of the fuzzer under proptest, which makes a finding
//! small.

use proptest::collection::vec;
use proptest::prelude::*;
use windlass_fuzz::targets;

fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(cases(10_000))]

    #[test]
    fn any_order_of_inputs_keeps_the_invariants_of_turns(data in vec(any::<u8>(), 0..160)) {
        targets::turn_machine(&data);
    }
}

proptest! {
    #![proptest_config(cases(2_000))]

    #[test]
    fn decoded_event_encodes_to_the_same_event(data in vec(any::<u8>(), 0..80)) {
        targets::event_json(&data);
    }
}

proptest! {
    #![proptest_config(cases(500))]

    #[test]
    fn model_stream_decodes_equally_however_it_is_split(data in vec(any::<u8>(), 0..120)) {
        targets::stream_openai(&data);
        targets::stream_openai_chat(&data);
        targets::stream_anthropic(&data);
        targets::stream_gemini(&data);
    }
}

proptest! {
    #![proptest_config(cases(1_000))]

    #[test]
    fn frames_are_answered_and_run_rules_are_enforced(data in vec(any::<u8>(), 0..300)) {
        targets::rpc_frames(&data);
    }
}

proptest! {
    #![proptest_config(cases(1_000))]

    #[test]
    fn any_agent_output_preserves_the_order_of_calls_and_turns(data in vec(any::<u8>(), 0..300)) {
        targets::agent_claude(&data);
        targets::agent_codex(&data);
        targets::agent_acp(&data);
    }
}

proptest! {
    #![proptest_config(cases(100))]

    #[test]
    fn hostile_input_is_answered_or_refused(data in vec(any::<u8>(), 0..200)) {
        targets::globs(&data);
        targets::ignore_files(&data);
        targets::schemas(&data);
        targets::arguments(&data);
        targets::configuration(&data);
    }
}
