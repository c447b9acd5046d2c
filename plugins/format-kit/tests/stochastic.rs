//! Stochastic rounding: exact thresholds, no bias, and independence from how a tensor is split.
#![allow(clippy::unwrap_used)]

mod common;

use altgrad_conformance::Random;
use altgrad_format_kit::{
    cpu, random,
    round::{Rounder, Stochastic},
};
use altgrad_plugin_api::{Domain, QuantParams, RandomKey, Rounding};
use common::{DOMAINS, Reference};

const KEY: RandomKey = RandomKey { seed: 0xdead_beef_0123, step: 5, tensor: 9, offset: 0 };

fn check_thresholds<const E: u32, const M: u32>() {
    for domain in DOMAINS {
        let Ok(rounder) = Rounder::<E, M>::new(domain) else { continue };
        let reference = Reference::new(&rounder.grid());
        let mut random = Random(11);
        for i in 0..200_000 {
            // Half of the inputs are near the format's smallest step, where the cut is widest.
            let near =
                reference.values[1] as f32 * f32::from_bits((127 - i % 40) << 23 | random.next_u32() >> 9);
            let x = if i % 2 == 0 { near } else { f32::from_bits(random.next_u32()) };
            let word = random.next_u32() >> (random.next_u32() % 32);
            let (got, expected) =
                (rounder.value::<Stochastic>(x, word), reference.value_bits(x, Rounding::STOCHASTIC, word));
            assert_eq!(got.to_bits(), expected, "E{E}M{M} {domain:?}: {x:e} with {word:#x}");
            if !x.is_nan() {
                let code = rounder.code::<Stochastic>(x, word).unwrap();
                assert_eq!(rounder.grid().decode(code).to_bits(), expected);
            }
        }
        for &value in &reference.values {
            for word in [0, 1, u32::MAX] {
                assert_eq!(
                    f64::from(rounder.value::<Stochastic>(value as f32, word)),
                    value,
                    "grid points stay"
                );
            }
        }
    }
}

#[test]
fn the_threshold_is_the_distance_to_the_lower_neighbour() {
    for_all_formats!(check_thresholds);
}

fn stochastic(key: RandomKey) -> QuantParams<'static> {
    QuantParams { rounding: Rounding::STOCHASTIC, key, ..QuantParams::IDENTITY }
}

/// The mean of n roundings of x lies within 4 standard errors of x.
fn check_unbiased<const E: u32, const M: u32>() {
    const N: usize = 1 << 16;
    let rounder = Rounder::<E, M>::new(if E == 8 { Domain::IEEE } else { Domain::FIN }).unwrap();
    let reference = Reference::new(&rounder.grid());
    let smallest = reference.values[1];
    let mut inputs = vec![0.3, 1.1, -0.77, 1.97];
    // Below the smallest step, also where the cut is wider than a random word.
    inputs.extend([0.9, -0.37, 0.01].map(|share| share * smallest));
    for (tensor, x) in inputs.into_iter().map(|x| x as f32).enumerate() {
        let params = stochastic(RandomKey { tensor: tensor as u64, ..KEY });
        let mut out = vec![0.0; N];
        cpu::fake_quant(&rounder, &vec![x; N], &mut out, &params, &mut []).unwrap();
        let mean = out.iter().map(|&y| f64::from(y)).sum::<f64>() / N as f64;
        let x = f64::from(x);
        let lower = reference.values[reference.code(x as f32, Rounding::TOWARD_ZERO, 0)];
        let step = rounder.grid().spacing(x);
        let p = (x.abs() - lower) / step;
        let standard_error = step * (p * (1.0 - p) / N as f64).sqrt();
        assert!((mean - x).abs() <= 4.0 * standard_error, "E{E}M{M}: mean of {x:e} is {mean:e}");
    }
}

#[test]
fn the_mean_is_unbiased() {
    for_all_formats!(check_unbiased);
}

#[test]
fn probabilities_far_below_the_grid() {
    let rounder = Rounder::<7, 0>::new(Domain::FIN).unwrap();
    let step = 2f32.powi(-62);
    // 2^-20 of the step goes up for 2^12 of the 2^32 words, exactly; 2^-40 of it for none.
    for (share, words_up) in [(2f32.powi(-20), 1 << 12), (2f32.powi(-32), 1), (2f32.powi(-40), 0)] {
        let up = |word: u32| rounder.value::<Stochastic>(share * step, word) != 0.0;
        assert!(words_up == 0 || up(words_up - 1));
        assert!(!up(words_up) && !up(u32::MAX));
    }
}

#[test]
fn any_split_of_a_tensor_gives_the_same_result() {
    let rounder = Rounder::<5, 2>::new(Domain::IEEE).unwrap();
    let mut random = Random(5);
    let src: Vec<f32> = (0..3001).map(|_| (random.next_u32() as f32 / 2f32.powi(31)) - 1.0).collect();
    let (mut whole, mut codes) = (vec![0.0; src.len()], vec![0; src.len()]);
    cpu::fake_quant(&rounder, &src, &mut whole, &stochastic(KEY), &mut []).unwrap();
    cpu::encode(&rounder, &src, &mut codes, &stochastic(KEY)).unwrap();
    for part in [1, 3, 4, 100, 511, 513, 3000] {
        for (i, (src, whole)) in src.chunks(part).zip(whole.chunks(part)).enumerate() {
            let params = stochastic(RandomKey { offset: (i * part) as u64, ..KEY });
            let mut out = vec![0.0; src.len()];
            cpu::fake_quant(&rounder, src, &mut out, &params, &mut []).unwrap();
            assert_eq!(out, whole, "parts of {part}");
        }
    }
    let mut words = vec![0; src.len()];
    random::fill(&KEY, 0, &mut words);
    for i in 0..src.len() {
        assert_eq!(whole[i], rounder.value::<Stochastic>(src[i], words[i]), "one word an element");
        assert_eq!(whole[i], rounder.grid().decode(codes[i]), "encode draws the same words");
    }
    let mut other = vec![0.0; src.len()];
    for key in [RandomKey { seed: 1, ..KEY }, RandomKey { step: 6, ..KEY }, RandomKey { tensor: 1, ..KEY }] {
        cpu::fake_quant(&rounder, &src, &mut other, &stochastic(key), &mut []).unwrap();
        assert_ne!(other, whole, "{key:?}");
    }
}
