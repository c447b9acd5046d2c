//! Singular values of a matrix, in f64.
//!
//! Square roots of the eigenvalues of the smaller Gram matrix: Householder's reduction to tridiagonal form, then the
//! implicit QL algorithm, eigenvalues only (Wilkinson and Reinsch, Handbook for Automatic Computation II, 1971, tred1
//! and imtql1). Takes `min(m, n)^2 max(m, n)` operations for the Gram matrix and `4/3 min(m, n)^3` for the rest.
//! Squaring halves the digits of small values: those below some 1e-7 of the largest are noise, and values within the
//! rounding error of zero are returned as 0.

use rayon::prelude::*;

/// QL steps an eigenvalue may take; two are usual.
const MOST_STEPS: usize = 50;

/// The `min(rows, columns)` singular values of a matrix given row by row, in no order. `None` if it has a non-finite
/// element or no elements, or the iteration does not converge.
#[must_use]
pub fn singular_values(matrix: &[f32], rows: usize, columns: usize) -> Option<Vec<f64>> {
    if matrix.is_empty() || matrix.len() != rows * columns || !matrix.iter().all(|x| x.is_finite()) {
        return None;
    }
    let mut gram = gram(matrix, rows, columns);
    let n = rows.min(columns);
    let (mut diagonal, mut beside) = tridiagonal(&mut gram, n);
    eigenvalues(&mut diagonal, &mut beside)?;
    let largest = diagonal.iter().copied().fold(0.0, f64::max);
    let noise = largest * f64::EPSILON * n as f64;
    Some(diagonal.into_iter().map(|value| if value <= noise { 0.0 } else { value.sqrt() }).collect())
}

/// `A A^T` or `A^T A`, whichever is smaller, `[n, n]`.
fn gram(matrix: &[f32], rows: usize, columns: usize) -> Vec<f64> {
    let (n, len) = (rows.min(columns), rows.max(columns));
    // Its vectors one after the other, in f64.
    let vectors: Vec<f64> = if rows <= columns {
        matrix.iter().map(|&x| x.into()).collect()
    } else {
        (0..columns).flat_map(|j| (0..rows).map(move |i| matrix[i * columns + j].into())).collect()
    };
    let mut gram = vec![0.0; n * n];
    gram.par_chunks_mut(n).enumerate().for_each(|(i, row)| {
        let own = &vectors[i * len..(i + 1) * len];
        // The lower triangle is all that is used.
        for (other, value) in vectors.chunks(len).zip(&mut row[..=i]) {
            *value = dot(own, other);
        }
    });
    gram
}

/// The sum of products, in eight lanes.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<8>(), b.as_chunks::<8>());
    let mut lanes = [0.0; 8];
    for (a, b) in a.iter().zip(b) {
        for i in 0..8 {
            lanes[i] += a[i] * b[i];
        }
    }
    let rest: f64 = a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum();
    lanes.iter().sum::<f64>() + rest
}

/// The diagonal of a tridiagonal matrix similar to the symmetric `a`, `[n, n]`, of which the lower triangle is read and
/// overwritten; and the off-diagonal elements: element i is between i - 1 and i, the first is 0.
fn tridiagonal(a: &mut [f64], n: usize) -> (Vec<f64>, Vec<f64>) {
    let (mut diagonal, mut beside) = (vec![0.0; n], vec![0.0; n]);
    for i in (1..n).rev() {
        // A reflection that makes all elements of row i before the diagonal zero but the last.
        let mut vector = a[i * n..i * n + i].to_vec();
        diagonal[i] = a[i * n + i];
        let scale = vector.iter().fold(0.0, |sum: f64, x| sum + x.abs());
        if i == 1 || scale == 0.0 {
            beside[i] = vector[i - 1];
            continue;
        }
        vector.iter_mut().for_each(|x| *x /= scale);
        let square = dot(&vector, &vector);
        let last = vector[i - 1];
        let norm = -square.sqrt().copysign(last);
        beside[i] = scale * norm;
        let half = square - last * norm;
        vector[i - 1] = last - norm;
        // p = A u / H, q = p - u (u p) / 2H, A <- A - u q^T - q u^T
        let mut q = symmetric_product(a, n, &vector);
        q.iter_mut().for_each(|x| *x /= half);
        let middle = dot(&vector, &q) / (half + half);
        q.iter_mut().zip(&vector).for_each(|(q, u)| *q -= middle * u);
        for j in 0..i {
            let (u_j, q_j) = (vector[j], q[j]);
            let row = &mut a[j * n..=j * n + j];
            for ((x, u), q) in row.iter_mut().zip(&vector).zip(&q) {
                *x -= u_j * q + q_j * u;
            }
        }
    }
    diagonal[0] = a[0];
    (diagonal, beside)
}

/// The leading block of `a`, as large as `vector`, times `vector`; reads the lower triangle.
fn symmetric_product(a: &[f64], n: usize, vector: &[f64]) -> Vec<f64> {
    let mut product = vec![0.0; vector.len()];
    for (j, &u) in vector.iter().enumerate() {
        let row = &a[j * n..j * n + j];
        product[j] += dot(row, &vector[..j]) + a[j * n + j] * u;
        product.iter_mut().zip(row).for_each(|(p, x)| *p += x * u);
    }
    product
}

/// Turns the diagonal of a tridiagonal matrix into its eigenvalues; `None` if one does not converge.
fn eigenvalues(diagonal: &mut [f64], beside: &mut [f64]) -> Option<()> {
    let n = diagonal.len();
    beside.rotate_left(1);
    for l in 0..n {
        for step in 0.. {
            let small =
                |m: usize| beside[m].abs() <= f64::EPSILON * (diagonal[m].abs() + diagonal[m + 1].abs());
            let m = (l..n - 1).find(|&m| small(m)).unwrap_or(n - 1);
            if m == l {
                break;
            }
            if step == MOST_STEPS {
                return None;
            }
            ql_step(diagonal, beside, l, m);
        }
    }
    diagonal.iter().all(|value| value.is_finite()).then_some(())
}

/// One implicit QL step on the rows from `l` to `m`.
fn ql_step(diagonal: &mut [f64], beside: &mut [f64], l: usize, m: usize) {
    let mut g = (diagonal[l + 1] - diagonal[l]) / (2.0 * beside[l]);
    let mut r = g.hypot(1.0);
    g = diagonal[m] - diagonal[l] + beside[l] / (g + r.copysign(g));
    let (mut s, mut c, mut p) = (1.0, 1.0, 0.0);
    for i in (l..m).rev() {
        let (f, b) = (s * beside[i], c * beside[i]);
        r = f.hypot(g);
        beside[i + 1] = r;
        if r == 0.0 {
            diagonal[i + 1] -= p;
            beside[m] = 0.0;
            return;
        }
        (s, c) = (f / r, g / r);
        g = diagonal[i + 1] - p;
        r = (diagonal[i] - g) * s + 2.0 * c * b;
        p = s * r;
        diagonal[i + 1] = g + p;
        g = c * r - b;
    }
    diagonal[l] -= p;
    beside[l] = g;
    beside[m] = 0.0;
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn sorted(matrix: &[f32], rows: usize, columns: usize) -> Vec<f64> {
        let mut values = singular_values(matrix, rows, columns).unwrap();
        values.sort_by(|a, b| b.total_cmp(a));
        values
    }

    fn close(found: &[f64], expected: &[f64], tolerance: f64) {
        assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(expected) {
            assert!((found - expected).abs() <= tolerance * expected.max(1.0), "{found}, {expected}");
        }
    }

    /// Columns of a random orthogonal matrix: Gram and Schmidt, twice.
    fn orthonormal(n: usize, count: usize, seed: u64) -> Vec<Vec<f64>> {
        let mut state = seed;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) as f64 / (1u64 << 53) as f64 - 0.5
        };
        let mut vectors: Vec<Vec<f64>> = Vec::new();
        for _ in 0..count {
            let mut v: Vec<f64> = (0..n).map(|_| random()).collect();
            for _ in 0..2 {
                for u in &vectors {
                    let along: f64 = u.iter().zip(&v).map(|(u, v)| u * v).sum();
                    v.iter_mut().zip(u).for_each(|(v, u)| *v -= along * u);
                }
            }
            let norm = v.iter().map(|x| x * x).sum::<f64>().sqrt();
            v.iter_mut().for_each(|x| *x /= norm);
            vectors.push(v);
        }
        vectors
    }

    #[test]
    fn diagonal_orthogonal_and_tiny_matrices() {
        close(&sorted(&[3.0, 0.0, 0.0, 0.0, -5.0, 0.0], 2, 3), &[5.0, 3.0], 1e-14);
        close(&sorted(&[3.0, 0.0, 0.0, -5.0, 0.0, 0.0], 3, 2), &[5.0, 3.0], 1e-14);
        let (c, s) = (0.6, 0.8);
        close(&sorted(&[c, -s, 0.0, s, c, 0.0, 0.0, 0.0, 1.0], 3, 3), &[1.0; 3], 1e-7);
        close(&sorted(&[-2.0], 1, 1), &[2.0], 1e-15);
        // [[1, 1], [0, 1]]: the golden ratio and its inverse.
        let golden = (1.0 + 5f64.sqrt()) / 2.0;
        close(&sorted(&[1.0, 1.0, 0.0, 1.0], 2, 2), &[golden, 1.0 / golden], 1e-14);
    }

    #[test]
    fn rank_one_has_one_value() {
        let matrix: Vec<f32> =
            (0..12).map(|i| [1.0, 2.0, -3.0][i / 4] * [2.0, 0.0, 1.0, 4.0][i % 4]).collect();
        close(&sorted(&matrix, 3, 4), &[(14.0f64 * 21.0).sqrt(), 0.0, 0.0], 1e-14);
    }

    #[test]
    fn random_matrices_of_known_values() {
        for (rows, columns) in [(40, 23), (23, 40), (64, 64)] {
            let n = rows.min(columns);
            let expected: Vec<f64> = (0..n).map(|i| 10.0 * 0.7f64.powi(i as i32 % 20)).collect();
            let (u, v) = (orthonormal(rows, n, 1), orthonormal(columns, n, 2));
            let entry =
                |i: usize| (0..n).map(|k| u[k][i / columns] * expected[k] * v[k][i % columns]).sum::<f64>();
            let matrix: Vec<f32> = (0..rows * columns).map(|i| entry(i) as f32).collect();
            let mut expected = expected.clone();
            expected.sort_by(|a, b| b.total_cmp(a));
            // The matrix is given in f32.
            close(&sorted(&matrix, rows, columns), &expected, 3e-6);
        }
    }

    #[test]
    fn what_has_no_values_is_missing() {
        assert_eq!(singular_values(&[], 0, 3), None);
        assert_eq!(singular_values(&[1.0, f32::NAN], 1, 2), None);
        assert_eq!(singular_values(&[1.0, f32::INFINITY], 2, 1), None);
        assert_eq!(singular_values(&[0.0; 6], 2, 3), Some(vec![0.0; 2]));
    }
}
