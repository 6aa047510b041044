//! The tasks around the core: each calls the store or the sink, and asks the core what to do next.

pub(crate) mod caught;
pub(crate) mod claimer;
pub(crate) mod heartbeat;
pub(crate) mod heartbeat_runtime;
pub(crate) mod reader;
pub(crate) mod settler;
pub(crate) mod worker;
