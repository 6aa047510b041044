//! The `pillarbox` binary.
fn main() {}
