//! What must not compile, and what the compiler says to it.

/// EVT-013, EVT-014, EVT-020
#[test]
fn what_must_not_compile_says_why() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
