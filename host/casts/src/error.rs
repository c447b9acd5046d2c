//! The reason why a cast is refused.

use crate::shape::Shape;

/// A cast, or a matrix for it, that cannot be.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CastError {
    /// Fields that exclude each other or are out of range. The text is a sentence that begins with the field's name in
    /// backticks.
    #[error("{message}")]
    Fields {
        /// The invalid combination.
        message: String,
        /// The valid alternative.
        hint: &'static str,
    },
    /// The number of elements is not that of the shape, or the shape has none.
    #[error("{elements} elements do not form a matrix of {} rows and {} columns", shape.rows, shape.columns)]
    Elements {
        /// Elements given.
        elements: usize,
        /// The shape they should have.
        shape: Shape,
    },
    /// The format computes no magnitude of a block, or no code.
    #[error("the format computes no block: {0}")]
    Magnitude(String),
    /// A Hadamard transform of `size` elements does not divide the axis it runs along.
    #[error("an axis of {length} elements is no whole number of Hadamard transforms of {size}")]
    Transform {
        /// Elements of the axis.
        length: usize,
        /// Elements of a transform.
        size: usize,
    },
    /// Another number of codes than elements.
    #[error("{codes} codes for {elements} elements")]
    Codes {
        /// Codes given.
        codes: usize,
        /// Elements prepared.
        elements: usize,
    },
}

impl CastError {
    pub(crate) fn fields(message: impl Into<String>, hint: &'static str) -> Self {
        Self::Fields { message: message.into(), hint }
    }

    /// The advice to the user.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Fields { hint, .. } => hint,
            Self::Elements { .. } => "rows times columns is the number of elements, at least 1",
            Self::Transform { .. } => {
                "choose a shape whose axis the transform divides, or leave the transform out"
            }
            Self::Codes { .. } => "give one code for each scaled element",
            Self::Magnitude(_) => "`altgrad-host plugins check` says more",
        }
    }
}
