//! Codes: decoding every one of them, and encoding the decoded values.

use altgrad_plugin_api::{ErrorKind, QuantParams, Scales};

use crate::{
    CheckResult, Subject, Verdict,
    compare::{same, shown},
    inputs::NANS,
    subject::{UNWRITTEN, said},
};

fn all_codes(count: usize) -> Vec<u16> {
    (0..count).map(|code| code as u16).collect()
}

pub(crate) fn decode_codes(subject: &Subject) -> CheckResult {
    let (instance, oracle) = subject.instance_and_oracle()?;
    let codes = all_codes(oracle.by_code().len());
    let values = instance.decoded(&codes)?;
    for ((code, &got), &expected) in codes.iter().zip(&values).zip(oracle.by_code()) {
        if !same(got, expected) {
            return Err(format!("code {code:#x} decodes to {}, expected {}", shown(got), shown(expected)));
        }
    }
    let beyond = [oracle.by_code().len(), oracle.by_code().len() + 1, usize::from(u16::MAX)];
    for code in
        beyond.into_iter().filter(|code| (oracle.by_code().len()..=usize::from(u16::MAX)).contains(code))
    {
        match instance.decode(&[0, code as u16], &mut [UNWRITTEN; 2], &Scales::ONE) {
            Ok(()) => return Err(format!("decode takes code {code:#x}, which is beyond the last")),
            Err(error) if error.kind == ErrorKind::VALUE => {}
            Err(error) => {
                return Err(format!("code {code:#x}: {}, a VALUE error expected", said("decode", &error)));
            }
        }
    }
    Ok(Verdict::Passed)
}

pub(crate) fn encode_codes(subject: &Subject) -> CheckResult {
    let (instance, oracle) = subject.instance_and_oracle()?;
    let (min, max) = oracle.range();
    let table = oracle.by_code().iter().enumerate().filter(|(_, value)| !value.is_nan());
    let (codes, values): (Vec<usize>, Vec<f32>) = table.unzip();
    let again = instance.encoded(&values, &QuantParams::IDENTITY)?;
    for ((&code, &value), &got) in codes.iter().zip(&values).zip(&again) {
        let due = match value {
            f32::INFINITY => max as f32,
            f32::NEG_INFINITY => min as f32,
            value => value,
        };
        let meaning = oracle.by_code().get(usize::from(got)).copied();
        // In a table two codes may have one value; a sign-magnitude format has each value once.
        let right = if oracle.sign_magnitude() && value.is_finite() {
            usize::from(got) == code
        } else {
            meaning == Some(due)
        };
        if !right {
            let meaning = meaning.map_or("no code of the format".into(), shown);
            return Err(format!(
                "code {code:#x} decodes to {}, which encodes as {got:#x} ({meaning})",
                shown(value)
            ));
        }
    }
    Ok(Verdict::Passed)
}

pub(crate) fn encode_nan(subject: &Subject) -> CheckResult {
    let (instance, oracle) = subject.instance_and_oracle()?;
    let has_nan = oracle.by_code().iter().any(|value| value.is_nan());
    // In a table NaN may also mean that a code is unused, so there refusing is right as well.
    let (may_encode, may_refuse) = (has_nan, !has_nan || !oracle.sign_magnitude());
    for nan in NANS {
        let mut codes = [0; 3];
        match instance.encode(&[0.0, nan, 0.0], &mut codes, &QuantParams::IDENTITY) {
            Ok(()) if may_encode => {
                let meaning = oracle.by_code().get(usize::from(codes[1])).copied();
                if !meaning.is_some_and(f32::is_nan) {
                    return Err(format!("{} is encoded as {:#x}, which is no NaN", shown(nan), codes[1]));
                }
            }
            Ok(()) => return Err(format!("{} is encoded as {:#x} without an error", shown(nan), codes[1])),
            Err(error) if may_refuse && error.kind == ErrorKind::VALUE => {}
            Err(error) => return Err(format!("{}: {}", shown(nan), said("encode", &error))),
        }
    }
    Ok(Verdict::Passed)
}
