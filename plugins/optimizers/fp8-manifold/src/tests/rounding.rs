//! Without master weights: the effect of rounding on steps of a tenth of a code.

use altgrad_format_kit::{
    random,
    round::{NearestEven, Rounder, Stochastic},
};
use altgrad_plugin_api::RandomKey;

use super::*;

fn words(step: u64, count: usize) -> Vec<u32> {
    let mut words = vec![0; count];
    random::fill(&RandomKey { seed: 1, step, tensor: 0, offset: 0 }, 0, &mut words);
    words
}

/// Every finite code but the ends steps 0.1 codes, up and down; rounded with the keys of 400 steps.
fn survival<const E: u32, const M: u32>(rounder: &Rounder<E, M>) {
    let grid = rounder.grid();
    let w: Vec<f32> = (1..grid.max_code()).flat_map(|code| [grid.decode(code); 2]).collect();
    let grad: Vec<f32> = (0..w.len()).map(|i| if i % 2 == 0 { 1.0 } else { -1.0 }).collect();
    let mut param = Param::new(&[w.len() as u64], &w).on(&FormatSpec::Minifloat(grid.spec()), 1.0);
    param.step(&manifold(&[("eps", float(1e-30))]), 0.1, 1, &grad).unwrap();
    let mut moved = vec![0u32; w.len()];
    for step in 0..400 {
        for (i, word) in words(step, w.len()).into_iter().enumerate() {
            assert_eq!(rounder.value::<NearestEven>(param.w[i], 0), w[i], "E{E}M{M}: nearest moved {}", w[i]);
            moved[i] += u32::from(rounder.value::<Stochastic>(param.w[i], word) != w[i]);
        }
    }
    // Binomial, 400 times 0.1: five standard deviations of one are 30, of the mean of some 250 below 2.
    for (moved, w) in moved.iter().zip(&w) {
        assert!(moved.abs_diff(40) < 30, "E{E}M{M}: {w} moved {moved} times of 400");
    }
    let mean = f64::from(moved.iter().sum::<u32>()) / moved.len() as f64;
    assert!((mean - 40.0).abs() < 2.0, "E{E}M{M}: {mean} times of 400 on average");
}

/// Weights on the grid whose targets are 40 codes below, with the square of that distance as the loss; returns the
/// remaining codes, on average.
fn trained<const E: u32, const M: u32>(rounder: &Rounder<E, M>, stochastic: bool) -> f64 {
    let grid = rounder.grid();
    let codes: Vec<u16> = (60..100).collect();
    let left = |w: &[f32]| -> Vec<f64> {
        w.iter().zip(&codes).map(|(&w, code)| grid.phi(w.into()) - f64::from(code - 40)).collect()
    };
    let start: Vec<f32> = codes.iter().map(|&code| grid.decode(code)).collect();
    let mut param = Param::new(&[40], &start).on(&FormatSpec::Minifloat(grid.spec()), 1.0);
    let optimizer = manifold(&[]);
    for t in 1..=600 {
        let slope = |(left, &w): (f64, &f32)| (left / grid.spacing(w.into())) as f32;
        let grad: Vec<f32> = left(&param.w).into_iter().zip(&param.w).map(slope).collect();
        param.step(&optimizer, 0.1, t, &grad).unwrap();
        for (w, word) in param.w.iter_mut().zip(words(t, 40)) {
            *w = if stochastic {
                rounder.value::<Stochastic>(*w, word)
            } else {
                rounder.value::<NearestEven>(*w, 0)
            };
        }
    }
    left(&param.w).iter().map(|left| left.abs()).sum::<f64>() / 40.0
}

fn format<const E: u32, const M: u32>(domain: Domain) {
    let rounder = Rounder::<E, M>::new(domain).unwrap();
    survival(&rounder);
    assert_eq!(trained(&rounder, false), 40.0, "E{E}M{M}, nearest");
    let left = trained(&rounder, true);
    assert!(left < 4.0, "E{E}M{M}, stochastic: {left} codes to go");
}

#[test]
fn a_tenth_of_a_code_stalls_under_nearest_and_trains_under_stochastic_rounding() {
    format::<0, 7>(Domain::FIN);
    format::<1, 6>(Domain::FIN);
    format::<2, 5>(Domain::FIN);
    format::<3, 4>(Domain::FIN);
    format::<4, 3>(Domain::FN);
    format::<5, 2>(Domain::IEEE);
    format::<6, 1>(Domain::FIN);
    format::<7, 0>(Domain::FIN);
}
