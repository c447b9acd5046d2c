//! Formats with one deliberate fault each, and the check that must find it.

// The constants are used as type names.
#![allow(non_upper_case_globals, clippy::unwrap_used, clippy::expect_used)]

mod common;

use std::sync::atomic::{AtomicU64, Ordering};

use altgrad_conformance::{Subject, Verdict, check, checks};
use altgrad_format_kit::MinifloatFormat;
use altgrad_plugin_api::{
    BufferRole, CodebookChoice, Config, Conventions, DType, Descriptor, Domain, Format, FormatSpec,
    InfoField, InfoKind, KernelBuffer, KernelLanguage, KernelOp, KernelTarget, KernelText, MergeRule,
    OptionSpec, PartialSum, PluginError, QuantParams, QuantStats, RandomKey, Rounding, Scales,
    StatisticsWord, texts,
};
use common::named;

named!(E4M3, Domain::FN, &[Domain::FN]);
type Base = MinifloatFormat<E4M3, 4, 3>;

/// The faults, as numbers: a type parameter cannot be a text.
mod fault {
    macro_rules! faults {
        ($($fault:ident),+ $(,)?) => {
            #[allow(clippy::enum_variant_names)]
            enum Fault { $($fault),+ }
            $(pub const $fault: u32 = Fault::$fault as u32;)+
        };
    }
    faults!(
        Sound,
        TieUp,
        LostCarry,
        NanSwallowed,
        LastUnwritten,
        ZeroSign,
        InfKept,
        WrongUnderflow,
        WrongSum,
        Forgetful,
        Counting,
        Shared,
        Panics,
        SameKey,
        Biased,
        PerTensor,
        Clustered,
        LongKernel,
        WideKernel,
        DeafKernel,
        LooseKernel,
        NoisyHistogram,
        BadDecode,
        BadEncode,
        NanEncoded,
        ShortSpec,
        PanicsOnText,
        BadDefault,
        Flushes,
        Overwide,
        LosesOffset,
        FirstScale,
        FirstBlock,
        AnyMode,
        EndlessMagnitude,
        NoMagnitude,
        ShortTable,
    );
}
use fault::*;

struct Mutant<const F: u32> {
    sound: Base,
    calls: AtomicU64,
}

/// The correct format's option, and one whose default is out of range.
const BAD_DEFAULT: [OptionSpec; 2] = [VARIANT, OptionSpec::float("x", 3.0).range(0.0, 1.0)];
/// The correct format's option, and a text.
const MODE: [OptionSpec; 2] = [VARIANT, OptionSpec::text("mode", "a").choices(texts!["a", "b"])];
const VARIANT: OptionSpec = Base::DESCRIPTOR.options.as_slice()[0];

/// Shared by all instances of the format that does so.
static CALLS: AtomicU64 = AtomicU64::new(0);

impl<const F: u32> Mutant<F> {
    /// The scales that it uses, changed by the fault.
    fn scales<'a>(scales: &Scales<'a>) -> Scales<'a> {
        match scales.pairs.as_slice() {
            [first, ..] if F == FirstScale => Scales::whole(first),
            // As if every call began with the tensor's first element.
            _ if F == FirstBlock => Scales { first: 0, ..*scales },
            _ => *scales,
        }
    }

    /// The parameters that it rounds with, changed by the fault.
    fn params<'a>(&self, params: &QuantParams<'a>) -> QuantParams<'a> {
        let calls = self.calls.fetch_add(1, Ordering::Relaxed);
        let key = params.key;
        let key = match F {
            Counting => RandomKey { offset: key.offset + 4 * calls, ..key },
            SameKey => RandomKey { seed: 1, ..key },
            PerTensor => RandomKey { step: 0, ..key },
            LosesOffset => RandomKey { offset: 0, ..key },
            _ => key,
        };
        let is_guessed = F == AnyMode && params.rounding.name().is_none();
        let rounding = if is_guessed { Rounding::NEAREST_EVEN } else { params.rounding };
        QuantParams { key, rounding, scales: Self::scales(&params.scales) }
    }

    /// Its change of the inputs, before the correct format rounds them.
    fn inputs(src: &[f32], params: &QuantParams<'_>) -> Vec<f32> {
        let scale = |i: usize| params.scales.of(i as u64)[0];
        src.iter().enumerate().map(|(i, &x)| Self::input(x, scale(i), params.rounding)).collect()
    }

    fn input(x: f32, scale: f32, rounding: Rounding) -> f32 {
        let scaled = x * scale;
        match F {
            // 17 lies between 16 and 18, and its even neighbour is 16.
            TieUp if rounding == Rounding::NEAREST_EVEN && scaled.abs() == 17.0 => x * 1.01,
            // The carry from 1.11|1 to 10.00 does not reach the exponent.
            LostCarry if (15.5..16.0).contains(&scaled) => 15.0 / scale,
            Flushes if x.abs() < f32::MIN_POSITIVE => 0.0,
            Overwide if scaled.abs() > 448.0 => x * 0.5,
            Biased if rounding == Rounding::STOCHASTIC => x * 1.002,
            _ => x,
        }
    }
}

impl<const F: u32> Format for Mutant<F> {
    const DESCRIPTOR: Descriptor = match F {
        BadDefault => Base::DESCRIPTOR.options(&BAD_DEFAULT),
        PanicsOnText => Base::DESCRIPTOR.options(&MODE),
        _ => Base::DESCRIPTOR,
    };

    fn new(config: &Config) -> Result<Self, PluginError> {
        if F == PanicsOnText {
            assert!(["a", "b"].contains(&config.text("mode")?), "unreachable");
        }
        Ok(Self { sound: Base::new(config)?, calls: AtomicU64::new(0) })
    }

    fn spec(&self) -> FormatSpec {
        if F == ShortSpec { FormatSpec::Table(vec![0.0; 100].into()) } else { self.sound.spec() }
    }

    fn conventions(&self) -> Conventions {
        match F {
            EndlessMagnitude | NoMagnitude => Conventions::default().with_magnitude(),
            ShortTable => Conventions::default().choosing(CodebookChoice::LEAST_ERROR, [vec![0.0, 1.0]]),
            _ => Conventions::default(),
        }
    }

    fn magnitude(&self, block: &[f32]) -> Result<f32, PluginError> {
        if F == NoMagnitude {
            return self.sound.magnitude(block);
        }
        // An infinity is no number.
        Ok(block.iter().fold(0.0, |most, x| most.max(x.abs())))
    }

    fn fake_quant(
        &self,
        src: &[f32],
        dst: &mut [f32],
        params: &QuantParams<'_>,
        histogram: &mut [u64],
    ) -> Result<QuantStats, PluginError> {
        let (len, asked) = (src.len(), params);
        let params = self.params(params);
        let inputs = Self::inputs(src, &params);
        let before = dst.last().copied();
        let mut stats = self.sound.fake_quant(&inputs, dst, &params, histogram)?;
        match F {
            NanSwallowed => dst.iter_mut().filter(|y| y.is_nan()).for_each(|y| *y = 0.0),
            ZeroSign => dst.iter_mut().filter(|y| **y == 0.0).for_each(|y| *y = 0.0),
            InfKept => {
                src.iter().zip(dst).filter(|(x, _)| x.is_infinite()).for_each(|(x, y)| *y = *x);
            }
            LastUnwritten if len > 0 && len % 8 == 7 => {
                dst[len - 1] = before.unwrap_or_default();
            }
            WrongUnderflow => stats.underflow = dst.iter().filter(|y| **y == 0.0).count() as u64,
            WrongSum => stats.sum_err2 *= 1.0 + 1e-5,
            NoisyHistogram if src.iter().any(|x| x.is_infinite()) => {
                histogram.iter_mut().take(1).for_each(|count| *count += 1);
            }
            Shared if CALLS.fetch_add(1, Ordering::Relaxed) % 3 == 2 => stats.nonzero += 1,
            Forgetful
                if self.calls.load(Ordering::Relaxed) > 12 && params.rounding == Rounding::TOWARD_ZERO =>
            {
                dst.iter_mut().for_each(|y| *y = -*y);
            }
            Panics if !params.scales.pairs[0][0].is_normal() => panic!("what a scale"),
            Clustered if asked.rounding == Rounding::STOCHASTIC => {
                // Each pair of elements is rounded alike.
                let pairs =
                    dst.chunks_mut(2).zip(src.chunks(2)).filter(|(_, x)| x.len() == 2 && x[0] == x[1]);
                pairs.for_each(|(y, _)| y[1] = y[0]);
            }
            _ => {}
        }
        Ok(stats)
    }

    fn encode(&self, src: &[f32], dst: &mut [u16], params: &QuantParams<'_>) -> Result<(), PluginError> {
        let params = self.params(params);
        let inputs = Self::inputs(src, &params);
        self.sound.encode(&inputs, dst, &params)?;
        match F {
            BadEncode => dst.iter_mut().filter(|code| **code == 0x85).for_each(|code| *code = 0x05),
            NanEncoded => dst.iter_mut().filter(|code| **code & 0x7f == 0x7f).for_each(|code| *code = 0),
            _ => {}
        }
        Ok(())
    }

    fn decode(&self, codes: &[u16], dst: &mut [f32], scales: &Scales<'_>) -> Result<(), PluginError> {
        let low: Vec<u16> =
            codes.iter().map(|code| if F == BadDecode { code & 0xff } else { *code }).collect();
        self.sound.decode(&low, dst, &Self::scales(scales))
    }

    fn kernel(&self, op: KernelOp, target: &KernelTarget) -> Result<Option<KernelText>, PluginError> {
        let mut text = rounder();
        match F {
            LongKernel => text.source = "void other() {}".into(),
            WideKernel => text.vector = 4,
            DeafKernel => (text.buffers[0].reads, text.buffers[0].writes) = (false, true),
            LooseKernel => text.info.push(text.info[0].clone()),
            _ => return Ok(None),
        }
        let offered = op == KernelOp::FAKE_QUANT && target.language == text.language;
        Ok((offered && text.vector <= target.vector).then_some(text))
    }
}

/// A text as it should be.
fn rounder() -> KernelText {
    let buffer = |role, dtype, reads, writes| KernelBuffer { role, index: 0, dtype, reads, writes };
    let word = |(name, merge): (&str, MergeRule)| StatisticsWord { name: name.into(), merge };
    let counts = ["overflow", "underflow", "nan", "nonzero"].map(|name| (name, MergeRule::ADD));
    let sums = ["sum_x2", "sum_err2", "sum_x_xhat"].into_iter();
    KernelText {
        language: KernelLanguage::CUDA,
        entry: "rounds".into(),
        source: "void rounds() {}".into(),
        cube_dim: [32, 1, 1],
        vector: 1,
        buffers: vec![
            buffer(BufferRole::SOURCE, DType::F32, true, false),
            buffer(BufferRole::DESTINATION, DType::F32, false, true),
            buffer(BufferRole::SCALES, DType::F32, true, false),
            buffer(BufferRole::STATISTICS, DType::U32, true, true),
            buffer(BufferRole::PARTIAL_SUMS, DType::F32, false, true),
        ]
        .into(),
        info: vec![InfoField { offset: 0, kind: InfoKind::BUFFER_LEN, index: 0, divisor: 1 }].into(),
        info_words: 1,
        statistics: [("amax", MergeRule::MAX)].into_iter().chain(counts).map(word).collect(),
        partial_sums: sums.map(|name| PartialSum { name: name.into(), exponent: 0 }).collect(),
    }
}

/// The fault is found by each of the named checks, and reported with the given words.
#[track_caller]
fn found<const F: u32>(names: &[&str], words: &str) {
    let subjects = Subject::all_of::<Mutant<F>>().unwrap();
    let mut said = Vec::new();
    for name in names {
        let fault = (check(name).unwrap().run)(&subjects[0]).expect_err(name);
        said.push(fault);
    }
    assert!(said.iter().any(|fault| fault.contains(words)), "{words} expected: {said:#?}");
}

#[test]
fn without_a_fault_nothing_is_found() {
    let subject = &Subject::all_of::<Mutant<{ fault::Sound }>>().unwrap()[0];
    for check in checks() {
        let verdict = (check.run)(subject);
        assert!(verdict.is_ok(), "{}: {verdict:?}", check.name);
        let is_skipped = ["kernels", "magnitudes"].contains(&check.name);
        assert_eq!(matches!(verdict, Ok(Verdict::Skipped(_))), is_skipped, "{}", check.name);
    }
}

#[test]
fn faults_of_rounding() {
    found::<TieUp>(&["nearest_even_edges"], "-1.7e1 (0xc1880000) with scale 1 nearest-even: -1.8e1");
    found::<LostCarry>(&["nearest_even_edges", "nearest_away_edges"], "1.55e1");
    found::<Overwide>(&["nearest_even_edges", "monotonicity", "statistics_counts"], "4.48");
    found::<NanSwallowed>(&["special_values"], "NaN");
    found::<InfKept>(&["special_values", "nearest_even_edges"], "inf");
    found::<ZeroSign>(&["nearest_even_edges", "sign_symmetry"], "-0e0");
    found::<Flushes>(&["statistics_counts"], "underflow");
}

#[test]
fn faults_of_statistics() {
    found::<WrongUnderflow>(&["statistics_counts"], "underflow");
    found::<WrongSum>(&["statistics_sums"], "sum_err2");
    found::<NoisyHistogram>(&["histogram"], "code 0x0 is counted");
}

#[test]
fn faults_of_codes() {
    found::<BadDecode>(&["decode_codes"], "decode takes code 0x100");
    found::<BadEncode>(&["encode_codes", "nearest_even_edges"], "0x85");
    found::<NanEncoded>(&["encode_nan"], "is encoded as 0x0");
    found::<ShortSpec>(&["spec", "decode_codes"], "100 codes");
}

#[test]
fn faults_of_calls() {
    found::<LastUnwritten>(&["shapes"], "fake_quant of 7 elements");
    found::<Forgetful>(&["repeatable"], "toward-zero");
    found::<Shared>(&["repeatable", "instances"], "nonzero");
    found::<Panics>(&["strange_arguments"], "what a scale");
    found::<PanicsOnText>(&["options"], "panicked in `new`");
    found::<BadDefault>(&["descriptor"], "must be between 0 and 1");
}

#[test]
fn faults_of_parameters() {
    found::<FirstScale>(&["block_scales"], "blocks of 16, 2500 elements from element 0");
    found::<FirstBlock>(&["block_scales"], "600 elements from element 1");
    found::<AnyMode>(&["unknown_rounding"], "fake_quant takes rounding mode 4");
}

#[test]
fn faults_of_blocks() {
    found::<EndlessMagnitude>(&["magnitudes"], "is inf, not a finite number");
    found::<NoMagnitude>(&["magnitudes"], "it has no magnitude of blocks");
    found::<ShortTable>(&["spec"], "table 1 with 2 values for 256 codes");
}

#[test]
fn faults_that_random_calls_find() {
    found::<TieUp>(&["random_calls"], "seed ");
    found::<NanSwallowed>(&["random_calls"], " became ");
    found::<ZeroSign>(&["random_calls"], "-0e0");
    found::<LastUnwritten>(&["random_calls"], "seed ");
}

#[test]
fn faults_of_kernel_texts() {
    found::<LongKernel>(&["kernels"], "does not contain its entry");
    found::<WideKernel>(&["kernels"], "none for vector 1");
    found::<DeafKernel>(&["kernels"], "it lacks a buffer BufferRole(1) with reads true");
    found::<LooseKernel>(&["kernels"], "two fields lie there");
}

#[test]
fn faults_of_randomness() {
    found::<Counting>(&["repeatable", "splits", "threads"], "stochastic");
    found::<SameKey>(&["stochastic_keys", "stochastic_independence"], "draws the same bits");
    found::<PerTensor>(&["stochastic_keys", "stochastic_independence"], "consecutive steps are correlated");
    found::<LosesOffset>(&["splits", "stochastic_keys"], "parts of");
    found::<Biased>(&["stochastic_unbiased", "stochastic_chi_square"], "standard errors");
    found::<Clustered>(&["stochastic_independence"], "elements 1 apart are correlated");
}
