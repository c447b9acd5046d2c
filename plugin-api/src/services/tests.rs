//! The table of handles: its results by hand, and requests of a plugin that must be errors.
#![allow(clippy::unwrap_used)]

use super::{
    plain::{Plain, PlainMatrix},
    table::{Compute, Served},
    *,
};
use crate::ErrorKind;

fn given(served: &Served<Plain>, shape: [usize; 2], values: &[f32]) -> u64 {
    let matrix = PlainMatrix { shape, values: values.to_vec() };
    served.give(matrix, shape.map(|extent| extent as u64), true)
}

fn values(served: &Served<Plain>, handle: u64) -> Vec<f32> {
    served.take(handle).unwrap().values
}

#[test]
fn operations_by_hand() {
    let served = Served::new(Plain);
    let object = served.object();
    let services = Services::new(&object);
    let a = services.given(given(&served, [2, 3], &[1.0, 2.0, 3.0, -4.0, 5.0, -6.0])).unwrap();
    let row = services.given(given(&served, [1, 3], &[1.0, 10.0, 100.0])).unwrap();
    let out = services.given(given(&served, [2, 2], &[0.0; 4])).unwrap();
    let check = |matrix: Matrix<'_>, shape: [u64; 2], expected: &[f32]| {
        assert_eq!(matrix.shape(), shape);
        assert_eq!(values(&served, matrix.handle), expected);
    };
    check(a.matmul(&a.transpose().unwrap()).unwrap(), [2, 2], &[14.0, -12.0, -12.0, 77.0]);
    check(a.matmul_transposed(&a).unwrap(), [2, 2], &[14.0, -12.0, -12.0, 77.0]);
    check(row.transposed_matmul(&row).unwrap().reduce(ReduceOp::SUM, Axes::ALL).unwrap(), [1, 1], &[12321.0]);
    check(a.zip(ZipOp::MUL, &row).unwrap(), [2, 3], &[1.0, 20.0, 300.0, -4.0, 50.0, -600.0]);
    check(row.zip(ZipOp::SUB, &a).unwrap(), [2, 3], &[0.0, 8.0, 97.0, 5.0, 5.0, 106.0]);
    check(a.reduce(ReduceOp::SUM, Axes::ROWS).unwrap(), [2, 1], &[6.0, -5.0]);
    check(a.reduce(ReduceOp::MAX_ABS, Axes::COLUMNS).unwrap(), [1, 3], &[4.0, 5.0, 6.0]);
    check(a.reduce(ReduceOp::SUM_SQUARES, Axes::ALL).unwrap(), [1, 1], &[91.0]);
    check(a.blend(2.0, &a, -1.0).unwrap(), [2, 3], &[1.0, 2.0, 3.0, -4.0, 5.0, -6.0]);
    check(a.affine(2.0, 1.0).unwrap(), [2, 3], &[3.0, 5.0, 7.0, -7.0, 11.0, -11.0]);
    check(a.reshape([3, 2]).unwrap().transpose().unwrap(), [2, 3], &[1.0, 3.0, 5.0, 2.0, -4.0, -6.0]);
    check(a.map(MapOp::SIGN).unwrap(), [2, 3], &[1.0, 1.0, 1.0, -1.0, 1.0, -1.0]);
    assert_eq!(row.dot(&row).unwrap().read().unwrap(), 10101.0);
    assert_eq!(services.full([1, 1], 9.0).unwrap().norm().unwrap().read().unwrap(), 9.0);
    out.assign(&services.full([2, 2], 7.0).unwrap()).unwrap();
    check(out, [2, 2], &[7.0; 4]);
}

#[test]
fn comparison_selection_and_gather_by_hand() {
    let served = Served::new(Plain);
    let object = served.object();
    let services = Services::new(&object);
    let a = services.given(given(&served, [2, 3], &[1.0, 2.0, f32::NAN, -4.0, 5.0, -6.0])).unwrap();
    let row = services.given(given(&served, [1, 3], &[1.0, 5.0, -6.0])).unwrap();
    let elements = |matrix: Matrix<'_>| values(&served, matrix.handle);
    assert_eq!(elements(a.zip(ZipOp::LESS, &row).unwrap()), [0.0, 1.0, 0.0, 1.0, 0.0, 0.0]);
    assert_eq!(elements(a.zip(ZipOp::LESS_EQUAL, &row).unwrap()), [1.0, 1.0, 0.0, 1.0, 1.0, 1.0]);
    let equal = a.zip(ZipOp::EQUAL, &row).unwrap();
    let [ones, zeros] = [1.0, 0.0].map(|x| services.full([2, 3], x).unwrap());
    // NaN is not carried over.
    assert_eq!(elements(equal.select(&a, &zeros).unwrap()), [1.0, 0.0, 0.0, 0.0, 5.0, -6.0]);
    assert_eq!(elements(ones.select(&zeros, &a).unwrap()), [0.0; 6]);
    let order = services.given(given(&served, [1, 4], &[1.0, 0.0, 9.0, -1.0])).unwrap();
    let gathered = elements(a.gather(&order).unwrap());
    assert_eq!(
        (gathered[..2].to_vec(), gathered[4..].to_vec()),
        (vec![2.0, 1.0], vec![5.0, -4.0, -6.0, -4.0])
    );
    assert!(gathered[2].is_nan() && gathered[3] == 1.0);
    assert_eq!(a.gather(&a).unwrap_err().kind, ErrorKind::SHAPE);
    assert_eq!(a.select(&a, &row).unwrap_err().kind, ErrorKind::SHAPE);
    let mixed = [2.0, f32::NAN, -1.0, 2.0, f32::INFINITY, f32::NAN, 0.0, -0.0];
    let mixed = services.given(given(&served, [1, 8], &mixed)).unwrap();
    assert_eq!(elements(mixed.argsort().unwrap()), [4.0, 0.0, 3.0, 6.0, 7.0, 2.0, 1.0, 5.0]);
    assert_eq!(a.argsort().unwrap_err().kind, ErrorKind::SHAPE);
}

#[test]
fn factors_multiply_to_the_matrix() {
    let served = Served::new(Plain);
    let object = served.object();
    let services = Services::new(&object);
    let numbers: Vec<f32> = (0..35).map(|i| ((i * i) as f32 * 0.37).sin() * 3.0).collect();
    let a = services.given(given(&served, [7, 5], &numbers)).unwrap();
    let near = |found: Matrix<'_>, expected: &Matrix<'_>| {
        let apart = found.zip(ZipOp::SUB, expected).unwrap().norm().unwrap().read().unwrap();
        assert!(apart <= 1e-5 * expected.norm().unwrap().read().unwrap().max(1.0), "{apart}");
    };
    let identity =
        services.given(given(&served, [5, 5], &[[1.0].as_slice(), &[0.0; 5]].concat().repeat(5)[..25]));
    let identity = identity.unwrap();
    let [q, r] = a.qr().unwrap();
    near(q.matmul(&r).unwrap(), &a);
    near(q.transposed_matmul(&q).unwrap(), &identity);
    let gram = a.transposed_matmul(&a).unwrap();
    let [scales, vectors] = gram.eigen().unwrap();
    near(vectors.zip(ZipOp::MUL, &scales).unwrap().matmul_transposed(&vectors).unwrap(), &gram);
    near(vectors.transposed_matmul(&vectors).unwrap(), &identity);
    let ascending = values(&served, scales.handle);
    assert!(ascending.is_sorted(), "{ascending:?}");
    let lower = gram.cholesky().unwrap();
    near(lower.matmul_transposed(&lower).unwrap(), &gram);
    // The eigenvalues 1 and 3 of [[2, 1], [1, 2]], by hand.
    let two = services.given(given(&served, [2, 2], &[2.0, 9.0, 1.0, 2.0])).unwrap();
    let [scales, vectors] = two.eigen().unwrap();
    let half = 0.5f32.sqrt();
    let close = |found: Vec<f32>, expected: &[f32]| {
        assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6), "{found:?}");
    };
    close(values(&served, scales.handle), &[1.0, 3.0]);
    close(values(&served, vectors.handle).iter().map(|x| x.abs()).collect(), &[half; 4]);
    // A column that depends on another, and matrices without such factors.
    let flat = services.full([3, 2], 1.0).unwrap();
    let [q, r] = flat.qr().unwrap();
    near(q.matmul(&r).unwrap(), &flat);
    assert_eq!(a.transpose().unwrap().qr().unwrap_err().kind, ErrorKind::SHAPE);
    assert_eq!(a.eigen().unwrap_err().kind, ErrorKind::SHAPE);
    assert_eq!(services.full([2, 2], -1.0).unwrap().cholesky().unwrap_err().kind, ErrorKind::VALUE);
    // What is not finite is NaN, unless it is in the triangle that is ignored.
    let spoiled = services.given(given(&served, [2, 2], &[1.0, f32::INFINITY, 0.0, 4.0])).unwrap();
    assert!(spoiled.qr().unwrap().map(|x| values(&served, x.handle)).concat().iter().all(|x| x.is_nan()));
    assert_eq!(values(&served, spoiled.cholesky().unwrap().handle), [1.0, 0.0, 0.0, 2.0]);
    let [scales, _] = spoiled.transpose().unwrap().eigen().unwrap();
    assert!(values(&served, scales.handle).iter().all(|x| x.is_nan()));
    let unknown = object.factor(FactorOp(77), gram.handle).into_result().unwrap_err();
    assert_eq!(unknown.message, "factor operation 77 is not one this host knows");
}

#[test]
fn what_does_not_fit_is_an_error() {
    let served = Served::new(Plain);
    let object = served.object();
    let (a, b) = (given(&served, [2, 3], &[1.0; 6]), given(&served, [2, 2], &[1.0; 4]));
    let frozen = served.give(PlainMatrix { shape: [2, 2], values: vec![0.0; 4] }, [2, 2], false);
    let message = |result: RResult<u64, PluginError>| result.into_result().unwrap_err().message.to_string();
    assert_eq!(message(object.matmul(a, false, b, false)), "matmul: 2 x 3 times 2 x 2 does not fit");
    assert_eq!(message(object.zip(ZipOp::ADD, a, b)), "zip: shapes [2, 3] and [2, 2] do not fit");
    assert_eq!(message(object.blend(a, 1.0, b, 1.0)), "blend: shapes [2, 3] and [2, 2] differ");
    assert_eq!(message(object.reshape(a, 4, 2)), "reshape: [2, 3] has not the elements of [4, 2]");
    assert!(message(object.full(u64::MAX, 2, 0.0)).ends_with("has more than 2147483647 elements"));
    assert!(message(object.reshape(a, 1 << 40, 1 << 40)).ends_with("has more than 2147483647 elements"));
    assert_eq!(message(object.map(MapOp(77), a)), "map operation 77 is not one this host knows");
    assert_eq!(message(object.zip(ZipOp(77), a, a)), "zip operation 77 is not one this host knows");
    assert_eq!(
        message(object.reduce(ReduceOp(77), Axes::ALL, a)),
        "reduce operation 77 is not one this host knows"
    );
    assert_eq!(
        message(object.reduce(ReduceOp::SUM, Axes(0), a)),
        "axes operation 0 is not one this host knows"
    );
    assert_eq!(object.read(a).into_result().unwrap_err().kind, ErrorKind::SHAPE);
    let kind = |result: RResult<(), PluginError>| result.into_result().unwrap_err().kind;
    assert_eq!(kind(object.assign(a, b)), ErrorKind::SHAPE);
    assert_eq!(kind(object.assign(frozen, b)), ErrorKind::UNSUPPORTED);
    assert_eq!(kind(object.free(a)), ErrorKind::UNSUPPORTED);
}

#[test]
fn handles_of_other_calls_and_freed_ones_are_unknown() {
    let (served, other) = (Served::new(Plain), Served::new(Plain));
    let (object, foreign) = (served.object(), given(&other, [1, 1], &[1.0]));
    let made = object.full(1, 1, 1.0).into_result().unwrap();
    assert_eq!(object.read(made).into_result(), Ok(1.0));
    object.free(made).into_result().unwrap();
    for handle in [foreign, made, 0, u64::MAX] {
        let error = object.read(handle).into_result().unwrap_err();
        assert_eq!(
            (error.kind, error.message.as_str()),
            (ErrorKind::VALUE, &*format!("tensor {handle} is unknown here"))
        );
        assert!(object.free(handle).is_err() && object.shape(handle).is_err());
    }
    // A matrix frees itself.
    let services = Services::new(&object);
    let handle = services.full([1, 1], 0.0).unwrap().handle;
    assert!(object.shape(handle).is_err());
}

#[test]
fn empty_matrices_have_sums() {
    let served = Served::new(Plain);
    let object = served.object();
    let services = Services::new(&object);
    let empty = services.given(given(&served, [0, 3], &[])).unwrap();
    assert_eq!(empty.norm().unwrap().read().unwrap(), 0.0);
    assert_eq!(empty.reduce(ReduceOp::SUM, Axes::COLUMNS).unwrap().shape(), [1, 3]);
    assert_eq!(empty.transpose().unwrap().qr().unwrap().map(|x| x.shape()), [[3, 0], [0, 0]]);
    assert_eq!(empty.reduce(ReduceOp::MAX_ABS, Axes::ALL).unwrap_err().kind, ErrorKind::SHAPE);
    assert_eq!(values(&served, empty.transposed_matmul(&empty).unwrap().handle), [0.0; 9]);
}

/// Panics at every request.
struct Broken;

impl Compute for Broken {
    type Tensor = ();
    fn full(&self, _: [usize; 2], _: f32) {
        panic!("no memory")
    }
    fn matmul(&self, (): (), (): ()) {}
    fn map(&self, _: MapOp, (): ()) -> Option<()> {
        None
    }
    fn affine(&self, (): (), _: f32, _: f32) {}
    fn zip(&self, _: ZipOp, (): (), (): ()) -> Option<()> {
        None
    }
    fn select(&self, (): (), (): (), (): ()) {}
    fn gather(&self, (): (), (): ()) {}
    fn argsort(&self, (): ()) -> Result<(), PluginError> {
        Ok(())
    }
    fn factor(&self, _: FactorOp, (): ()) -> Option<Result<Vec<()>, PluginError>> {
        None
    }
    fn reduce(&self, _: ReduceOp, _: bool, _: bool, (): ()) -> Option<()> {
        None
    }
    fn transpose(&self, (): ()) {}
    fn reshape(&self, (): (), _: [usize; 2]) {}
    fn read(&self, (): ()) -> Result<f32, PluginError> {
        Err(PluginError::unsupported("never"))
    }
}

#[test]
fn a_panic_of_the_tensor_library_is_an_error() {
    let served = Served::new(Broken);
    let object = served.object();
    let error = object.full(1, 1, 1.0).into_result().unwrap_err();
    assert_eq!(error.message, "the host's service `full` failed");
    assert!(object.shape(served.give((), [1, 1], true)).is_ok(), "the table is still there");
}
