//! The suite every store passes.
