//! The pillarbox command line.
