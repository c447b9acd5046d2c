//! The page of the properties of all shipped recipes.

use std::{fmt::Write as _, thread};

use altgrad_base::diagnostic::Diagnostic;
use altgrad_casts::proof::{Decision, Property};
use altgrad_config::{
    RECIPES,
    cast::{CastSection, read_cast},
};

use super::{
    prove::{Decisions, prove},
    recipe,
};
use crate::formats::FolderArgs;

const HEAD: &str = "# Properties of casts

<!-- Made from the shipped recipes by `altgrad-host casts prove` and `cargo xtask docs`: do not edit. -->

Each row is a cast of a shipped recipe, without its transform. [Numerics](numerics.md#46-properties-of-casts) defines the columns. \
`altgrad-host casts prove RECIPE` prints the arguments, and for each refutation the smallest tensor that was found.

- *yes*: proved for all tensors of finite f32.
- `a..b`: proved where the largest magnitude of each block is from `2^a` to below `2^(b+1)`, refuted for a tensor elsewhere.
- *no*: refuted. *?*: undecided, and `? a..b` proved in that range. *–*: rounding is not random.

A cast whose scale follows from past steps has a past largest magnitude of 1.
";

/// The page.
///
/// # Errors
/// A format of a recipe is missing or fails.
pub(crate) fn page() -> Result<String, Diagnostic> {
    let mut rows: Vec<(String, String, CastSection)> = Vec::new();
    for (name, _) in RECIPES {
        for cast in recipe::casts(name)? {
            rows.push(((*name).to_owned(), cast.roles.join(", "), cast.section));
        }
    }
    let mut casts: Vec<&CastSection> = Vec::new();
    for (.., section) in &rows {
        if !casts.contains(&section) {
            casts.push(section);
        }
    }
    let verdicts = all(&casts)?;
    let mut page = HEAD.to_owned();
    let _ = write!(page, "\n| recipe | uses | cast |");
    for property in Property::ALL {
        let _ = write!(page, " {} |", property.name());
    }
    let _ = writeln!(page, "\n|---|---|---|{}", "---|".repeat(Property::ALL.len()));
    for (name, roles, section) in &rows {
        let found = casts.iter().position(|cast| *cast == section).map(|index| &verdicts[index]);
        let _ = write!(page, "| `{name}` | {roles} | `{}` |", recipe::text(section));
        for (_, verdict) in found.into_iter().flatten() {
            let _ = write!(page, " {} |", cell(verdict));
        }
        page.push('\n');
    }
    Ok(page)
}

/// The verdicts of casts, on all cores.
fn all(casts: &[&CastSection]) -> Result<Vec<Decisions>, Diagnostic> {
    let workers = thread::available_parallelism().map_or(1, usize::from);
    let of = |section: &CastSection| {
        let (_, source, _) = read_cast("the cast", &recipe::text(section))?;
        prove(section, &FolderArgs::default(), &source)
    };
    let parts: Vec<Vec<Result<Decisions, Diagnostic>>> = thread::scope(|scope| {
        let part = |first: usize| {
            casts.iter().skip(first).step_by(workers).map(|section| of(section)).collect::<Vec<_>>()
        };
        let handles: Vec<_> = (0..workers).map(|first| scope.spawn(move || part(first))).collect();
        handles
            .into_iter()
            .map(|handle| handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    let mut parts: Vec<_> = parts.into_iter().map(Vec::into_iter).collect();
    let count = parts.len();
    (0..casts.len()).filter_map(|index| parts[index % count].next()).collect()
}

fn cell(verdict: &Decision) -> String {
    let range = |[first, last]: [i32; 2]| format!("{first}..{last}");
    match verdict {
        Decision::Proved(_) => "yes".to_owned(),
        Decision::Refuted { proved_within, .. } => proved_within.map_or("no".to_owned(), range),
        Decision::Undecided { proved_within, .. } => {
            proved_within.map_or("?".to_owned(), |known| format!("? {}", range(known)))
        }
        Decision::NotApplicable => "–".to_owned(),
    }
}
