//! Matrix products of f32 slices: the crate's only `unsafe`.
//!
//! [`Matrix`] and [`MatrixMut`] are views with strides whose constructors check that every element is inside its
//! slice; [`multiply`] calls the matrix-product library with them.

/// A matrix in memory: element (i, j) is `data[i * strides[0] + j * strides[1]]`.
#[derive(Debug, Clone, Copy)]
pub struct Matrix<'a> {
    data: &'a [f32],
    shape: [usize; 2],
    strides: [usize; 2],
}

/// A matrix to be written, row after row.
#[derive(Debug)]
pub struct MatrixMut<'a> {
    data: &'a mut [f32],
    shape: [usize; 2],
    stride: usize,
}

/// Elements up to the last of a matrix.
fn extent([rows, columns]: [usize; 2], [down, right]: [usize; 2]) -> usize {
    if rows == 0 || columns == 0 { 0 } else { (rows - 1) * down + (columns - 1) * right + 1 }
}

impl<'a> Matrix<'a> {
    /// Rows of consecutive elements, `stride` elements from one to the next.
    ///
    /// # Panics
    /// `data` is too short.
    #[must_use]
    pub fn rows(data: &'a [f32], rows: usize, columns: usize, stride: usize) -> Self {
        Self::new(data, [rows, columns], [stride, 1])
    }

    /// Elements at the given strides.
    ///
    /// # Panics
    /// `data` is too short.
    #[must_use]
    pub fn new(data: &'a [f32], shape: [usize; 2], strides: [usize; 2]) -> Self {
        assert!(extent(shape, strides) <= data.len(), "a matrix beyond its memory");
        Self { data, shape, strides }
    }

    /// Rows and columns.
    #[must_use]
    pub fn shape(&self) -> [usize; 2] {
        self.shape
    }

    /// `rows` of its rows, from row `first` on.
    ///
    /// # Panics
    /// There are fewer rows.
    #[must_use]
    pub fn some_rows(self, first: usize, rows: usize) -> Self {
        assert!(first + rows <= self.shape[0], "more rows than there are");
        Self::new(&self.data[first * self.strides[0]..], [rows, self.shape[1]], self.strides)
    }

    /// The transposed matrix, in the same memory.
    #[must_use]
    pub fn transposed(self) -> Self {
        let ([rows, columns], [down, right]) = (self.shape, self.strides);
        Self { shape: [columns, rows], strides: [right, down], ..self }
    }
}

impl<'a> MatrixMut<'a> {
    /// Rows of consecutive elements, `stride` elements from one to the next.
    ///
    /// # Panics
    /// `data` is too short, or rows overlap.
    #[must_use]
    pub fn rows(data: &'a mut [f32], rows: usize, columns: usize, stride: usize) -> Self {
        let shape = [rows, columns];
        assert!(extent(shape, [stride, 1]) <= data.len(), "a matrix beyond its memory");
        assert!(columns <= stride || rows <= 1, "rows that overlap");
        Self { data, shape, stride }
    }
}

/// `to = a b`, or `to += a b` if `add` is true, on the calling thread.
///
/// # Panics
/// The shapes do not match.
pub fn multiply(to: MatrixMut<'_>, a: Matrix<'_>, b: Matrix<'_>, add: bool) {
    let ([rows, columns], inner) = (to.shape, a.shape[1]);
    assert!(a.shape == [rows, inner] && b.shape == [inner, columns], "matrices of other shapes");
    let [a_strides, b_strides] = [a.strides, b.strides].map(|strides| strides.map(|stride| stride as isize));
    // SAFETY: the constructors have checked that every element of the three matrices lies in its slice, and that those
    // of `to`, which is borrowed mutably, are distinct; the shapes match. f32 needs no initialisation, and slices are.
    unsafe {
        gemm::gemm(
            rows,
            columns,
            inner,
            to.data.as_mut_ptr(),
            1,
            to.stride as isize,
            add,
            a.data.as_ptr(),
            a_strides[1],
            a_strides[0],
            b.data.as_ptr(),
            b_strides[1],
            b_strides[0],
            1.0,
            1.0,
            false,
            false,
            false,
            gemm::Parallelism::None,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_of_parts_of_matrices() {
        // [[1, 2], [3, 4]] in rows of 3, times its transpose, into columns 1 and 2 of rows of 4.
        let a = [1.0, 2.0, 0.0, 3.0, 4.0];
        let a = Matrix::rows(&a, 2, 2, 3);
        let mut to = [1.0; 8];
        multiply(MatrixMut::rows(&mut to[1..], 2, 2, 4), a, a.transposed(), false);
        assert_eq!(to, [1.0, 5.0, 11.0, 1.0, 1.0, 11.0, 25.0, 1.0]);
        multiply(MatrixMut::rows(&mut to[1..], 2, 2, 4), a.transposed(), a, true);
        assert_eq!(to, [1.0, 15.0, 25.0, 1.0, 1.0, 25.0, 45.0, 1.0]);
        multiply(
            MatrixMut::rows(&mut to, 1, 2, 2),
            Matrix::rows(&[], 1, 0, 0),
            Matrix::rows(&[], 0, 2, 2),
            false,
        );
        assert_eq!(to[..2], [0.0, 0.0]);
    }

    #[test]
    #[should_panic(expected = "beyond its memory")]
    fn a_matrix_lies_in_its_memory() {
        let _ = Matrix::rows(&[0.0; 5], 2, 3, 3);
    }

    #[test]
    #[should_panic(expected = "overlap")]
    fn rows_do_not_overlap() {
        let _ = MatrixMut::rows(&mut [0.0; 5], 2, 3, 2);
    }
}
