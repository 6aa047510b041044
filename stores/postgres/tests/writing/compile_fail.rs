//! What must not compile.

/// EVT-020
#[test]
fn writing_without_a_transaction_does_not_compile() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
