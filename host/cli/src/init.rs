//! `init`: a commented run file for a question, which passes `check`.

use std::{fs, io::Write, path::PathBuf, process::ExitCode};

use altgrad_base::{diagnostic::Diagnostic, println};
use altgrad_engine::setup::ReadyRun;
use clap::{Args, builder::NonEmptyStringValueParser};
use minijinja::{Environment, UndefinedBehavior, context};
use toml::Value;

/// `altgrad-host init`.
#[derive(Debug, Args)]
pub(super) struct InitArgs {
    /// Format of weights, activations and gradients, such as `E4M3` or `E3M4:ieee`. Without it and `--recipe` nothing
    /// is rounded.
    #[arg(long, value_name = "NAME", conflicts_with = "recipe", value_parser = NonEmptyStringValueParser::new())]
    format: Option<String>,
    /// A published recipe, such as `nvfp4`; `altgrad-host casts recipes` lists them.
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    recipe: Option<String>,
    /// Optimizer.
    #[arg(long, value_name = "NAME", default_value = ADAMW, value_parser = NonEmptyStringValueParser::new())]
    optimizer: String,
    /// Text file to train on. Default: the generated corpus `lawgen`.
    #[arg(long, value_name = "FILE")]
    text: Option<PathBuf>,
    /// The new run file. Default: in the current folder, named by format or recipe, and optimizer: `e4m3.toml`,
    /// `nvfp4-muon.toml`.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

const ADAMW: &str = "adamw";

pub(super) fn run(args: &InitArgs) -> Result<ExitCode, Diagnostic> {
    let file = args.out.clone().unwrap_or_else(|| args.file());
    let text = args.filled_in(&file)?;
    // As `check` does. The file is not there yet, so that its lines are no places.
    altgrad_config::load_str(&file, &text)
        .and_then(|(config, source)| ReadyRun::build(config, &source))
        .map_err(|error| Diagnostic { place: Some(args.options()), ..error })?;
    let written = fs::File::create_new(&file).and_then(|mut to| to.write_all(text.as_bytes()));
    written.map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => Diagnostic::config("the file exists already")
            .at(file.display())
            .hint("choose another with --out FILE"),
        _ => Diagnostic::run(format!("cannot write the run file ({error})")).at(file.display()),
    })?;
    println!("{} is written. Check it, train, and compare it with other runs:", file.display());
    for command in [&format!("check {}", file.display()), &format!("run {}", file.display()), "compare runs"]
    {
        println!("  altgrad-host {command}");
    }
    Ok(ExitCode::SUCCESS)
}

impl InitArgs {
    fn file(&self) -> PathBuf {
        let quantized = self.format.as_ref().or(self.recipe.as_ref()).map_or("fp32", String::as_str);
        let optimizer = if self.optimizer == ADAMW { String::new() } else { format!("-{}", self.optimizer) };
        let plain =
            |letter: char| if letter.is_ascii_alphanumeric() || "-_".contains(letter) { letter } else { '-' };
        let name: String = format!("{quantized}{optimizer}").to_lowercase().chars().map(plain).collect();
        format!("{name}.toml").into()
    }

    /// The options as written, for a refusal.
    fn options(&self) -> String {
        let text = self.text.as_ref().map(|text| text.display().to_string());
        let options = [("--format", &self.format), ("--recipe", &self.recipe), ("--text", &text)];
        let given = options.iter().filter_map(|(name, value)| Some(format!("{name} {} ", value.as_ref()?)));
        format!("{}--optimizer {}", given.collect::<String>(), self.optimizer)
    }

    fn question(&self) -> String {
        match (&self.format, &self.recipe) {
            (Some(format), _) => {
                format!(
                    "by how much does the held-out loss rise if all linear layers are rounded to {format}?"
                )
            }
            (_, Some(recipe)) => format!("by how much does the held-out loss rise with the recipe {recipe}?"),
            (None, None) => "which loss does the model reach without rounding?".into(),
        }
    }

    fn filled_in(&self, file: &std::path::Path) -> Result<String, Diagnostic> {
        let quoted = |text: &str| Value::String(text.to_owned()).to_string();
        let dataset = match &self.text {
            // Paths of a run file start at its folder.
            Some(text) if file.parent().is_some_and(|parent| !parent.as_os_str().is_empty()) => {
                let text = std::path::absolute(text);
                text.map(|text| format!("text:{}", text.display())).map_err(|error| {
                    Diagnostic::config(format!("the path cannot be made absolute ({error})")).at("--text")
                })?
            }
            Some(text) => format!("text:{}", text.display()),
            None => "lawgen".into(),
        };
        let optimizer =
            if self.optimizer == ADAMW { "" } else { &format!(" --optimizer {}", self.optimizer) };
        let text = self.text.as_ref().map_or(String::new(), |text| format!(" --text {}", text.display()));
        // The rates of results/optimizers where they are known.
        let (lr, min_lr) = match self.optimizer.as_str() {
            "sgd" => ("0.1", "0.01"),
            "lion" => ("3e-4", "3e-5"),
            "madam" => ("0.03", "0.003"),
            _ => ("1e-3", "1e-4"),
        };
        let answers = context! {
            lr, min_lr,
            question => self.question(),
            baseline => format!("{optimizer}{text}"),
            file => file.display().to_string(),
            dataset => quoted(&dataset),
            optimizer => quoted(&self.optimizer),
            adamw => self.optimizer == ADAMW,
            recipe => self.recipe.as_deref().map(quoted),
            format => quoted(self.format.as_deref().unwrap_or("E4M3")),
            off => if self.format.is_some() { "" } else { "# " },
        };
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        environment
            .render_str(include_str!("../templates/init.toml"), answers)
            .map(|text| text + "\n")
            .map_err(|error| Diagnostic::run(format!("the template of the run file is broken ({error})")))
    }
}
