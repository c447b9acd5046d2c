//! `casts prove`: the properties of a cast, each proved, refuted by a tensor, or undecided.

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use altgrad_base::{
    diagnostic::{Diagnostic, Fault},
    eprintln, println,
};
use altgrad_casts::{
    CastError, Grid,
    proof::{self, Decision, Property, Witness},
};
use altgrad_config::{
    RECIPES, Source,
    cast::{CastSection, read_cast},
};
use altgrad_plugin_api::{QuantParams, RandomKey, Rounding};
use clap::Args;

use super::{apply::refusal, recipe};
use crate::{formats::FolderArgs, raw_f32};

/// `altgrad-host casts prove`.
#[derive(Debug, Args)]
pub(crate) struct ProveArgs {
    /// A cast as `casts apply` takes it, such as `format = "E4M3", block = 32, scaling = { type = "e8m0", rule =
    /// "floor" }`; the name of a recipe; or the path of one, which ends with .toml.
    #[arg(value_name = "CAST|RECIPE")]
    cast: String,
    /// Folder for the tensors that refute properties: raw little-endian f32.
    #[arg(long, value_name = "DIR", default_value = "witnesses")]
    out: PathBuf,
    #[command(flatten)]
    folder: FolderArgs,
}

/// The verdicts of a cast.
pub(crate) type Decisions = Vec<(Property, Decision)>;

/// A cast that was refused, or a format that failed.
struct Refused(Box<Diagnostic>);

impl From<CastError> for Refused {
    fn from(error: CastError) -> Self {
        Self(Box::new(Diagnostic::config(error.to_string()).hint(error.hint())))
    }
}

pub(super) fn run(args: &ProveArgs) -> Result<ExitCode, Diagnostic> {
    let is_recipe = args.cast.ends_with(".toml") || RECIPES.iter().any(|(name, _)| *name == args.cast);
    if !is_recipe {
        let (section, source, idle) = read_cast("the cast", &args.cast)?;
        for key in idle {
            eprintln!("warning: {}", key.message);
        }
        return args.show(&section, "", &source).map(|()| ExitCode::SUCCESS);
    }
    let casts = recipe::casts(&args.cast)?;
    if casts.is_empty() {
        return Err(Diagnostic::config(format!("the recipe `{}` rounds nothing", args.cast))
            .hint("name a recipe with formats in [quant]"));
    }
    for (index, cast) in casts.iter().enumerate() {
        let text = recipe::text(&cast.section);
        println!("{}{}: {text}", if index > 0 { "\n" } else { "" }, cast.roles.join(", "));
        let prefix = if casts.len() > 1 { format!("{}-", cast.roles[0]) } else { String::new() };
        let (_, source, _) = read_cast("the cast", &text)?;
        args.show(&cast.section, &prefix, &source)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The verdicts of a cast. The format's plugin confirms each refutation.
pub(crate) fn prove(
    section: &CastSection,
    folder: &FolderArgs,
    source: &Source,
) -> Result<Decisions, Diagnostic> {
    let format =
        folder.format_at("format", &section.format).map_err(|error| error.at(source.locate("format")))?;
    let grid = Grid::new(&format.spec, &format.conventions)
        .map_err(|error| format.identity.failure(Fault::Plugin, &error))?;
    let cast = section.cast();
    let verdicts = proof::prove(&cast, &grid).map_err(|error| refusal(&error, source))?;
    for (property, verdict) in &verdicts {
        let Decision::Refuted { witness, .. } = verdict else { continue };
        let encode = |scaled: &[f32], rounding: Rounding, key: &RandomKey| {
            let params = QuantParams { rounding, key: *key, ..QuantParams::IDENTITY };
            format.encode(scaled, &params).map_err(|error| Refused(Box::new(error)))
        };
        if !proof::violates(&cast, &grid, *property, witness, encode).map_err(|refused| *refused.0)? {
            let message = format!(
                "{}: the format `{}` does not round as its values say: `{}` holds for {:?}",
                recipe::text(section),
                section.format,
                property.name(),
                witness.values
            );
            return Err(
                Diagnostic::run(message).hint("`altgrad-host plugins check` tests the format's rounding")
            );
        }
    }
    Ok(verdicts)
}

impl ProveArgs {
    fn show(&self, section: &CastSection, prefix: &str, source: &Source) -> Result<(), Diagnostic> {
        for (property, verdict) in prove(section, &self.folder, source)? {
            println!("{:<16} {}", property.name(), describe(&verdict));
            if let Decision::Refuted { witness, .. } = &verdict {
                fs::create_dir_all(&self.out).map_err(|error| {
                    Diagnostic::config(format!("cannot make the folder ({error})")).at(self.out.display())
                })?;
                let path = self.out.join(format!("{prefix}{}.f32", property.name()));
                raw_f32::write(&path, &witness.values)?;
                println!("{:<17}{}", "", command(section, witness, &path));
            }
        }
        Ok(())
    }
}

/// The command that applies the cast to the witness.
fn command(section: &CastSection, witness: &Witness, path: &Path) -> String {
    let cast =
        CastSection { transform: section.transform.filter(|_| witness.transformed), ..section.clone() };
    let shape = witness.shape;
    let seed = if witness.seed == 0 { String::new() } else { format!(" --seed {}", witness.seed) };
    format!(
        "altgrad-host casts apply --cast '{}' --shape {},{} --axis rows --input {} --output out.f32 --scales scales.f32{seed}",
        recipe::text(&cast),
        shape.rows,
        shape.columns,
        path.display()
    )
}

/// A verdict in words.
pub(crate) fn describe(verdict: &Decision) -> String {
    let within = |range: &Option<[i32; 2]>| {
        range.map_or(String::new(), |[first, last]| {
            format!("; proved for largest magnitudes from 2^{first} to below 2^{}", last + 1)
        })
    };
    match verdict {
        Decision::Proved(argument) => format!("proved: {argument}"),
        Decision::Refuted { witness, proved_within } => {
            format!("refuted by {}{}", elements(witness), within(proved_within))
        }
        Decision::Undecided { covered, proved_within } => {
            format!("undecided: {covered} have it{}", within(proved_within))
        }
        Decision::NotApplicable => "not applicable: rounding is not random".to_owned(),
    }
}

/// The elements of a witness, without the zeros that only fill tiles.
fn elements(witness: &Witness) -> String {
    const SHOWN: usize = 4;
    let shown: Vec<String> =
        witness.values.iter().filter(|x| **x != 0.0).take(SHOWN).map(|x| format!("{x:e}")).collect();
    let zeros = witness.values.iter().filter(|x| **x == 0.0).count();
    let others = witness.values.len() - zeros - shown.len();
    let of = |count: usize, what: &str| if count > 0 { format!(", {count} {what}") } else { String::new() };
    format!("[{}{}{}]", shown.join(", "), of(others, "others"), of(zeros, "zeros"))
}
