//! The observer of a running preparation.

/// Hears how far a preparation is.
pub trait PrepareProgress: Sync {
    /// Reports `done` bytes of `total`, if that is known, of the activity `doing`.
    fn at(&self, doing: &str, done: u64, total: Option<u64>);
    /// Shows a message besides the bar.
    fn say(&self, text: &str);
}
