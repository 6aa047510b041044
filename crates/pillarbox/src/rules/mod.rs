//! Pure rules shared by the engine and the stores: functions of their arguments, without clock and I/O.

mod backoff;
mod held;
mod joins;
mod lease;
mod members;
mod share;
mod transition;

pub(crate) use backoff::{ATTEMPTS_MAX, attempts_within};
pub use backoff::{Doubling, Exponential, Fixed, RetryPolicy};
pub use held::{Head, held_after};
pub use joins::{join_refusal, new_steps, report_refusal, started_join};
pub use lease::Lease;
pub use members::{Member, Members, SlotRecord};
pub use share::{SLOTS, Share, SlotState, free_lane, share};
pub use transition::{Move, transition};
