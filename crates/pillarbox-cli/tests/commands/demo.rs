//! `demo`.
