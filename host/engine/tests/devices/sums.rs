//! Sums of gradients on GPUs against their definitions in f64: counts and maxima exactly, sums to six digits, and the
//! same bits again.
//!
//! A device that does not answer is reported as skipped.

#![cfg(feature = "gpu")]
#![allow(clippy::unwrap_used)]

use altgrad_end_to_end::Random;
use altgrad_engine::{
    fused_ops::scale,
    kernel_text::{download, upload},
    metrics::ops,
    read_back::ReadBack,
    tensor::{self, parts_kernel},
};
use burn::{
    backend::{DispatchDevice, ops::FloatTensorOps as _},
    tensor::{DType, Tensor},
};
use burn_cubecl::{
    CubeBackend,
    kernel::matmul::{MatmulStrategy, matmul},
};

use super::devices;

/// More elements than a launch has units; not a multiple of anything.
const MANY: usize = 3_000_017;

/// Positive numbers, so that errors of sums do not cancel; every seventh is dead, every fifth negative if `signs`.
fn numbers(seed: u64, signs: bool) -> Vec<f32> {
    let mut random = Random::seeded(seed);
    let mut value = |i: usize| {
        let x = random.unit() as f32 + 0.1;
        let x = if i.is_multiple_of(7) { x * 1e-9 } else { x };
        if signs && i.is_multiple_of(5) { -x } else { x }
    };
    (0..MANY).map(&mut value).collect()
}

fn read(slots: Tensor<1>) -> Vec<[f32; ops::SLOT]> {
    let mut read_back = ReadBack::default();
    let slot = read_back.request(slots);
    read_back.read().unwrap().rows(slot).unwrap().to_vec()
}

fn close(what: &str, found: f64, expected: f64) {
    assert!((found / expected - 1.0).abs() < 2e-6, "{what}: {found}, not {expected}");
}

#[test]
fn devices_add_moments_in_a_fixed_order() {
    for device in devices("devices_add_moments_in_a_fixed_order") {
        let x = numbers(1, false);
        let on_device = tensor::flat(x.clone(), &device.tensors);
        let tensors = [on_device];
        let slots = read(ops::moments(&tensors));
        assert_eq!(slots, read(ops::moments(&tensors)), "{}", device.label);
        let mean = |of: fn(f64) -> f64| x.iter().map(|&x| of(x.into())).sum::<f64>() / MANY as f64;
        let [sum, squares, dead, _] = ops::means(&slots);
        close("mean", sum, mean(|x| x));
        close("mean square", squares, mean(|x| x * x));
        assert_eq!(dead, MANY.div_ceil(7) as f64 / MANY as f64, "{}", device.label);
        let largest = x.iter().copied().fold(0f32, f32::max);
        assert_eq!(ops::largest(&slots), f64::from(largest), "{}", device.label);
    }
}

/// Tensors of any lengths in one launch, and in launches of their own: the same bits.
#[test]
fn moments_of_many_tensors_are_those_of_each() {
    for device in devices("moments_of_many_tensors_are_those_of_each") {
        let lens = [1, 70_001, 3, 1024, 1025, 5, 255, 2];
        let tensors = lens.map(|len| tensor::flat(numbers(4, true)[..len].to_vec(), &device.tensors));
        let each = tensors.iter().flat_map(|x| read(ops::moments(std::slice::from_ref(x))));
        assert_eq!(read(ops::moments(&tensors)), each.collect::<Vec<_>>(), "{}", device.label);
        let scaled = scale::all_scaled(tensors.to_vec(), 0.3);
        for (x, scaled) in tensors.into_iter().zip(scaled) {
            let expected: Vec<f32> = tensor::read_f32(x).unwrap().iter().map(|x| x * 0.3).collect();
            assert_eq!(tensor::read_f32(scaled).unwrap(), expected, "{}", device.label);
        }
    }
}

/// Whole numbers, whose sums are exact: a product in parts, one factor of which is a transposed view.
#[test]
fn products_in_parts_are_those_of_the_whole() {
    for device in devices("products_in_parts_are_those_of_the_whole") {
        let DispatchDevice::Cube(cube) = device.tensors.as_dispatch() else {
            panic!("{} is a GPU", device.label)
        };
        for ([m, n, k], parts) in [([7, 5, 12], 4), ([16, 12, 64], 2), ([1, 3, 8], 8)] {
            let of = |row: usize, column: usize| ((7 * row + 13 * column) % 11) as f32 - 5.0;
            let matrix = |rows: usize, columns: usize| {
                let values = (0..rows * columns).map(|i| of(i / columns, i % columns)).collect();
                upload::<CubeBackend>(cube, [rows, columns].into(), values)
            };
            let a = CubeBackend::float_swap_dims(matrix(k, m), 0, 1);
            let [a, b] = parts_kernel::split(a, matrix(k, n), parts);
            let products = parts_kernel::products([&a, &b]);
            matmul(a, b, Some(products.clone()), MatmulStrategy::default(), DType::F32).unwrap();
            let expected: Vec<f32> =
                (0..m * n).map(|i| (0..k).map(|term| of(term, i / n) * of(term, i % n)).sum()).collect();
            let found = download::<CubeBackend>(parts_kernel::sum(products)).unwrap();
            assert_eq!(found, expected, "{m} x {k} by {k} x {n} in {parts} parts on {}", device.label);
        }
    }
}

#[test]
fn special_values_are_not_hidden() {
    for device in devices("special_values_are_not_hidden") {
        for len in [1, 7, 5000] {
            for special in [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
                let mut x = vec![-1.0f32; len];
                x[len - 1] = special;
                let slots = read(ops::moments(&[tensor::flat(x, &device.tensors)]));
                let what = format!("{special} of {len} on {}", device.label);
                let largest = ops::largest(&slots);
                assert_eq!((largest.is_nan(), largest.is_finite()), (special.is_nan(), false), "{what}");
                assert!(!ops::means(&slots)[1].is_finite(), "{what}");
            }
        }
    }
}

#[test]
fn devices_compare_tensors_as_the_definition_does() {
    for device in devices("devices_compare_tensors_as_the_definition_does") {
        let (mut a, mut b) = (numbers(2, false), numbers(3, true));
        // Zeros of both signs are one sign, and the smallest numbers have theirs.
        (a[..4]).copy_from_slice(&[0.0, -0.0, f32::from_bits(1), f32::from_bits(1)]);
        (b[..4]).copy_from_slice(&[-0.0, 1.0, 2.0, -2.0]);
        let found = ops::agreement(
            &tensor::flat(a.clone(), &device.tensors),
            &tensor::flat(b.clone(), &device.tensors),
        );
        let [product, first, second, equal] = ops::means(&read(found));
        let mean = |of: fn(f64, f64) -> f64| {
            a.iter().zip(&b).map(|(&a, &b)| of(a.into(), b.into())).sum::<f64>() / MANY as f64
        };
        close("product", product, mean(|a, b| a * b));
        close("first square", first, mean(|a, _| a * a));
        close("second square", second, mean(|_, b| b * b));
        let same = |a: f64, b: f64| f64::from(u8::from((a > 0.0) == (b > 0.0) && (a < 0.0) == (b < 0.0)));
        assert_eq!(equal, mean(same), "{}", device.label);
    }
}
