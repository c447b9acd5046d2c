//! The finished format through the plugin contract: options, statistics, histograms, errors.
#![allow(clippy::unwrap_used)]

mod common;

use altgrad_conformance::Random;
use altgrad_format_kit::{MinifloatFormat, MinifloatName};
use altgrad_plugin_api::{
    Config, ConfigValue, Domain, ErrorKind, Format, FormatSpec, QuantParams, QuantStats, Rounding, Scales,
};

struct E4M3;

impl MinifloatName for E4M3 {
    const ID: &'static str = "E4M3";
    const VERSION: &'static str = "1.0.0";
    const SUMMARY: &'static str = "test";
    const CANONICAL: Domain = Domain::FN;
    const DOMAINS: &'static [Domain] = &[Domain::IEEE, Domain::FN, Domain::FIN];
}

type Plugin = MinifloatFormat<E4M3, 4, 3>;

fn plugin(variant: &str) -> Plugin {
    let given = [("variant".to_string(), ConfigValue::Text(variant.into()))];
    Plugin::new(&Config::resolve(&Plugin::DESCRIPTOR.options, given).unwrap()).unwrap()
}

#[test]
fn the_variant_selects_the_domain() {
    for (variant, domain) in
        [("", Domain::FN), ("ieee", Domain::IEEE), ("fn", Domain::FN), ("fin", Domain::FIN)]
    {
        let FormatSpec::Minifloat(spec) = plugin(variant).spec() else { unreachable!() };
        assert_eq!((spec.exponent_bits, spec.significand_bits, spec.bias), (4, 3, 7));
        assert_eq!(spec.domain, domain);
    }
    let given = [("variant".to_string(), ConfigValue::Text("fnuz".into()))];
    let fault = Config::resolve(&Plugin::DESCRIPTOR.options, given).unwrap_err();
    assert_eq!(fault.message, "must be one of ieee, fn, fin, found `fnuz`");
}

/// Scale 4 puts the largest value, 448, at 112, and the smallest step, 2^-9, at 2^-11.
#[test]
fn statistics_count_what_their_definitions_say() {
    let step = 2f32.powi(-11);
    let src = [
        0.0,
        -0.0,
        f32::NAN,
        f32::INFINITY,
        -f32::INFINITY,
        112.0,
        // Two units in the last place above the largest value: it saturates and is no overflow.
        112.0f32.next_up().next_up(),
        112.0f32.next_up().next_up().next_up(),
        -1000.0,
        step,
        step / 2.0,
        -step / 4.0,
        1e-42,
        0.3,
    ];
    let expected =
        [0.0, -0.0, f32::NAN, 112.0, -112.0, 112.0, 112.0, 112.0, -112.0, step, 0.0, -0.0, 0.0, 0.3125];
    let params = QuantParams::nearest(Scales::whole(&[4.0, 0.25]));
    let (mut dst, mut histogram) = ([9.0; 14], [0; 256]);
    let stats = plugin("").fake_quant(&src, &mut dst, &params, &mut histogram).unwrap();
    for (got, expected) in dst.iter().zip(expected) {
        assert!(
            got.to_bits() == expected.to_bits() || (got.is_nan() && expected.is_nan()),
            "{got}, {expected}"
        );
    }
    let finite = src.iter().zip(&dst).filter(|(x, _)| x.is_finite());
    let finite: Vec<(f64, f64)> = finite.map(|(&x, &y)| (f64::from(x), f64::from(y))).collect();
    let counts = QuantStats { amax: 1000.0, overflow: 4, underflow: 3, nan: 1, nonzero: 12, ..stats };
    assert_eq!(stats, counts);
    let close =
        |got: f64, expected: f64| assert!((got - expected).abs() <= 1e-12 * expected, "{got}, {expected}");
    close(stats.sum_x2, finite.iter().map(|(x, _)| x * x).sum());
    close(stats.sum_err2, finite.iter().map(|(x, y)| (y - x) * (y - x)).sum());
    close(stats.sum_x_xhat, finite.iter().map(|(x, y)| x * y).sum());
    assert_eq!(histogram.iter().sum::<u64>(), 14);
    assert_eq!((histogram[0x7f], histogram[0x7e], histogram[0xfe], histogram[1]), (1, 4, 2, 1));
    assert_eq!((histogram[0], histogram[0x80]), (3, 2));
}

#[test]
fn nothing_finite_leaves_amax_zero() {
    let mut dst = [0.0; 3];
    let src = [f32::NAN, f32::INFINITY, 0.0];
    let stats = plugin("fin").fake_quant(&src, &mut dst, &QuantParams::IDENTITY, &mut []).unwrap();
    assert_eq!((stats.amax, stats.overflow, stats.nan, stats.nonzero), (0.0, 1, 1, 2));
    assert_eq!((stats.sum_x2, stats.sum_err2, stats.sum_x_xhat), (0.0, 0.0, 0.0));
    assert!(dst[0].is_nan() && dst[1] == 480.0);
}

#[test]
fn the_histogram_is_that_of_encode() {
    let mut random = Random(2);
    let src: Vec<f32> = (0..5000).map(|_| f32::from_bits(random.next_u32())).collect();
    let format = plugin("");
    for rounding in Rounding::ALL {
        let params = QuantParams { rounding, ..QuantParams::IDENTITY };
        let (mut values, mut decoded, mut codes) = (vec![0.0; 5000], vec![0.0; 5000], vec![0; 5000]);
        let mut histogram = [1; 256];
        format.fake_quant(&src, &mut values, &params, &mut histogram).unwrap();
        format.encode(&src, &mut codes, &params).unwrap();
        format.decode(&codes, &mut decoded, &Scales::ONE).unwrap();
        let mut expected = [1; 256];
        codes.iter().for_each(|&code| expected[usize::from(code)] += 1);
        assert_eq!(histogram, expected, "{rounding:?}");
        let same = |(a, b): (&f32, &f32)| a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan());
        assert!(values.iter().zip(&decoded).all(same), "{rounding:?}");
    }
}

#[test]
fn faults_are_errors() {
    let format = plugin("fin");
    let params = QuantParams::IDENTITY;
    let mut codes = [0; 3];
    let error = format.encode(&[1.0, f32::NAN, 2.0], &mut codes, &params).unwrap_err();
    assert_eq!(error.kind, ErrorKind::VALUE);
    assert_eq!(error.message, "element 1 is NaN, which the format has no code for");
    assert!(plugin("ieee").encode(&[f32::NAN], &mut codes[..1], &params).is_ok());
    assert_eq!(format.decode(&[0, 256], &mut [0.0; 2], &Scales::ONE).unwrap_err().kind, ErrorKind::VALUE);
    assert_eq!(format.decode(&[0], &mut [], &Scales::ONE).unwrap_err().kind, ErrorKind::SHAPE);
    assert_eq!(format.encode(&[0.0], &mut [], &params).unwrap_err().kind, ErrorKind::SHAPE);
    assert_eq!(format.fake_quant(&[0.0], &mut [], &params, &mut []).unwrap_err().kind, ErrorKind::SHAPE);
    let short = &mut [0; 255];
    assert_eq!(format.fake_quant(&[0.0], &mut [0.0], &params, short).unwrap_err().kind, ErrorKind::SHAPE);
    assert_eq!(format.fake_quant(&[], &mut [], &params, &mut []).unwrap(), QuantStats::default());
}
