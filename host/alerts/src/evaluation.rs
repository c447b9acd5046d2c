//! One evaluation of a run.

use serde::{Deserialize, Serialize};

/// A held-out loss and the step before whose update it was measured.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    /// The step; after the last one, the number of steps done.
    pub step: u64,
    /// Nats per token.
    pub loss: f64,
}
