//! Metrics of attention: entropy and largest score of its softmax, and the spectrum of its query-key forms.

use altgrad_metrics::{
    Layer, MetricDefinition, MetricId, MetricRecord, Statistic,
    families::attention::{ATTENTION_ENTROPY, LEAST_HEAD_ENTROPY, MAX_LOGIT, QK_ENTROPY},
};

use super::{
    family::{self, Formula, MetricFamily, MetricSetup},
    singular::singular_values,
};
use crate::fused_ops::attention::AttentionStats;

/// Statistics of the softmax of a layer.
static STATISTICS: [Formula<AttentionStats, f64>; 3] = [
    (&ATTENTION_ENTROPY, |stats| stats.entropy),
    (&LEAST_HEAD_ENTROPY, |stats| stats.least_entropy),
    (&MAX_LOGIT, |stats| stats.largest_score),
];

/// The family.
pub struct AttentionFamily;

/// Measurements of a step's attention, by the parameter of queries, keys and values.
#[derive(Debug, Clone, Copy)]
pub struct AttentionInputs<'a> {
    /// Softmax, on steps that measure it.
    pub softmax: &'a [(usize, AttentionStats)],
    /// Entropy of the query-key form, one entry per parameter, on steps that measure it.
    pub qk_entropy: &'a [Option<f64>],
}

impl MetricFamily for AttentionFamily {
    type Inputs<'a> = AttentionInputs<'a>;

    fn ids(setup: &MetricSetup<'_>) -> Vec<MetricId> {
        let layers = || setup.layout.blocks.iter().map(|block| &setup.parameters[block.c_attn.weight]);
        let definitions = STATISTICS.iter().map(|(definition, _)| *definition).chain([&QK_ENTROPY]);
        definitions.flat_map(|definition| family::ids_of(definition, layers())).collect()
    }

    fn record(setup: &MetricSetup<'_>, measured: AttentionInputs<'_>, record: &mut MetricRecord) {
        let largest = measured.softmax.iter().map(|(_, stats)| stats.largest_score);
        let largest = largest.reduce(|a, b| if a.is_nan() || a > b { a } else { b });
        record.push_some(&MAX_LOGIT, largest);
        let of_layer =
            |definition: &'static MetricDefinition, layer: &Layer| Statistic::new(definition).of_layer(layer);
        for (definition, value) in STATISTICS {
            for (parameter, stats) in measured.softmax {
                record.push(of_layer(definition, &setup.parameters[*parameter]), value(stats));
            }
        }
        for (layer, entropy) in setup.parameters.iter().zip(measured.qk_entropy) {
            record.push_some(of_layer(&QK_ENTROPY, layer), *entropy);
        }
    }
}

/// The least entropy of a query head's query-key form, from the stacked weight of queries, keys and values,
/// `[rows, width]`, and the numbers of query heads and of key heads.
#[must_use]
pub fn qk_entropy(weight: &[f32], width: usize, [heads, kv_heads]: [usize; 2]) -> Option<f64> {
    let head = width / heads * width;
    let (queries, rest) = weight.split_at_checked(heads * head)?;
    let keys = rest.get(..kv_heads * head)?.chunks_exact(head);
    let keys = keys.flat_map(|keys| std::iter::repeat_n(keys, heads / kv_heads));
    let heads = queries.chunks_exact(head).zip(keys);
    let entropies: Option<Vec<f64>> =
        heads.map(|(queries, keys)| form_entropy(queries, keys, width)).collect();
    entropies?.into_iter().reduce(f64::min)
}

/// The entropy of the squared singular values of `Q^T K`, both `[head width, width]`. With `Q Q^T = L L^T` they are
/// those of `L^T K`, which is as small as `K`.
fn form_entropy(queries: &[f32], keys: &[f32], width: usize) -> Option<f64> {
    let n = queries.len() / width;
    let factor = cholesky(queries, n, width);
    let mut product = vec![0f64; keys.len()];
    for (row, product) in product.chunks_exact_mut(width).enumerate() {
        for (at, keys) in keys.chunks_exact(width).enumerate().skip(row) {
            let factor = factor[at * n + row];
            product.iter_mut().zip(keys).for_each(|(sum, key)| *sum += factor * f64::from(*key));
        }
    }
    let largest = product.iter().fold(0f64, |most, x| most.max(x.abs()));
    // Scaled into the range of f32; entropies do not depend on a factor.
    let product: Vec<f32> = product.iter().map(|x| (x / largest) as f32).collect();
    let squares: Vec<f64> =
        singular_values(&product, n, width)?.into_iter().map(|value| value * value).collect();
    let sum: f64 = squares.iter().sum();
    let shares = squares.iter().map(|square| square / sum).filter(|share| *share > 0.0);
    (sum > 0.0).then(|| shares.map(|share| -share * share.ln()).sum())
}

/// The lower triangle `L`, `[n, n]`, with `L L^T` the Gram matrix of the rows of `a`. Directions that are missing are
/// zero.
fn cholesky(a: &[f32], n: usize, width: usize) -> Vec<f64> {
    let row = |i: usize| &a[i * width..(i + 1) * width];
    let dot = |i: usize, j: usize| -> f64 {
        row(i).iter().zip(row(j)).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
    };
    let mut factor = vec![0f64; n * n];
    for i in 0..n {
        for j in 0..=i {
            let known: f64 = (0..j).map(|k| factor[i * n + k] * factor[j * n + k]).sum();
            let whole = dot(i, j);
            factor[i * n + j] = if i == j {
                let rest = whole - known;
                if rest > whole * f64::EPSILON * n as f64 { rest.sqrt() } else { 0.0 }
            } else if factor[j * n + j] > 0.0 {
                (whole - known) / factor[j * n + j]
            } else {
                0.0
            };
        }
    }
    factor
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_entropy_of_a_form_is_that_of_the_product_itself() {
        // Two heads of width 2 in a width of 4; the product Q^T K of each is [4, 4] and has two singular values at
        // most.
        let weight: Vec<f32> = (0..48).map(|i| ((i * 37 % 23) as f32 - 11.0) / 7.0).collect();
        let entropy = |head: usize| {
            let (q, k) = (&weight[head * 8..head * 8 + 8], &weight[16 + head * 8..16 + head * 8 + 8]);
            let form: Vec<f32> =
                (0..16).map(|at| (0..2).map(|h| q[h * 4 + at / 4] * k[h * 4 + at % 4]).sum()).collect();
            let squares: Vec<f64> =
                singular_values(&form, 4, 4).unwrap().into_iter().map(|value| value * value).collect();
            let sum: f64 = squares.iter().sum();
            squares.iter().map(|s| s / sum).filter(|p| *p > 1e-12).map(|p| -p * p.ln()).sum::<f64>()
        };
        let found = qk_entropy(&weight, 4, [2, 2]).unwrap();
        assert!((found - entropy(0).min(entropy(1))).abs() < 1e-6, "{found}");
        // Both query heads with the first key head.
        let repeated = [&weight[..24], &weight[16..24]].concat();
        assert_eq!(qk_entropy(&weight[..32], 4, [2, 1]), qk_entropy(&repeated, 4, [2, 2]));
    }

    #[test]
    fn forms_by_hand() {
        // Q = K = identity of two directions: two equal singular values.
        let identity = [1.0, 0.0, 0.0, 1.0];
        let weight: Vec<f32> = [identity, identity, [9.0; 4]].concat();
        assert!((qk_entropy(&weight, 2, [1, 1]).unwrap() - 2f64.ln()).abs() < 1e-9);
        // Queries that are all alike: one direction.
        let weight: Vec<f32> = [[1.0, 2.0, 1.0, 2.0], identity, [9.0; 4]].concat();
        assert!(qk_entropy(&weight, 2, [1, 1]).unwrap().abs() < 1e-6);
        assert_eq!(qk_entropy(&[0.0; 12], 2, [1, 1]), None);
        assert_eq!(qk_entropy(&[f32::NAN; 12], 2, [1, 1]), None);
    }
}
