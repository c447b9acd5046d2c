//! The casts of a recipe, each once, and a cast as the text that `--cast` takes.

use std::path::Path;

use altgrad_base::diagnostic::Diagnostic;
use altgrad_config::{
    AmaxChoice,
    cast::{CastRoundingChoice, CastSection, RandomModeChoice, ResolvedCast, UseSourceChoice},
};
use altgrad_metrics::Role;
use toml::{Table, Value};

/// A cast of a recipe, and the uses that have it.
pub(crate) struct RecipeCast {
    pub(crate) section: CastSection,
    pub(crate) roles: Vec<&'static str>,
}

/// The casts of the recipe of this name or path, in the order of the roles; those that rules of layers add come last.
///
/// # Errors
/// There is no such recipe, or it is refused.
pub(crate) fn casts(name: &str) -> Result<Vec<RecipeCast>, Diagnostic> {
    let text = format!("[quant]\nrecipe = {}\n", Value::from(name));
    let (config, _) = altgrad_config::load_str(Path::new("the recipe"), &text)?;
    let quant = &config.quant;
    let mut found: Vec<RecipeCast> = Vec::new();
    for rule in std::iter::once(None).chain(quant.layer.iter().map(Some)) {
        for role in Role::ALL {
            // By address: rules may be equal.
            let resolved = quant.cast(role, |other| rule.is_some_and(|rule| std::ptr::eq(rule, other)));
            let Some(section) = own(role, &resolved) else { continue };
            match found.iter_mut().find(|cast| cast.section == section) {
                Some(known) if known.roles.contains(&role.name()) => {}
                Some(known) => known.roles.push(role.name()),
                None => found.push(RecipeCast { section, roles: vec![role.name()] }),
            }
        }
    }
    Ok(found)
}

/// The cast of a use that rounds by itself. The magnitude of past steps is 1.
fn own(role: Role, resolved: &ResolvedCast) -> Option<CastSection> {
    resolved.format()?;
    if role.first_use().is_some() && resolved.source() == UseSourceChoice::Reuse {
        return None;
    }
    let mut section = resolved.section();
    // Inherited by all operands, also by those that are rounded to nearest.
    if section.rounding != CastRoundingChoice::Stochastic {
        (section.random_bits, section.random_mode) = (None, RandomModeChoice::A);
    }
    let scaling = &mut section.scaling;
    if scaling.amax == AmaxChoice::Delayed
        || scaling.amax == AmaxChoice::Static && scaling.static_amax.is_none()
    {
        (scaling.amax, scaling.static_amax) = (AmaxChoice::Static, Some(1.0));
    }
    Some(section)
}

/// The keys of a cast that differ from their defaults, on one line.
pub(crate) fn text(section: &CastSection) -> String {
    let Ok(Value::Table(table)) = Value::try_from(section) else { return section.format.clone() };
    let plain =
        toml::from_str::<CastSection>("format = ''").ok().and_then(|plain| Value::try_from(plain).ok());
    let plain = plain.and_then(|plain| plain.as_table().cloned()).unwrap_or_default();
    let text = keys(&table, &plain);
    if table.iter().all(|(key, value)| key == "format" || plain.get(key) == Some(value)) {
        section.format.clone()
    } else {
        text
    }
}

fn keys(table: &Table, plain: &Table) -> String {
    // The format comes first.
    let mut keys: Vec<_> = table.iter().filter(|(key, value)| plain.get(*key) != Some(value)).collect();
    keys.sort_by_key(|(key, _)| *key != "format");
    let key = |(key, value): (&String, &Value)| match value {
        Value::Table(inner) => {
            let plain = plain.get(key).and_then(Value::as_table).cloned().unwrap_or_default();
            format!("{key} = {{ {} }}", self::keys(inner, &plain))
        }
        // As f32 has it.
        Value::Float(number) if f64::from(*number as f32) == *number => {
            format!("{key} = {:?}", *number as f32)
        }
        value => format!("{key} = {value}"),
    };
    keys.into_iter().map(key).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use altgrad_config::cast::read_cast;

    use super::*;

    #[test]
    fn the_text_of_each_cast_of_a_recipe_is_that_cast() {
        for (name, _) in altgrad_config::RECIPES {
            let casts = casts(name).unwrap();
            assert!(!casts.is_empty(), "{name}");
            for cast in casts {
                let text = text(&cast.section);
                let (read, _, idle) = read_cast("--cast", &text).unwrap();
                assert_eq!((read, idle.len()), (cast.section, 0), "{name}: {text}");
            }
        }
    }
}
