//! The operations of host services.

use crate::number::numbered;

numbered! {
    /// A function of each element.
    MapOp {
        /// Its magnitude.
        ABS = 1,
        /// Its square root.
        SQRT = 2,
        /// `1 / x`.
        RECIPROCAL = 3,
        /// `e^x`.
        EXP = 4,
        /// Natural logarithm.
        LOG = 5,
        /// -1, 0 or 1.
        SIGN = 6,
    }
}

numbered! {
    /// A function of two elements.
    ZipOp {
        /// `x + y`.
        ADD = 1,
        /// `x - y`.
        SUB = 2,
        /// `x y`.
        MUL = 3,
        /// `x / y`.
        DIV = 4,
        /// The larger.
        MAX = 5,
        /// The smaller.
        MIN = 6,
        /// 1 if `x < y`, otherwise 0, also for NaN.
        LESS = 7,
        /// 1 if `x <= y`, otherwise 0, also for NaN.
        LESS_EQUAL = 8,
        /// 1 if `x = y`, otherwise 0, also for NaN.
        EQUAL = 9,
    }
}

numbered! {
    /// The reduction of several elements to one.
    ReduceOp {
        /// Their sum.
        SUM = 1,
        /// The sum of their squares.
        SUM_SQUARES = 2,
        /// The largest magnitude.
        MAX_ABS = 3,
    }
}

numbered! {
    /// A factorization of a matrix. If an element that it reads is not finite, all of its factors are NaN.
    FactorOp {
        /// Of a matrix with at least as many rows as columns: Q with orthonormal columns, and the upper triangular R
        /// whose diagonal is not negative.
        QR = 1,
        /// Of a symmetric matrix, whose upper triangle is ignored: its eigenvalues in ascending order, `[1, n]`, and
        /// its eigenvectors as columns, each with a largest element that is positive.
        EIGEN = 2,
        /// Of a symmetric positive definite matrix, whose upper triangle is ignored: the lower triangular factor with a
        /// positive diagonal.
        CHOLESKY = 3,
    }
}

impl FactorOp {
    /// The shapes of the factors of a matrix with these rows and columns; `None` if the operation is unknown, or has no
    /// factors of such a matrix.
    #[must_use]
    pub fn shapes(self, [rows, columns]: [u64; 2]) -> Option<Vec<[u64; 2]>> {
        Some(match self {
            Self::QR if rows >= columns => vec![[rows, columns], [columns, columns]],
            Self::EIGEN if rows == columns => vec![[1, rows], [rows, rows]],
            Self::CHOLESKY if rows == columns => vec![[rows, rows]],
            _ => return None,
        })
    }

    /// True if the factors depend on an element.
    #[must_use]
    pub fn reads(self, row: usize, column: usize) -> bool {
        self == Self::QR || column <= row
    }
}

numbered! {
    /// The elements that are reduced together.
    Axes {
        /// All: `[1, 1]`.
        ALL = 1,
        /// Those of each row: `[rows, 1]`.
        ROWS = 2,
        /// Those of each column: `[1, columns]`.
        COLUMNS = 3,
    }
}
