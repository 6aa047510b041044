//! The one list of stores.
