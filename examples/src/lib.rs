//! Runnable examples of Pillarbox; each one is also a test.
