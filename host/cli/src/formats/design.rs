//! `formats design`: a table of values for observed tensors, compared with formats of its width on steps that it was
//! not made from.

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use altgrad_base::{diagnostic::Diagnostic, files, println};
use altgrad_casts::design::{
    Distribution, Form, Grade, TableObjective, at_quantiles, codes, design, normal_float,
};
use altgrad_loader::FormatPlugin;
use altgrad_plugin_api::PluginKind;
use clap::{Args, ValueEnum};
use comfy_table::{Table, presets::UTF8_FULL_CONDENSED};

use super::{
    FolderArgs, number,
    observations::{Observations, pooled},
};

/// `altgrad-host formats design`.
#[derive(Debug, Args)]
pub(crate) struct DesignArgs {
    /// The folder of a run with `[observe]`; its `histograms.csv`; or a file of raw little-endian f32, which ends with
    /// .f32.
    #[arg(value_name = "RUN|OBSERVATION")]
    from: PathBuf,
    /// Bits of a code.
    #[arg(long, value_parser = clap::value_parser!(u32).range(3..=8))]
    bits: u32,
    /// Roles whose tensors the format is for, separated by commas. Default: all that were observed.
    #[arg(long, value_name = "ROLES", value_delimiter = ',')]
    role: Vec<String>,
    /// What the table minimizes.
    #[arg(long, default_value = "sqnr")]
    objective: ObjectiveChoice,
    /// Each value has its negative; codes are sign and magnitude.
    #[arg(long)]
    symmetric: bool,
    /// Leaves out the value zero. Blocks of such a format must divide the tensor.
    #[arg(long)]
    no_zero: bool,
    /// Elements that share a scale. Of a run, they are those of `observe.block`. Default for f32 values: all.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    scale_block: Option<u32>,
    /// Name of the format.
    #[arg(long, default_value = "DESIGNED")]
    name: String,
    /// Folder for the format file, and the matrix file of the paired test.
    #[arg(long, value_name = "DIR", default_value = "designed")]
    out: PathBuf,
    #[command(flatten)]
    folder: FolderArgs,
}

/// What a table minimizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ObjectiveChoice {
    /// The expected squared error of all elements: Lloyd-Max.
    Sqnr,
    /// Noise over signal, plus the squares of the zeroed share and of the mean error of magnitudes.
    Gradient,
    /// The sum over roles of noise over signal: the relative error of the products of these tensors.
    LossModel,
    /// None: the values are quantiles, spaced as those of NormalFloat.
    Quantiles,
}

pub(super) fn run(args: &DesignArgs) -> Result<ExitCode, Diagnostic> {
    let is_name =
        |name: &str| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
    if !is_name(&args.name) {
        return Err(Diagnostic::config(format!(
            "--name must have letters, digits, `-`, `_` and `.`, found {:?}",
            args.name
        ))
        .hint("choose a name such as MINE4"));
    }
    let observed = Observations::read(&args.from, args.scale_block)?.of_roles(&args.role)?;
    let (made_from, held_out) = observed.halves();
    let by_role = args.objective == ObjectiveChoice::LossModel;
    let source = pooled(&made_from, by_role);
    let form = Form { bits: args.bits, symmetric: args.symmetric, zero: !args.no_zero };
    let objective = if args.objective == ObjectiveChoice::Gradient {
        TableObjective::Gradient
    } else {
        TableObjective::Sqnr
    };
    let (values, by_code) = if args.objective == ObjectiveChoice::Quantiles {
        let values = at_quantiles(&source, &normal_float(args.bits));
        let by_code = values.iter().map(|value| *value as f32).collect();
        (values, by_code)
    } else {
        let values = design(&source, form, objective);
        let by_code = codes(&values, form);
        (values, by_code)
    };
    println!(
        "{} of {}: {} elements of {}",
        observed.roles().join(", "),
        args.from.display(),
        made_from.iter().map(|(_, _, counts)| counts.iter().sum::<u64>()).sum::<u64>(),
        if held_out.is_empty() { "all steps".to_owned() } else { steps(&made_from) }
    );
    let sign = if args.symmetric && args.objective != ObjectiveChoice::Quantiles { "±" } else { "" };
    let shown: Vec<String> = values.iter().map(|value| format!("{:.6}", value * observed.unit)).collect();
    println!(
        "values of a block whose largest magnitude is {}: {sign}[{}]",
        number(observed.unit as f32),
        shown.join(", ")
    );
    fs::create_dir_all(&args.out).map_err(|error| {
        Diagnostic::config(format!("cannot make the folder ({error})")).at(args.out.display())
    })?;
    let file = args.out.join(format!("{}.toml", args.name.to_lowercase()));
    write(&file, &format_file(args, &observed, &by_code))?;
    args.compare(
        &by_code,
        if held_out.is_empty() { &made_from } else { &held_out },
        by_role,
        held_out.is_empty(),
    )?;
    println!("format: {}", file.display());
    // Other roles have no key of their own in [quant].
    let roles: Vec<&str> = observed.roles().into_iter().filter(|role| KEYS.contains(role)).collect();
    if let Some(config) = observed.config.as_ref().filter(|_| !roles.is_empty()) {
        let matrix = args.out.join("matrix.toml");
        write(&matrix, &matrix_file(args, &observed, &roles, [config, &file])?)?;
        println!("paired test: altgrad-host sweep {}", matrix.display());
    }
    Ok(ExitCode::SUCCESS)
}

fn steps(of: &[(u64, String, Vec<u64>)]) -> String {
    let mut steps: Vec<u64> = of.iter().map(|(step, ..)| *step).collect();
    steps.dedup();
    format!("steps {}", steps.iter().map(u64::to_string).collect::<Vec<_>>().join(", "))
}

fn write(path: &Path, text: &str) -> Result<(), Diagnostic> {
    files::write_output(path, text.as_bytes())
        .map_err(|error| Diagnostic::run(format!("cannot write the output ({error})")).at(path.display()))
}

/// The format as a file. Its values are relative to the largest magnitude of a block.
fn format_file(args: &DesignArgs, observed: &Observations, by_code: &[f32]) -> String {
    let values: Vec<String> = by_code.iter().map(|value| format!("{value:?}")).collect();
    let objective =
        args.objective.to_possible_value().map_or(String::new(), |value| value.get_name().to_owned());
    format!(
        "# Made by `altgrad-host formats design`: {} of {}, blocks of {}.\n\n[[format]]\nname = \"{}\"\nsummary = \"{} bits for {}, \
         by {objective}\"\namax_target = 1.0\nvalues = [{}]\n",
        observed.roles().join(", "),
        args.from.display(),
        observed.block,
        args.name,
        args.bits,
        observed.roles().join(", "),
        values.join(", ")
    )
}

impl DesignArgs {
    /// Prints the errors of the designed format and of the formats of the same width.
    fn compare(
        &self,
        by_code: &[f32],
        on: &[(u64, String, Vec<u64>)],
        by_role: bool,
        is_same: bool,
    ) -> Result<(), Diagnostic> {
        let of = pooled(on, by_role);
        let mut rows = vec![(self.name.clone(), grade(&of, by_code.to_vec(), 1.0))];
        for (name, format) in self.rivals()? {
            let values = format.values()?;
            let target = format.conventions.target(&values);
            rows.push((name, grade(&of, values.finite_values(), f64::from(target))));
        }
        rows.sort_by(|a, b| a.1.noise.total_cmp(&b.1.noise));
        let mut table = Table::new();
        table.load_style(UTF8_FULL_CONDENSED);
        table.set_header(["format", "SQNR, dB", "zeroed", "mean error"]);
        for (name, grade) in rows {
            table.add_row([
                name,
                format!("{:.2}", grade.sqnr_db()),
                format!("{:.2} %", 100.0 * grade.zeroed),
                format!("{:+.2} %", 100.0 * grade.shrinkage),
            ]);
        }
        let what = if is_same {
            "the same elements: there is one step".to_owned()
        } else {
            format!("other {}", steps(on))
        };
        println!("on {what}\n{table}");
        Ok(())
    }

    /// The formats of this many bits in the plugins' folder.
    fn rivals(&self) -> Result<Vec<(String, FormatPlugin)>, Diagnostic> {
        let registry = self.folder.registry()?;
        let mut rivals = Vec::new();
        for name in registry.names(PluginKind::FORMAT) {
            let Ok(format) = FormatPlugin::make(&registry, "NAME", name) else { continue };
            if format.values()?.codes() == 1 << self.bits && name != self.name {
                rivals.push((name.to_string(), format));
            }
        }
        Ok(rivals)
    }
}

fn grade(of: &Distribution, values: Vec<f32>, target: f64) -> Grade {
    let mut values: Vec<f64> = values.into_iter().map(|value| f64::from(value) / target).collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    of.grade(&values)
}

/// Keys of `[quant]` that name the format of a role.
const KEYS: [&str; 3] = ["weight", "activation", "grad"];

/// The runs of the designed format and of its rivals, by five seeds each.
fn matrix_file(
    args: &DesignArgs,
    observed: &Observations,
    roles: &[&str],
    [config, file]: [&Path; 2],
) -> Result<String, Diagnostic> {
    let absolute = |path: &Path| {
        fs::canonicalize(path)
            .map_err(|error| Diagnostic::run(format!("cannot find the file ({error})")).at(path.display()))
    };
    let head = "# The designed format, others of its width, and no format, by five seeds. Runs of a seed share initial weights and \
                batches.";
    let unobserved =
        "observe.formats = []\nobserve.roles = \"all\"\nobserve.every = 100\nobserve.block = \"tensor\"";
    let (base, file) = (absolute(config)?, absolute(file)?);
    let (base, file) = (base.display().to_string(), file.display().to_string());
    let name = args.name.to_lowercase();
    let mut text = format!(
        "{head}\n\nbase = {base:?}\nname = \"{name}\"\n\n[set]\n{unobserved}\nplugins.formats = [{file:?}]\n"
    );
    let entry = |label: &str, format: &str| {
        let keys: Vec<String> = roles.iter().map(|role| format!("quant.{role} = \"{format}\"")).collect();
        format!(
            "\n[[axes.format]]\nlabel = \"{label}\"\n{}\nquant.block = {}\n",
            keys.join("\n"),
            observed.block
        )
    };
    let _ = write!(
        text,
        "\n[axes]\nrun.seed = [1, 2, 3, 4, 5]\n\n[[axes.format]]\nlabel = \"fp32\"\ntrain.precision = \"fp32\"\n"
    );
    text.push_str(&entry(&args.name, &args.name));
    for (name, _) in args.rivals()? {
        text.push_str(&entry(&name, &name));
    }
    text.push_str("\n[compare]\nbaseline = \"fp32\"\n");
    Ok(text)
}
