//! Recipes: tables of `[quant]` that a run file names instead of writing them.

use std::path::PathBuf;

use altgrad_base::diagnostic::{Diagnostic, closest};
use toml::{Table, Value};

use super::quant::LayerRule;
use super::source::{Place, Source, join};
use super::{foreign, paths};

/// The shipped recipes by name: the files of `configs/recipes`.
pub const RECIPES: &[(&str, &str)] = &[
    ("averis", include_str!("../../../configs/recipes/averis.toml")),
    ("coat", include_str!("../../../configs/recipes/coat.toml")),
    ("deepseek_v3", include_str!("../../../configs/recipes/deepseek_v3.toml")),
    ("deepseek_v3_hopper", include_str!("../../../configs/recipes/deepseek_v3_hopper.toml")),
    ("fp4_all_the_way", include_str!("../../../configs/recipes/fp4_all_the_way.toml")),
    ("hifloat4", include_str!("../../../configs/recipes/hifloat4.toml")),
    ("hybrid", include_str!("../../../configs/recipes/hybrid.toml")),
    ("mxfp4", include_str!("../../../configs/recipes/mxfp4.toml")),
    ("mxfp6", include_str!("../../../configs/recipes/mxfp6.toml")),
    ("mxfp8", include_str!("../../../configs/recipes/mxfp8.toml")),
    ("mxint8", include_str!("../../../configs/recipes/mxint8.toml")),
    ("mxint8_rceil", include_str!("../../../configs/recipes/mxint8_rceil.toml")),
    ("nvfp4", include_str!("../../../configs/recipes/nvfp4.toml")),
    ("nvfp4_four_over_six", include_str!("../../../configs/recipes/nvfp4_four_over_six.toml")),
    ("nvint4", include_str!("../../../configs/recipes/nvint4.toml")),
    ("quartet", include_str!("../../../configs/recipes/quartet.toml")),
    ("quartet2", include_str!("../../../configs/recipes/quartet2.toml")),
    ("te_block", include_str!("../../../configs/recipes/te_block.toml")),
    ("te_current", include_str!("../../../configs/recipes/te_current.toml")),
    ("te_delayed", include_str!("../../../configs/recipes/te_delayed.toml")),
    ("te_fp8_attention", include_str!("../../../configs/recipes/te_fp8_attention.toml")),
    ("tetrajet_v2", include_str!("../../../configs/recipes/tetrajet_v2.toml")),
    ("torchao_mxfp8", include_str!("../../../configs/recipes/torchao_mxfp8.toml")),
    ("torchao_rowwise", include_str!("../../../configs/recipes/torchao_rowwise.toml")),
    ("torchao_rowwise_gw_hp", include_str!("../../../configs/recipes/torchao_rowwise_gw_hp.toml")),
    ("torchao_tensorwise", include_str!("../../../configs/recipes/torchao_tensorwise.toml")),
    ("ue5m3_fp4", include_str!("../../../configs/recipes/ue5m3_fp4.toml")),
];

/// Puts the keys of the recipe that `table` names under its own, and the name away.
pub(super) fn apply(table: &mut Table, source: &mut Source) -> Result<(), Diagnostic> {
    const KEY: &str = "quant.recipe";
    let Some(Value::String(name)) = table.get("quant").and_then(|quant| quant.get("recipe")).cloned() else {
        return apply_to_layers(table, source);
    };
    let at = source.locate(KEY);
    let (path, text) = text_of(&name).map_err(|error| error.at(at))?;
    let (mut recipe, mut places) = Source::parse(&path, text)?;
    foreign::translate(&mut recipe, &mut places)?.into_iter().for_each(paths::warn_once);
    refuse_others(&recipe, &places)?;
    if let Some(quant) = table.get_mut("quant").and_then(Value::as_table_mut) {
        quant.remove("recipe");
        let name = std::path::Path::new(&name)
            .file_stem()
            .map_or(name.clone().into(), |stem| stem.to_string_lossy());
        quant.insert("from_recipe".to_owned(), name.into_owned().into());
    }
    source.places.remove(KEY);
    merge(table, recipe, "", &mut Merge { source, recipe: &places });
    source.recipe = Some((path, places.text().to_owned()));
    apply_to_layers(table, source)
}

/// Keys of `[quant]` that choose layers, which a rule does by its pattern.
const CHOOSE_LAYERS: [&str; 3] = ["exclude", "skip_first", "skip_last"];

/// Puts the keys of the recipes that rules by layer name under their own, and `none` in the place of the names.
fn apply_to_layers(table: &mut Table, source: &Source) -> Result<(), Diagnostic> {
    let quant = table.get_mut("quant").and_then(|quant| quant.get_mut("layer"));
    let rules = quant.and_then(Value::as_array_mut).into_iter().flatten().enumerate();
    for (index, rule) in rules {
        let Some(rule) = rule.as_table_mut() else { continue };
        let key = format!("quant.layer.{index}.recipe");
        let Some(Value::String(name)) =
            rule.get("recipe").filter(|name| name.as_str() != Some(LayerRule::OFF)).cloned()
        else {
            continue;
        };
        let (path, text) = text_of(&name).map_err(|error| error.at(source.locate(&key)))?;
        let (mut recipe, mut places) = Source::parse(&path, text)?;
        foreign::translate(&mut recipe, &mut places)?.into_iter().for_each(paths::warn_once);
        refuse_others(&recipe, &places)?;
        let Some(Value::Table(mut keys)) = recipe.remove("quant") else { continue };
        CHOOSE_LAYERS.iter().for_each(|name| drop(keys.remove(*name)));
        for role in ["weight", "activation", "grad"] {
            if let Some(rounding) = keys.remove(&format!("{role}_rounding")) {
                let mut cast = Table::new();
                cast.insert(role.into(), Value::Table(Table::from_iter([("rounding".to_owned(), rounding)])));
                lay_below(&mut keys, Table::from_iter([("cast".to_owned(), Value::Table(cast))]));
            }
        }
        if let Some(other) =
            ["layer", "master_weights", "accumulate"].into_iter().find(|name| keys.contains_key(*name))
        {
            let message =
                format!("the recipe `{name}` has `quant.{other}`, which a rule of layers cannot have");
            return Err(Diagnostic::config(message)
                .at(source.locate(&key))
                .hint("name it in [quant], or another recipe here"));
        }
        rule.insert("recipe".to_owned(), LayerRule::OFF.into());
        lay_below(rule, keys);
    }
    Ok(())
}

/// Adds the keys of `base` that `own` lacks.
fn lay_below(own: &mut Table, base: Table) {
    for (name, value) in base {
        match (own.get_mut(&name), value) {
            (Some(Value::Table(own)), Value::Table(base)) => lay_below(own, base),
            (Some(_), _) => {}
            (None, value) => drop(own.insert(name, value)),
        }
    }
}

/// The recipe's path, for messages, and its text.
fn text_of(name: &str) -> Result<(PathBuf, String), Diagnostic> {
    if let Some((name, text)) = RECIPES.iter().find(|(shipped, _)| *shipped == name) {
        return Ok((PathBuf::from(format!("recipe {name}")), (*text).to_owned()));
    }
    if !name.ends_with(".toml") {
        let names = RECIPES.iter().map(|(name, _)| *name);
        let hint = match closest(name, names.clone()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!(
                "recipes are {}; a file is named by its path, which ends with .toml",
                names.collect::<Vec<_>>().join(", ")
            ),
        };
        return Err(Diagnostic::config(format!("there is no recipe `{name}`")).hint(hint));
    }
    let path = PathBuf::from(name);
    let bytes = altgrad_base::files::read(&path).map_err(|error| {
        Diagnostic::config(format!("cannot read the recipe {}: {error}", path.display()))
            .hint("a relative path starts at the run file's folder, with `--set` at the working directory")
    })?;
    let text = super::parse::decode(&path, "recipe", bytes)?;
    Ok((path, text))
}

/// A recipe contains only casts and the precision.
fn refuse_others(recipe: &Table, places: &Source) -> Result<(), Diagnostic> {
    let train = recipe.get("train").and_then(Value::as_table);
    let sections = recipe.keys().filter(|key| !["quant", "train"].contains(&key.as_str())).cloned();
    let keys = train.into_iter().flat_map(Table::keys).filter(|key| *key != "precision");
    let nested = recipe.get("quant").and_then(|quant| quant.get("recipe")).map(|_| "quant.recipe".to_owned());
    let other = sections.chain(keys.map(|key| join("train", key))).chain(nested).next();
    other.map_or(Ok(()), |key| {
        Err(Diagnostic::config(format!("`{key}` is no key of a recipe"))
            .at(places.locate_key(&key))
            .hint("a recipe has [quant] and train.precision; the rest belongs in the run file"))
    })
}

/// The source of the keys of both files.
struct Merge<'a> {
    source: &'a mut Source,
    recipe: &'a Source,
}

impl Merge<'_> {
    /// Takes over the places of a key of the recipe and of all below it.
    fn take_places(&mut self, dotted: &str) {
        let inside = format!("{dotted}.");
        let taken = self.recipe.places.iter().filter(|(key, _)| *key == dotted || key.starts_with(&inside));
        for (key, place) in taken {
            if let Place::File { key: at, value } = *place {
                self.source.places.insert(key.clone(), Place::Recipe { key: at, value });
            }
        }
    }

    /// Moves the places of the elements of an array back by `count`.
    fn shift(&mut self, dotted: &str, count: usize) {
        let inside = format!("{dotted}.");
        let keys: Vec<String> =
            self.source.places.keys().filter(|key| key.starts_with(&inside)).cloned().collect();
        let moved = keys.into_iter().filter_map(|key| {
            let rest = &key[inside.len()..];
            let (index, below) =
                rest.split_once('.').map_or((rest, None), |(index, below)| (index, Some(below)));
            let index = index.parse::<usize>().ok()? + count;
            let new = match below {
                Some(below) => format!("{inside}{index}.{below}"),
                None => format!("{inside}{index}"),
            };
            Some((new, self.source.places.remove(&key)?))
        });
        let moved: Vec<_> = moved.collect();
        self.source.places.extend(moved);
    }
}

/// Adds the keys of `base` that `own` lacks, both `[quant]`, under its keys, whose places are known to `source`; those
/// of `base` are not.
pub(super) fn lay_under(own: &mut Table, base: Table, source: &mut Source) {
    let mut nowhere = source.clone();
    nowhere.places.clear();
    merge(own, base, "quant", &mut Merge { source, recipe: &nowhere });
}

/// Adds the keys of `recipe` that `table` lacks. Rules by layer of both follow one after the other.
fn merge(table: &mut Table, recipe: Table, parent: &str, places: &mut Merge<'_>) {
    for (name, value) in recipe {
        let dotted = join(parent, &name);
        match (table.get_mut(&name), value) {
            (Some(Value::Table(own)), Value::Table(inherited)) => merge(own, inherited, &dotted, places),
            (Some(Value::Array(own)), Value::Array(mut rules)) if dotted == "quant.layer" => {
                places.shift(&dotted, rules.len());
                rules.append(own);
                *own = rules;
                for index in 0..own.len() {
                    places.take_places(&join(&dotted, &index.to_string()));
                }
            }
            (Some(_), _) => {}
            (None, value) => {
                table.insert(name, value);
                places.take_places(&dotted);
            }
        }
    }
}
