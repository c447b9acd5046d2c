//! `data`: prepares token bins from data sets, and shows the contents of bins.

use std::{
    io::{IsTerminal, stderr},
    path::PathBuf,
    process::ExitCode,
    time::{Duration, Instant},
};

use altgrad_base::{diagnostic::Diagnostic, eprintln, interrupt, println};
use altgrad_config::TokenizerChoice;
use altgrad_data::{
    info::{self, Info},
    prepare::{self, PrepareProgress, PreparedData, Request, sources::Dataset},
};
use clap::{Args, Subcommand, ValueEnum, builder::PossibleValue};
use comfy_table::{CellAlignment, Table, presets::UTF8_FULL_CONDENSED};
use indicatif::{ProgressBar, ProgressStyle};
use parking_lot::Mutex;

/// `altgrad-host data`.
#[derive(Debug, Subcommand)]
pub(super) enum DataCommand {
    /// Writes token bins of a data set: train.bin, val.bin, meta.json, and test.bin if the data set has one.
    Prepare(PrepareArgs),
    /// Shows the contents of a folder of token bins.
    Info {
        /// The folder.
        dir: PathBuf,
        /// Prints JSON.
        #[arg(long)]
        json: bool,
    },
}

/// A data set as an argument.
#[derive(Debug, Clone, Copy)]
struct DatasetArgument(Dataset);

impl ValueEnum for DatasetArgument {
    fn value_variants<'a>() -> &'a [Self] {
        const ALL: [DatasetArgument; Dataset::ALL.len()] = {
            let mut all = [DatasetArgument(Dataset::Text); Dataset::ALL.len()];
            let mut index = 0;
            while index < all.len() {
                all[index] = DatasetArgument(Dataset::ALL[index]);
                index += 1;
            }
            all
        };
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.0.name()).help(self.0.summary()))
    }
}

/// Where documents go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum SplitBy {
    /// By the data set's own split, or by hash if it has none.
    Own,
    /// Always by hash.
    Hash,
}

#[derive(Debug, Args)]
pub(super) struct PrepareArgs {
    /// The data set.
    dataset: DatasetArgument,
    /// Input instead of a download: a .jsonl, .jsonl.gz, .tar.gz, .zip or .txt file, or a folder of such files (except
    /// archives) and .json files. A packed file may unpack to 64 MiB, or to 100 times its packed size if that is more.
    #[arg(long, value_name = "PATH")]
    input: Option<PathBuf>,
    /// The folder for the bins.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Language of multi_eurlex: en, de, ...
    #[arg(long, value_name = "LANGUAGE")]
    lang: Option<String>,
    /// Puts the title before each document of eurlex57k.
    #[arg(long)]
    title: bool,
    /// Tokenizer: gpt2, byte or char.
    #[arg(long, default_value_t = TokenizerChoice::Gpt2)]
    tokenizer: TokenizerChoice,
    /// Assignment of documents to train and val.
    #[arg(long, value_enum, default_value_t = SplitBy::Own)]
    split: SplitBy,
    /// Held-out share of the documents that are assigned by hash.
    #[arg(long, value_name = "SHARE", default_value_t = 0.1)]
    val_fraction: f64,
    /// Refuses unusable records instead of counting them and leaving them out.
    #[arg(long)]
    strict: bool,
    /// Writes the bins again, and replaces existing bins.
    #[arg(long)]
    force: bool,
    /// URL of a folder with the archive, tried before the default; ALTGRAD_DATA_MIRROR sets the same. HF_ENDPOINT and
    /// proxy variables are respected.
    #[arg(long, value_name = "URL")]
    mirror: Option<String>,
    /// Shows no progress.
    #[arg(long)]
    quiet: bool,
}

pub(super) fn run(command: DataCommand) -> Result<ExitCode, Diagnostic> {
    match command {
        DataCommand::Prepare(args) => prepare(args)?,
        DataCommand::Info { dir, json } => {
            let info = info::read(&dir)?;
            if json { println!("{}", serde_json::json!(info)) } else { show(&info) }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn prepare(args: PrepareArgs) -> Result<(), Diagnostic> {
    interrupt::end_at_once()?;
    let shown = PreparationProgress::new(args.quiet);
    let request = Request {
        dataset: args.dataset.0,
        input: args.input,
        out: args.out,
        language: args.lang,
        title: args.title,
        tokenizer: args.tokenizer,
        own_split: args.split == SplitBy::Own,
        val_fraction: args.val_fraction,
        strict: args.strict,
        force: args.force,
        mirror: args.mirror,
    };
    let prepared = prepare::prepare(&request, &shown);
    shown.finish();
    let PreparedData { meta, unchanged, skipped } = prepared?;
    let out = request.out.display();
    if unchanged {
        println!("{out} holds these bins already; nothing was changed");
    }
    for (name, split) in &meta.splits {
        let (documents, tokens) = (split.documents, split.tokens);
        println!("{out}/{name}.bin: {documents} documents, {tokens} tokens, sha256 {:.16}", split.sha256);
        if tokens == 0 {
            eprintln!(
                "warning: {name}.bin is empty; --split hash assigns each document to train or val by its hash"
            );
        }
    }
    if !skipped.is_empty() {
        println!("left out (--strict refuses):");
        skipped.iter().for_each(|line| println!("  {line}"));
    }
    if let Some(licence) = &meta.licence {
        println!("{licence}");
    }
    Ok(())
}

fn show(info: &Info) {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    table.set_header(["split", "documents", "tokens", "bytes/token", "ids used", "of vocabulary"]);
    let or_unknown = |value: Option<String>| value.unwrap_or_else(|| "unknown".into());
    for split in &info.splits {
        table.add_row([
            split.name.to_string(),
            or_unknown(split.documents.map(|n| n.to_string())),
            split.tokens.to_string(),
            or_unknown(split.bytes_per_token.map(|n| format!("{n:.3}"))),
            split.ids_used.to_string(),
            format!("{:.1} %", split.coverage * 100.0),
        ]);
    }
    right_aligned(&mut table);
    println!("{table}\nvocabulary: {} ids", info.vocab_size);
    if let Some(lengths) = lengths(info) {
        println!("{lengths}");
    }
    let Some(meta) = &info.meta else { return };
    let source = meta.recipe.as_ref().map(|recipe| {
        let source = &recipe.source;
        format!("{} of {} (sha256 {})", recipe.dataset, source.name, source.sha256)
    });
    let tokenizer = meta.tokenizer.map(|tokenizer| tokenizer.to_string());
    let lines = [
        ("tokenizer", &tokenizer),
        ("source", &source),
        ("splits", &meta.split_rule),
        ("made by", &meta.made_by),
        ("licence", &meta.licence),
    ];
    for (name, value) in lines {
        if let Some(value) = value {
            println!("{name}: {value}");
        }
    }
    for (reason, count) in &meta.skipped {
        println!("left out: {count} {reason}");
    }
}

/// Documents by length; `None` where no split's are known.
fn lengths(info: &Info) -> Option<Table> {
    let known: Vec<(&str, &Vec<u64>)> =
        info.splits.iter().filter_map(|split| Some((split.name, split.lengths.as_ref()?))).collect();
    let most = known.iter().map(|(_, lengths)| lengths.len()).max().filter(|most| *most > 0)?;
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    let header = known.iter().map(|(name, _)| format!("{name} documents"));
    table.set_header(std::iter::once("tokens".to_string()).chain(header));
    for bucket in 0..most {
        let from = if bucket == 0 { 0 } else { 1u64 << bucket };
        let range = format!("{from} to {}", (1u64 << (bucket + 1)) - 1);
        let counts = known.iter().map(|(_, lengths)| lengths.get(bucket).copied().unwrap_or(0).to_string());
        table.add_row(std::iter::once(range).chain(counts));
    }
    right_aligned(&mut table);
    Some(table)
}

fn right_aligned(table: &mut Table) {
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
}

/// Time between plain lines.
const LINE_INTERVAL: Duration = Duration::from_secs(5);

/// Progress: a bar on a terminal, a line now and then elsewhere.
struct PreparationProgress {
    quiet: bool,
    bar: Option<ProgressBar>,
    last: Mutex<Instant>,
}

impl PreparationProgress {
    fn new(quiet: bool) -> Self {
        let bar = (!quiet && stderr().is_terminal()).then(|| {
            let bar = ProgressBar::no_length();
            let template = "{msg} {bar:30} {bytes}/{total_bytes}  {bytes_per_sec}  ETA {eta}";
            match ProgressStyle::with_template(template) {
                Ok(style) => bar.with_style(style),
                Err(_) => bar,
            }
        });
        Self { quiet, bar, last: Mutex::new(Instant::now()) }
    }

    fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

impl PrepareProgress for PreparationProgress {
    fn at(&self, doing: &str, done: u64, total: Option<u64>) {
        if let Some(bar) = &self.bar {
            if bar.message() != doing {
                bar.reset();
                bar.set_message(doing.to_string());
            }
            if let Some(total) = total {
                bar.set_length(total);
            }
            bar.set_position(done);
        } else if !self.quiet {
            let mut last = self.last.lock();
            if last.elapsed() >= LINE_INTERVAL {
                *last = Instant::now();
                let mib = |bytes: u64| bytes >> 20;
                match total {
                    Some(total) => eprintln!("{doing}: {} of {} MiB", mib(done), mib(total)),
                    None => eprintln!("{doing}: {} MiB", mib(done)),
                }
            }
        }
    }

    fn say(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| eprintln!("{text}")),
            None => eprintln!("{text}"),
        }
    }
}
