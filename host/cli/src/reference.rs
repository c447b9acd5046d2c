//! `reference`: pages about the run file, the metrics, the command line and the options of plugins, generated from
//! their definitions.

use std::{fmt::Write as _, process::ExitCode};

use altgrad_base::{diagnostic::Diagnostic, println};
use altgrad_config::reference;
use clap::{Args, Command, CommandFactory, ValueEnum};

use super::Cli;
/// `altgrad-host reference`.
#[derive(Debug, Args)]
pub(super) struct ReferenceArgs {
    /// The page.
    page: Page,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Page {
    /// Every key of the run file, as Markdown.
    RunFile,
    /// The same as a JSON Schema, for editors.
    Schema,
    /// Every command, as Markdown.
    Commands,
    /// Every metric, as Markdown.
    Metrics,
    /// Every option of the plugins beside the executable, as Markdown.
    PluginOptions,
    /// The properties of the casts of all recipes, as Markdown.
    CastProperties,
}

/// Columns of the help texts: the same on every terminal.
const WIDTH: usize = 110;

pub(super) fn run(args: &ReferenceArgs) -> Result<ExitCode, Diagnostic> {
    let page = match args.page {
        Page::RunFile => reference::markdown(),
        Page::Schema => format!("{:#}\n", reference::schema()),
        Page::Commands => commands(),
        Page::Metrics => altgrad_metrics::reference::markdown(),
        Page::PluginOptions => super::plugins::reference()?,
        Page::CastProperties => super::casts::properties::page()?,
    };
    // One line break is the macro's.
    println!("{}", page.trim_end());
    Ok(ExitCode::SUCCESS)
}

fn commands() -> String {
    let mut page = String::from(
        "# Commands\n\n\
         <!-- Made from the command line's own parser by `cargo xtask docs`: do not edit. -->\n",
    );
    let mut cli = Cli::command().term_width(WIDTH).disable_help_subcommand(true);
    cli.build();
    for command in cli.get_subcommands_mut() {
        describe(&mut page, command);
    }
    page
}

/// A command's help, or, if it only gathers others, theirs.
fn describe(page: &mut String, command: &mut Command) {
    if command.is_hide_set() {
        return;
    }
    if command.has_subcommands() {
        return command.get_subcommands_mut().for_each(|command| describe(page, command));
    }
    let name = command.get_bin_name().unwrap_or_default().to_string();
    let help = command.render_long_help().to_string();
    let lines: Vec<&str> = help.trim_end().lines().map(str::trim_end).collect();
    let _ = write!(page, "\n## `{name}`\n\n```text\n{}\n```\n", lines.join("\n"));
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::{
        fs,
        path::{Path, PathBuf},
    };

    use clap::{Parser, error::ErrorKind};

    use super::*;

    /// The pages of the book, and those that readers meet in the repository.
    fn pages() -> Vec<PathBuf> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let entries =
            |folder: &str| fs::read_dir(root.join(folder)).unwrap().map(|entry| entry.unwrap().path());
        let experiments = entries("results").map(|path| path.join("README.md")).filter(|path| path.is_file());
        let others = ["README.md", "CONTRIBUTING.md", "configs/README.md", "plugin-api/README.md"];
        let pages = entries("docs").chain(experiments).chain(others.map(|page| root.join(page)));
        pages.filter(|path| path.extension().is_some_and(|name| name == "md")).collect()
    }

    /// Command lines of the pages' blocks of commands: page and words, up to a pipe, a redirection or a comment.
    fn command_lines() -> Vec<(String, Vec<String>)> {
        let mut found = Vec::new();
        for path in pages() {
            let text = fs::read_to_string(&path).unwrap();
            // Every second part lies between two fences; its first line names the language.
            let blocks = text.split("\n```").skip(1).step_by(2);
            for block in blocks.filter(|block| block.starts_with('\n') || block.starts_with("sh")) {
                let lines = block.lines().map(|line| line.trim_start_matches("./"));
                for line in lines.filter(|line| line.starts_with("altgrad-host ")) {
                    let words = line.split_whitespace().take_while(|word| !["|", ">", "#"].contains(word));
                    found.push((path.display().to_string(), words.map(str::to_string).collect()));
                }
            }
        }
        found
    }

    #[test]
    fn every_command_line_of_the_pages_is_one() {
        let lines = command_lines();
        assert!(lines.len() >= 20, "only {} command lines", lines.len());
        for (page, words) in lines {
            if let Err(error) = Cli::try_parse_from(&words) {
                assert!(error.kind() == ErrorKind::DisplayVersion, "{page}: {words:?}\n{error}");
            }
        }
    }

    #[test]
    fn the_page_of_commands_has_each_and_none_that_is_hidden() {
        let page = commands();
        for name in ["run", "plugins check", "plugins new", "formats show", "completions"] {
            assert!(page.contains(&format!("\n## `altgrad-host {name}`\n")), "{name}");
        }
        assert!(!page.contains("check-one"));
    }
}
