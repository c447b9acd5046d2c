//! A C library's tables and functions (`plugin-api/include/altgrad_plugin.h`): read once into owned values, called with
//! slices.
//!
//! The structures mirror the header field by field; a test compares both through a C compiler. No field of a table is
//! used before the magic number, the version and the sizes are checked. Afterwards a table with wrong pointers can
//! crash the host, as any plugin can. `plugins/c_abi` checks the meaning of the values.

use std::{ffi::c_char, mem::offset_of};

use altgrad_plugin_api::{
    BufferRole, CodebookChoice, Config, Conventions, DType, Domain, InfoField, InfoKind, KernelBuffer,
    KernelLanguage, KernelOp, KernelText, MergeRule, Minifloat, OptionSpec, PartialSum, PluginError,
    RandomKey, Rounding, StatisticsWord,
};

use super::{
    c_memory::{CError, TableFault, array, called, counted, growing, sized, text},
    c_plugins::{self, COptimizer, COption, CSink, CValue},
};
use crate::version::{self, C_VERSION, Version};

/// Name of the symbol a C library exports: a [`Library`], not a function.
pub const C_ENTRY_SYMBOL: &str = "altgrad_plugin_entry_v1";
const MAGIC: u64 = 0x4364_6172_6774_616c;

/// `altgrad_library_v1`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(super) struct Library {
    magic: u64,
    struct_size: u32,
    abi_major: u32,
    abi_minor: u32,
    format_count: u32,
    compiler: *const c_char,
    cpu_features: *const c_char,
    formats: *const *const Format,
    /// From here on a table may lack fields.
    optimizers: *const *const c_plugins::Optimizer,
    sinks: *const *const c_plugins::Sink,
    optimizer_count: u32,
    sink_count: u32,
}

/// `altgrad_format_v1`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Format {
    struct_size: u32,
    spec: u32,
    id: *const c_char,
    version: *const c_char,
    summary: *const c_char,
    minifloat: [u32; 4],
    bits: u32,
    kernel_count: u32,
    values: *const f32,
    functions: CFunctions,
    kernels: *const *const Kernel,
    amax_target: f32,
    threshold_count: u32,
    thresholds: *const f32,
    /// From here on a table may lack fields.
    value_count: u32,
    option_count: u32,
    options: *const COption,
    codebooks: *const f32,
    codebook_count: u32,
    codebook_choice: u32,
    magnitude: Option<MagnitudeFn>,
    describe: Option<DescribeFn>,
}

/// `altgrad_kernel_v1`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Kernel {
    struct_size: u32,
    op: u32,
    language: u32,
    architecture: u32,
    vector: u32,
    units: u32,
    shared_bytes: u32,
    info_words: u32,
    buffer_count: u32,
    info_count: u32,
    statistic_count: u32,
    partial_sum_count: u32,
    entry: *const c_char,
    source: *const c_char,
    buffers: *const [u32; 2],
    info: *const [u32; 4],
    statistics: *const Named<u64>,
    partial_sums: *const Named<i64>,
}

/// `altgrad_statistic` and `altgrad_partial_sum`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Named<T> {
    name: *const c_char,
    value: T,
}

type RoundFn = unsafe extern "C" fn(*const f32, *mut f32, u64, u32, *const RandomKey, *mut CError) -> i32;
type EncodeFn = unsafe extern "C" fn(*const f32, *mut u16, u64, u32, *const RandomKey, *mut CError) -> i32;
type MagnitudeFn = unsafe extern "C" fn(*const f32, u64, *mut f32, *mut CError) -> i32;
type DescribeFn = unsafe extern "C" fn(*const CValue, *mut Format, *mut CError) -> i32;
type DecodeFn = unsafe extern "C" fn(*const u16, *mut f32, u64, *mut CError) -> i32;

/// The functions of a format; absent ones are `None`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct CFunctions {
    round: Option<RoundFn>,
    encode: Option<EncodeFn>,
    decode: Option<DecodeFn>,
}

/// The export of a C library.
#[derive(Debug)]
pub struct CLibrary {
    /// The header's version it was built with, major and minor.
    pub version: [u32; 2],
    /// The compiler.
    pub compiler: &'static str,
    /// CPU features its code assumes, comma separated.
    pub cpu_features: &'static str,
    /// Its formats.
    pub formats: Vec<CFormat>,
    /// Its optimizers.
    pub optimizers: Vec<COptimizer>,
    /// Its sinks.
    pub sinks: Vec<CSink>,
}

/// A format as a C library describes it.
#[derive(Debug, Clone)]
pub struct CFormat {
    /// The name a run file uses.
    pub id: &'static str,
    /// The format's own version.
    pub version: &'static str,
    /// One line.
    pub summary: &'static str,
    /// The values of its codes.
    pub spec: CSpec,
    /// Its conventions.
    pub conventions: Conventions,
    /// Its own functions.
    pub functions: CFunctions,
    /// Its magnitude of blocks.
    pub magnitude: Option<CMagnitude>,
    /// Its kernel texts.
    pub kernels: Vec<CKernel>,
    /// Its options.
    pub options: &'static [OptionSpec],
    /// What its options change.
    pub described: Option<CDescribed>,
}

/// The function of a format that gives the magnitude of a block.
#[derive(Debug, Clone, Copy)]
pub struct CMagnitude(MagnitudeFn);

/// The table of a format whose options change it, and the function that does so.
#[derive(Debug, Clone, Copy)]
pub struct CDescribed {
    table: Format,
    describe: DescribeFn,
}

// SAFETY: the pointers are those of the library's table, which belong to the library for the life of the process.
unsafe impl Send for CDescribed {}
// SAFETY: as above; the header demands that tables do not change.
unsafe impl Sync for CDescribed {}

/// The values of a format's codes.
#[derive(Debug, Clone)]
pub enum CSpec {
    /// A minifloat.
    Minifloat(Minifloat),
    /// 2^bits values by code; without them the format's `decode` gives the values.
    Table(u32, Option<Vec<f32>>),
}

/// A kernel text and its device requirements.
#[derive(Debug, Clone)]
pub struct CKernel {
    /// The operation, with its rounding mode.
    pub op: KernelOp,
    /// CUDA: the least compute capability times ten.
    pub architecture: u32,
    /// Shared memory per cube, bytes.
    pub shared_bytes: u32,
    /// The text and its launch.
    pub text: KernelText,
}

impl CLibrary {
    /// Reads a library's tables.
    pub(super) fn read(table: *const Library) -> Result<Self, TableFault> {
        // SAFETY: the address of an exported symbol of a loaded library: `struct_size` and what comes before it fit
        // into any section.
        let magic = unsafe { table.cast::<u64>().read_unaligned() };
        if magic != MAGIC {
            return Err(format!("`{C_ENTRY_SYMBOL}` does not point to a table of `altgrad_plugin.h`"));
        }
        // The version has the same position in every version.
        // SAFETY: the magic number says that this is a table, whose first fields are the same in all versions.
        let head = unsafe { table.cast::<[u32; 5]>().read_unaligned() };
        let version = [head[3], head[4]];
        if let Some(refusal) = version::refusal("altgrad_plugin.h", Version(version), Version(C_VERSION)) {
            return Err(refusal);
        }
        let table = sized(table, head[2], offset_of!(Library, optimizers), "the library's table")?;
        Ok(Self {
            version,
            compiler: text(table.compiler, "compiler")?,
            cpu_features: text(table.cpu_features, "cpu_features")?,
            formats: tables(table.formats, table.format_count, "format", CFormat::read)?,
            optimizers: tables(table.optimizers, table.optimizer_count, "optimizer", COptimizer::read)?,
            sinks: tables(table.sinks, table.sink_count, "sink", CSink::read)?,
        })
    }
}

/// The tables of the plugins of a kind. A list that is NULL alone has none.
fn tables<T: 'static, R>(
    first: *const *const T,
    count: u32,
    kind: &str,
    read: impl Fn(*const T) -> Result<R, TableFault>,
) -> Result<Vec<R>, TableFault> {
    let list = array(first, counted(count, &format!("{kind}s"))?, &format!("its {kind}s"))?;
    if let [only] = list
        && only.is_null()
    {
        return Ok(Vec::new());
    }
    let numbered = list.iter().enumerate();
    numbered
        .map(|(index, &table)| read(table).map_err(|fault| format!("its {kind} {}: {fault}", index + 1)))
        .collect()
}

impl CFormat {
    fn read(table: *const Format) -> Result<Self, TableFault> {
        let (mut table, size) = growing(table, offset_of!(Format, value_count), "its table")?;
        // The size of the copy, which `describe` sees.
        table.struct_size = size_of::<Format>() as u32;
        let options = c_plugins::options(table.options, table.option_count)?;
        Self::of(&table, size >= offset_of!(Format, options), options)
    }

    /// The format with these options.
    ///
    /// # Errors
    /// The library refuses them, or describes an impossible format.
    pub fn with_options(&self, config: &Config) -> Result<Self, PluginError> {
        let Some(CDescribed { mut table, describe }) = self.described else { return Ok(self.clone()) };
        c_plugins::with_values(self.options, config, |values| {
            // SAFETY: a value of its type for each option is there until the call returns, and the table is a copy.
            called("describe", |error| unsafe { describe(values, &raw mut table, error) })
        })??;
        let made = Self::of(&table, true, self.options)
            .map_err(|fault| PluginError::config(format!("`describe`: {fault}")))?;
        Ok(Self { id: self.id, version: self.version, summary: self.summary, ..made })
    }

    /// The format of a table, which may tell the number of its values, with these options.
    fn of(table: &Format, tells_count: bool, options: &'static [OptionSpec]) -> Result<Self, TableFault> {
        let [exponent_bits, significand_bits, bias, domain] = table.minifloat;
        let spec = match table.spec {
            1 => CSpec::Minifloat(Minifloat {
                exponent_bits,
                significand_bits,
                bias: bias.cast_signed(),
                domain: *[Domain::IEEE, Domain::FN, Domain::FIN]
                    .get(domain as usize)
                    .ok_or_else(|| format!("there is no domain {domain}"))?,
            }),
            2 if !(1..=16).contains(&table.bits) => {
                return Err(format!("{} bits a code: 1 to 16", table.bits));
            }
            2 if table.values.is_null() && table.functions.decode.is_none() => {
                return Err("it has neither `values` nor `decode`".into());
            }
            2 if table.values.is_null() => CSpec::Table(table.bits, None),
            // A table that is older than the field does not tell.
            2 if tells_count && table.value_count != 1 << table.bits => {
                let (count, bits, codes) = (table.value_count, table.bits, 1u32 << table.bits);
                return Err(format!("`value_count` is {count}, and {bits} bits a code have {codes} values"));
            }
            2 => CSpec::Table(table.bits, Some(array(table.values, 1 << table.bits, "its values")?.to_vec())),
            other => return Err(format!("there is no spec {other}")),
        };
        let thresholds = match table.threshold_count {
            count if table.thresholds.is_null() && count > 0 => {
                return Err(format!("{count} thresholds, but `thresholds` is null"));
            }
            // Fewer than the number of codes, which is at most 2^16.
            count if count > u32::from(u16::MAX) => {
                return Err(format!("{count} thresholds: the table is damaged"));
            }
            count => array(table.thresholds, count as usize, "its thresholds")?.to_vec(),
        };
        let scaled = match table.amax_target {
            0.0 => Conventions::default(),
            target => Conventions::default().scaled_to(target),
        };
        let scaled = match table.magnitude {
            Some(_) => scaled.with_magnitude(),
            None => scaled,
        };
        let conventions = scaled.turning_at(thresholds);
        let conventions = match counted(table.codebook_count, "codebooks")? {
            0 if table.codebooks.is_null() => conventions,
            count if count > Conventions::MOST_CODEBOOKS => {
                return Err(format!("{count} codebooks: at most {}", Conventions::MOST_CODEBOOKS));
            }
            count => {
                let codes = match &spec {
                    CSpec::Table(bits, _) => 1 << bits,
                    CSpec::Minifloat(it) => match it.exponent_bits.saturating_add(it.significand_bits) {
                        bits @ 0..16 => 2 << bits,
                        bits => return Err(format!("codebooks of codes with {bits} bits and a sign")),
                    },
                };
                let values = array(table.codebooks, count * codes, "its codebooks")?;
                let tables = values.chunks(codes).map(<[f32]>::to_vec);
                conventions.choosing(CodebookChoice(table.codebook_choice), tables)
            }
        };
        let kernels = array(table.kernels, counted(table.kernel_count, "kernels")?, "its kernels")?;
        let read = |(index, &kernel): (usize, &*const Kernel)| {
            CKernel::read(kernel).map_err(|fault| format!("its kernel {}: {fault}", index + 1))
        };
        Ok(Self {
            id: text(table.id, "id")?,
            version: text(table.version, "version")?,
            summary: text(table.summary, "summary")?,
            spec,
            conventions,
            functions: table.functions,
            magnitude: table.magnitude.map(CMagnitude),
            kernels: kernels.iter().enumerate().map(read).collect::<Result<_, _>>()?,
            options,
            described: table.describe.map(|describe| CDescribed { table: *table, describe }),
        })
    }
}

impl CFormat {
    /// The magnitude of a block by the library's own function; `None` if it has none.
    pub fn magnitude_of(&self, block: &[f32]) -> Option<Result<f32, PluginError>> {
        let (CMagnitude(function), mut found) = (self.magnitude?, f32::NAN);
        // SAFETY: the block's elements are there until the call returns, as is what the result is written to.
        let called = called("magnitude", |error| unsafe {
            function(block.as_ptr(), block.len() as u64, &raw mut found, error)
        });
        Some(called.map(|()| found))
    }
}

impl CKernel {
    fn read(table: *const Kernel) -> Result<Self, TableFault> {
        let (table, _) = growing(table, size_of::<Kernel>(), "its table")?;
        let buffers = array(table.buffers, counted(table.buffer_count, "buffers")?, "its buffers")?;
        let info = array(table.info, counted(table.info_count, "info fields")?, "its info fields")?;
        let statistics =
            array(table.statistics, counted(table.statistic_count, "statistics")?, "its statistics")?;
        let sums = array(table.partial_sums, counted(table.partial_sum_count, "sums")?, "its partial sums")?;
        let word = |word: &Named<u64>| {
            let merge = MergeRule(u32::try_from(word.value).unwrap_or(u32::MAX));
            Ok(StatisticsWord { name: text(word.name, "a statistic's name")?.into(), merge })
        };
        let sum = |sum: &Named<i64>| {
            let exponent = i32::try_from(sum.value).map_err(|_| format!("exponent {}", sum.value))?;
            Ok(PartialSum { name: text(sum.name, "a partial sum's name")?.into(), exponent })
        };
        let language = KernelLanguage(table.language);
        Ok(Self {
            op: KernelOp(table.op),
            architecture: table.architecture,
            shared_bytes: table.shared_bytes,
            text: KernelText {
                language,
                entry: text(table.entry, "entry")?.into(),
                source: text(table.source, "source")?.into(),
                cube_dim: [table.units, 1, 1],
                vector: table.vector,
                buffers: buffers.iter().map(buffer).collect(),
                info: info.iter().map(info_field).collect(),
                info_words: table.info_words,
                statistics: statistics.iter().map(word).collect::<Result<_, TableFault>>()?,
                partial_sums: sums.iter().map(sum).collect::<Result<_, TableFault>>()?,
            },
        })
    }
}

fn buffer(&[role, access]: &[u32; 2]) -> KernelBuffer {
    let role = BufferRole(role);
    let words = [BufferRole::STATISTICS, BufferRole::STEP].contains(&role);
    let dtype = if words { DType::U32 } else { DType::F32 };
    KernelBuffer { role, index: 0, dtype, reads: access & 1 != 0, writes: access & 2 != 0 }
}

fn info_field(&[offset, kind, index, divisor]: &[u32; 4]) -> InfoField {
    InfoField { offset, kind: InfoKind(kind), index, divisor }
}

impl CFunctions {
    /// No function: the host computes everything from the values.
    pub const NONE: Self = Self { round: None, encode: None, decode: None };

    /// True if there is no function.
    #[must_use]
    pub const fn are_absent(&self) -> bool {
        self.round.is_none() && self.encode.is_none() && self.decode.is_none()
    }

    /// Rounds scaled values by the library's own function; `None` if it has none. Shapes: both `[n]`.
    ///
    /// # Panics
    /// Lengths differ.
    pub fn round(
        &self,
        src: &[f32],
        dst: &mut [f32],
        rounding: Rounding,
        key: &RandomKey,
    ) -> Option<Result<(), PluginError>> {
        assert_eq!(src.len(), dst.len());
        let (function, count) = (self.round?, src.len() as u64);
        let (src, dst) = (src.as_ptr(), dst.as_mut_ptr());
        // SAFETY: `count` elements are there on both sides and do not overlap (one is borrowed mutably), as is what an
        // error is written to; the header forbids everything else.
        Some(called("round", |error| unsafe { function(src, dst, count, rounding.0, key, error) }))
    }

    /// Rounds to codes like [`Self::round`].
    ///
    /// # Panics
    /// Lengths differ.
    pub fn encode(
        &self,
        src: &[f32],
        codes: &mut [u16],
        rounding: Rounding,
        key: &RandomKey,
    ) -> Option<Result<(), PluginError>> {
        assert_eq!(src.len(), codes.len());
        let (function, count) = (self.encode?, src.len() as u64);
        let (src, codes) = (src.as_ptr(), codes.as_mut_ptr());
        // SAFETY: as in `round`.
        Some(called("encode", |error| unsafe { function(src, codes, count, rounding.0, key, error) }))
    }

    /// The values of codes.
    ///
    /// # Panics
    /// Lengths differ.
    pub fn decode(&self, codes: &[u16], dst: &mut [f32]) -> Option<Result<(), PluginError>> {
        assert_eq!(codes.len(), dst.len());
        let (function, count) = (self.decode?, codes.len() as u64);
        let (codes, dst) = (codes.as_ptr(), dst.as_mut_ptr());
        // SAFETY: as in `round`.
        Some(called("decode", |error| unsafe { function(codes, dst, count, error) }))
    }
}

#[cfg(test)]
mod tests;
