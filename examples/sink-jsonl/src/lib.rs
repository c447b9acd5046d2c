//! An example, being written.
