//! `casts apply`: raw little-endian f32 in; values, codes and scales out.

use std::{path::PathBuf, process::ExitCode, str::FromStr, sync::Arc};

use altgrad_base::{diagnostic::Diagnostic, eprintln, println};
use altgrad_casts::{Applied, Axis, BlockGrid, CastError, Centered, Grid, Shape};
use altgrad_config::{
    DeviceChoice, Source,
    cast::{CastSection, CenterChoice, ScaleRoundingChoice, ScaleTypeChoice, TensorScaleChoice, read_cast},
};
use altgrad_engine::{
    debug::quantize::{CastInput, apply_cast},
    device::ComputeDevice,
    quant::grid,
};
use altgrad_plugin_api::{QuantParams, RandomKey};
use clap::{Args, ValueEnum};

use crate::{formats::FolderArgs, raw_f32};

/// `altgrad-host casts apply`.
#[derive(Debug, Args)]
pub(crate) struct ApplyArgs {
    /// The cast: `E4M3`, which has one f32 scale for the tensor, or `format = "E4M3", block = 32, scaling = { type =
    /// "e8m0", rule = "rceil" }`.
    #[arg(long, value_name = "TOML")]
    cast: String,
    /// Rows and columns of the matrix.
    #[arg(long, value_name = "R,C")]
    shape: MatrixShape,
    /// Axis of blocks and transforms: the contraction of the product in which the matrix is used.
    #[arg(long)]
    axis: AxisChoice,
    /// Raw little-endian f32, row-major.
    #[arg(long, value_name = "F32LE")]
    input: PathBuf,
    /// The values after the cast, in the same layout. With a transform they are those of the transformed matrix.
    #[arg(long, value_name = "F32LE")]
    output: PathBuf,
    /// The decode scale of each block, row-major, without the tensor's scale. Each axis of the matrix is divided by the
    /// block's extent.
    #[arg(long, value_name = "F32LE")]
    scales: Option<PathBuf>,
    /// The decode scale of the tensor, one number; with scaling.outer that of each outer block. Only with
    /// scaling.tensor.
    #[arg(long, value_name = "F32LE")]
    tensor_scale: Option<PathBuf>,
    /// The scales as bytes; only with a scaling.type of bytes, such as e8m0 or e4m3.
    #[arg(long, value_name = "FILE")]
    scale_codes: Option<PathBuf>,
    /// The number of the chosen candidate of each block, a byte each, from 0; only with scaling.choice.
    #[arg(long, value_name = "FILE")]
    choices: Option<PathBuf>,
    /// The exponent of the factor of each of the smallest sub-blocks, a byte each, row-major; only with
    /// scaling.microexponents.
    #[arg(long, value_name = "FILE")]
    microexponents: Option<PathBuf>,
    /// The rounded mean, one number per column; only with center. The other files are those of the residuals.
    #[arg(long, value_name = "F32LE")]
    mean: Option<PathBuf>,
    /// The codes, a byte each, row-major; only for formats of at most 8 bits. They consist of sign and magnitude. If
    /// the magnitudes do not fit beside a sign, they are the format's own codes.
    #[arg(long, value_name = "FILE")]
    codes: Option<PathBuf>,
    /// Seed of stochastic rounding and random signs (step 0, tensor 0).
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Random words, u32 and row-major, in place of those of the seed: one per block with scaling.round = "stochastic",
    /// else one per element with random_bits. For comparisons with another implementation.
    #[arg(long, value_name = "U32LE")]
    words: Option<PathBuf>,
    /// Device that computes the values: auto, cpu, cuda:N or wgpu. The values of another device are compared with those
    /// of the CPU; NaN equals NaN. Stochastic rounding along columns draws other bits on other devices, as in training.
    /// Scales and codes are always computed on the CPU.
    #[arg(long, default_value = "cpu")]
    device: DeviceChoice,
    #[command(flatten)]
    folder: FolderArgs,
}

/// Why equal values vanish, and what to do.
const EQUAL_VALUES: &str =
    "rule rms scales by their standard deviation about the mean; use a transform before it, or rule floor";

/// The axis of blocks.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum AxisChoice {
    /// Blocks run within a row.
    Rows,
    /// Blocks run within a column.
    Columns,
}

/// `32,64`.
#[derive(Debug, Clone, Copy)]
struct MatrixShape(Shape);

impl FromStr for MatrixShape {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let extent = |text: &str| text.trim().parse().ok().filter(|extent| *extent > 0);
        let parts = text.split_once(',');
        let extents = parts.and_then(|(rows, columns)| extent(rows).zip(extent(columns)));
        let (rows, columns) = extents.ok_or("must be rows and columns, such as 32,64")?;
        Ok(Self(Shape { rows, columns }))
    }
}

pub(super) fn run(args: &ApplyArgs) -> Result<ExitCode, Diagnostic> {
    let (section, source, idle) = read_cast("--cast", &args.cast)?;
    for key in idle {
        eprintln!("warning: {}", key.message);
    }
    let format = args
        .folder
        .format_at("format", &section.format)
        .map_err(|error| error.at(source.locate("format")))?;
    let format = Arc::new(format);
    let grid = grid(&format)?;
    let cast = section.cast();
    cast.check(&grid).map_err(|error| refusal(&error, &source))?;
    args.refuse_files(&grid, &section)?;
    let values = raw_f32::read(&args.input)?;
    let axis = match args.axis {
        AxisChoice::Rows => Axis::Rows,
        AxisChoice::Columns => Axis::Columns,
    };
    let key = RandomKey { seed: args.seed, ..RandomKey::default() };
    let of_scales = section.scaling.round == ScaleRoundingChoice::Stochastic;
    let layout = BlockGrid::new(cast.block, args.shape.0, axis);
    let words = args.words(if of_scales { layout.count() } else { values.len() })?;
    let words = |is_used: bool| words.as_ref().filter(|_| is_used).map(|words| words.iter().copied());
    let one = |values: &[f32], shape: Shape, axis: Axis, key: RandomKey| {
        let prepared = match words(of_scales) {
            Some(words) => cast.prepare_by(&grid, values, shape, axis, &key, words),
            None => cast.prepare(&grid, values, shape, axis, &key),
        };
        let prepared = prepared.map_err(|error| refusal(&error, &source))?;
        let encode = |scaled: &[f32], rounding| {
            format.encode(scaled, &QuantParams { rounding, key, ..QuantParams::IDENTITY })
        };
        let of_tables = cast.codes_of_tables(&grid, &prepared, &key);
        let codes = match words(!of_scales) {
            _ if let Some(codes) = of_tables.map_err(|error| refusal(&error, &source))? => Ok(codes),
            Some(words) => cast.codes_by(&grid, prepared.scaled(), words, encode),
            None => cast.codes(&grid, prepared.scaled(), &key, encode),
        }?;
        prepared.finish(&grid, codes).map_err(|error| refusal(&error, &source))
    };
    let (mut applied, mean) = match cast.center {
        Some(along) => {
            args.shape.0.check(values.len()).map_err(|error| refusal(&error, &source))?;
            let Centered { residuals, mean } = Centered::new(&values, args.shape.0, along);
            let of_mean = Shape { rows: 1, columns: mean.len() };
            let mean = one(&mean, of_mean, Axis::Rows, Centered::key_of_mean(&key))?.values;
            let mut applied = one(&residuals, args.shape.0, axis, key)?;
            Centered::add(&mut applied.values, &mean, args.shape.0, along);
            (applied, Some(mean))
        }
        None => (one(&values, args.shape.0, axis, key)?, None),
    };
    let device = ComputeDevice::open(args.device)?;
    let differing = if device.label == "cpu" {
        None
    } else {
        let input = CastInput { values, shape: args.shape.0, axis };
        let found = apply_cast(format, &cast, input, key, &device)?;
        let expected = std::mem::replace(&mut applied.values, found);
        // All NaN are equal, independent of their payload.
        let is_same = |(a, b): &(&f32, &f32)| a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan());
        Some(applied.values.iter().zip(&expected).filter(|pair| !is_same(pair)).count())
    };
    args.write(&grid, &applied, mean.as_deref())?;
    if applied.collapsed > 0 {
        eprintln!(
            "warning: {} blocks of about equal values became about 0: {EQUAL_VALUES}",
            applied.collapsed
        );
    }
    let [rows, columns] = applied.layout.counts();
    println!("{} elements, {rows} x {columns} scales", applied.values.len());
    if let Some(differing) = differing {
        println!("{differing} elements differ from the CPU's");
    }
    Ok(ExitCode::SUCCESS)
}

/// A cast that the format or the matrix does not allow, at the key that it is about.
pub(super) fn refusal(error: &CastError, source: &Source) -> Diagnostic {
    let message = error.to_string();
    let diagnostic = Diagnostic::config(message.as_str());
    let placed = match (error, message.split('`').nth(1)) {
        (CastError::Fields { .. }, Some(key)) => diagnostic.at(source.locate(key)),
        (CastError::Elements { elements: elements @ 1.., .. }, _) => {
            diagnostic.at("--shape").hint(format!("choose --shape R,C with R * C = {elements}"))
        }
        (CastError::Elements { .. } | CastError::Transform { .. }, _) => diagnostic.at("--shape"),
        _ => diagnostic,
    };
    // An earlier hint stays.
    placed.hint(error.hint())
}

impl ApplyArgs {
    /// Refuses files that nothing would be written to.
    fn refuse_files(&self, grid: &Grid, section: &CastSection) -> Result<(), Diagnostic> {
        let refuse = |is: bool, message: String, hint: &str| {
            if is { Err(Diagnostic::config(message).hint(hint)) } else { Ok(()) }
        };
        let name = &section.format;
        refuse(
            self.codes.is_some() && grid.bits() > 8,
            format!("--codes writes one byte per code, but codes of {name} have {} bits", grid.bits()),
            "omit --codes: --output has the same values",
        )?;
        refuse(
            self.scale_codes.is_some() && section.scaling.storage == ScaleTypeChoice::F32,
            "--scale-codes needs scales of type e8m0 or e4m3, the cast has f32".to_owned(),
            "use --scales, or set scaling.type to e8m0 or e4m3",
        )?;
        refuse(
            self.tensor_scale.is_some() && section.scaling.tensor == TensorScaleChoice::None,
            "--tensor-scale needs scaling.tensor = \"f32\", the cast has none".to_owned(),
            "use --scales; or set scaling.type to e4m3 and scaling.tensor to f32",
        )?;
        refuse(
            self.words.is_some()
                && (section.random_bits.is_none()
                    && section.scaling.round != ScaleRoundingChoice::Stochastic
                    || section.center != CenterChoice::None
                    || self.device != DeviceChoice::Cpu),
            "--words needs random_bits or scaling.round = \"stochastic\", without center, on the CPU"
                .to_owned(),
            "set rounding = \"stochastic\" and random_bits, or use --seed",
        )?;
        refuse(
            self.mean.is_some() && section.center == CenterChoice::None,
            "--mean needs center = \"tokens\", the cast has none".to_owned(),
            "set center = \"tokens\", or leave --mean out",
        )?;
        refuse(
            self.microexponents.is_some() && section.cast().scaling.microexponents.is_empty(),
            "--microexponents needs scaling.microexponents, the cast has none".to_owned(),
            "set scaling.microexponents = [8, 4], or leave --microexponents out",
        )?;
        refuse(
            self.choices.is_some() && !section.scaling.has_choice(),
            "--choices needs scaling.choice, the cast has none".to_owned(),
            "set scaling.choice = \"mse\", or leave --choices out",
        )
    }

    /// The random words, if a file has them.
    fn words(&self, needed: usize) -> Result<Option<Vec<u32>>, Diagnostic> {
        let Some(path) = &self.words else { return Ok(None) };
        let words: Vec<u32> = raw_f32::read(path)?.into_iter().map(f32::to_bits).collect();
        if words.len() == needed {
            return Ok(Some(words));
        }
        let message = format!("the file has {} words, but {needed} are needed", words.len());
        let hint =
            "give a word of 4 bytes for each element, or for each block whose scale is rounded at random";
        Err(Diagnostic::config(message).at(path.display()).hint(hint))
    }

    fn write(&self, grid: &Grid, applied: &Applied, mean: Option<&[f32]>) -> Result<(), Diagnostic> {
        raw_f32::write(&self.output, &applied.values)?;
        if let Some(path) = &self.scales {
            raw_f32::write(path, &applied.scales)?;
        }
        if let Some(path) = &self.tensor_scale {
            let outer = applied.outer_scales.as_deref().unwrap_or_default();
            raw_f32::write(path, applied.tensor_scale.as_ref().map_or(outer, std::slice::from_ref))?;
        }
        if let Some((path, mean)) = self.mean.as_ref().zip(mean) {
            raw_f32::write(path, mean)?;
        }
        if let Some((path, codes)) = self.scale_codes.as_ref().zip(applied.scale_codes.as_ref()) {
            raw_f32::write_bytes(path, codes)?;
        }
        if let Some((path, exponents)) = self.microexponents.as_ref().zip(applied.microexponents.as_ref()) {
            raw_f32::write_bytes(path, exponents)?;
        }
        if let Some((path, choices)) = self.choices.as_ref().zip(applied.choices.as_ref()) {
            raw_f32::write_bytes(path, choices)?;
        }
        if let Some(path) = &self.codes {
            let order = grid.sign_magnitude();
            let byte = |code: &u16| order.as_ref().map_or(*code, |order| order[usize::from(*code)]) as u8;
            let bytes: Vec<u8> = applied.codes.iter().map(byte).collect();
            raw_f32::write_bytes(path, &bytes)?;
        }
        Ok(())
    }
}
