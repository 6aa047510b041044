//! Pure rules: functions of their arguments, used by the engine and every store.

mod backoff;
mod held;
mod lease;
mod share;
mod transition;

pub use backoff::{Doubling, Exponential, Fixed, RetryPolicy};
pub use held::{Head, held_after};
pub use lease::Lease;
pub use share::{SLOTS, Share, SlotState, free_lane, share};
pub use transition::{Move, transition};
