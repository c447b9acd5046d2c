//! `reference`: pages about the run file, the metrics and the command line, generated from their
//! definitions.

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
}

/// Columns of the help texts: the same on every terminal.
const WIDTH: usize = 110;

pub(super) fn run(args: &ReferenceArgs) -> Result<ExitCode, Diagnostic> {
    let page = match args.page {
        Page::RunFile => reference::markdown(),
        Page::Schema => format!("{:#}\n", reference::schema()),
        Page::Commands => commands(),
        Page::Metrics => altgrad_metrics::reference::markdown(),
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
    use std::{fs, path::Path};

    use clap::{Parser, error::ErrorKind};

    use super::*;

    /// Command lines of the book's shell blocks: page and words, up to a pipe or a redirection.
    fn command_lines() -> Vec<(String, Vec<String>)> {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
        let mut found = Vec::new();
        let files = fs::read_dir(docs).unwrap().map(|entry| entry.unwrap().path());
        for path in files.filter(|path| path.extension().is_some_and(|name| name == "md")) {
            let text = fs::read_to_string(&path).unwrap();
            for block in text.split("\n```sh").skip(1).map(|rest| &rest[..rest.find("```").unwrap()]) {
                let lines = block.lines().map(|line| line.trim_start_matches("./"));
                for line in lines.filter(|line| line.starts_with("altgrad-host ")) {
                    let words = line.split_whitespace().take_while(|word| !["|", ">"].contains(word));
                    found.push((path.display().to_string(), words.map(str::to_string).collect()));
                }
            }
        }
        found
    }

    #[test]
    fn every_command_line_of_the_book_is_one() {
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
