//! Calls between guard pages, on sources that cannot be written: an access that is not allowed ends the process.

use altgrad_plugin_api::{Blocks, QuantParams, Rounding, Scales};

use crate::{
    CheckResult, Instance, Subject, Verdict,
    compare::{KEY, mode_name, same_values},
    guarded::{Guarded, Place, announce, no_memory},
    inputs::{in_range, scales},
    subject::{UNWRITTEN, said},
};

/// Around every size a loop may be cut into pieces of; the last is more than a page.
const LENGTHS: [usize; 17] = [1, 2, 3, 5, 7, 8, 9, 15, 17, 31, 33, 64, 127, 511, 513, 1025, 2049];
/// Elements that share a scale.
const BLOCK: usize = 32;

pub(crate) fn memory(subject: &Subject) -> CheckResult {
    let (instance, oracle) = subject.instance_and_oracle()?;
    let src = in_range(&oracle, 1.0, LENGTHS[LENGTHS.len() - 1], 121);
    let pairs: Vec<[f32; 2]> = (0..src.len().div_ceil(BLOCK))
        .map(|block| scales(&oracle)[block % 3])
        .map(|scale| [scale, 1.0 / scale])
        .collect();
    for rounding in instance.modes()? {
        for len in LENGTHS {
            for place in Place::BOTH {
                let call = Call {
                    instance: &instance,
                    pairs: &pairs,
                    counters: oracle.by_code().len(),
                    rounding,
                    place,
                };
                call.run(&src[..len])?;
            }
        }
    }
    Ok(Verdict::Passed)
}

/// Calls with one mode, and data at one end of their pages.
struct Call<'a> {
    instance: &'a Instance,
    pairs: &'a [[f32; 2]],
    counters: usize,
    rounding: Rounding,
    place: Place,
}

impl Call<'_> {
    fn run(&self, src: &[f32]) -> Result<(), String> {
        let what = |call: &str| {
            let (mode, side) =
                (mode_name(self.rounding), if self.place == Place::First { "before" } else { "behind" });
            let len = src.len();
            format!(
                "in {call} of {len} elements, {mode}, where nothing {side} them may be touched and only the results be written"
            )
        };
        let pairs = &self.pairs[..src.len().div_ceil(BLOCK)];
        let ordinary = self.params(pairs);
        let (expected, _) = self.instance.quantized(src, &ordinary)?;
        let codes = self.instance.encoded(src, &ordinary)?;
        let locked_pairs = Guarded::locked(pairs, self.place).map_err(no_memory)?;
        let locked = Guarded::locked(src, self.place).map_err(no_memory)?;
        let params = self.params(locked_pairs.get());

        announce(&what("fake_quant"));
        let mut dst = self.destination(vec![UNWRITTEN; src.len()])?;
        let mut histogram = self.destination(vec![0u64; self.counters])?;
        let called = self.instance.fake_quant(locked.get(), dst.get_mut(), &params, histogram.get_mut());
        called.map_err(|error| said(&what("fake_quant"), &error))?;
        same_values(&what("fake_quant"), dst.get(), &expected)?;

        announce(&what("encode"));
        let mut coded = self.destination(vec![u16::MAX; src.len()])?;
        let called = self.instance.encode(locked.get(), coded.get_mut(), &params);
        called.map_err(|error| said(&what("encode"), &error))?;
        if coded.get() != codes {
            return Err(format!("{}: other codes than elsewhere", what("encode")));
        }

        announce(&what("decode"));
        let codes = Guarded::locked(&codes, self.place).map_err(no_memory)?;
        let called = self.instance.decode(codes.get(), dst.get_mut(), &params.scales);
        called.map_err(|error| said(&what("decode"), &error))?;
        if src.is_empty() || !self.instance.conventions()?.has_magnitude {
            return Ok(());
        }
        announce(&what("magnitude"));
        let found = self.instance.magnitude(locked.get());
        found.map(drop).map_err(|error| said(&what("magnitude"), &error))
    }

    fn params<'p>(&self, pairs: &'p [[f32; 2]]) -> QuantParams<'p> {
        let scales = Scales::new(pairs, Blocks::consecutive(BLOCK as u64));
        QuantParams { scales, rounding: self.rounding, key: KEY }
    }

    fn destination<T: crate::guarded::Plain>(&self, values: Vec<T>) -> Result<Guarded<T>, String> {
        Guarded::new(&values, self.place).map_err(no_memory)
    }
}
