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
    fn an_event_that_decodes_encodes_to_the_same_event(data in vec(any::<u8>(), 0..80)) {
        targets::event_json(&data);
    }
}
