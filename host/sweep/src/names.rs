//! Names of runs: a part for each axis, in the matrix file's order.
//!
//! A part is an entry's label, a string, or a number after the last word of its key (`lr0.003`; seeds are `s1`). If
//! several axes hold strings, the key's last word precedes those too, to distinguish them. A name depends on the run's
//! own values and on the set of axes: added or removed values leave the names of other runs unchanged.

use toml::Value;

use super::axes::{Axis, is_plain};

/// The axis of seeds.
pub(super) const SEED: &str = "run.seed";
/// Characters of the longest part.
const LONGEST: usize = 40;

/// The part of a run's name for `value` of `axis`.
pub(super) fn part(axis: &Axis, value: &Value, axes: &[Axis]) -> String {
    let last = axis.name.rsplit('.').next().unwrap_or_default();
    let several = axes.iter().filter(|axis| holds_strings(axis)).count() > 1;
    let text = match value {
        Value::String(label) if !axis.name.contains('.') => return label.clone(),
        Value::String(text) if !several => text.clone(),
        Value::Integer(seed) if axis.name == SEED => format!("s{seed}"),
        Value::Integer(number) => format!("{last}{number}"),
        Value::Float(number) => format!("{last}{}", self::number(*number)),
        Value::String(text) => format!("{last}-{text}"),
        other => format!("{last}-{other}"),
    };
    plain(&text)
}

/// True if an axis of a key holds strings.
fn holds_strings(axis: &Axis) -> bool {
    axis.name.contains('.') && axis.points.iter().any(|point| point.value.is_str())
}

/// `0.003`, and `3e-5` where that is much shorter.
pub(super) fn number(value: f64) -> String {
    let (plain, scientific) = (format!("{value}"), format!("{value:e}"));
    if scientific.len() + 1 < plain.len() { scientific } else { plain }
}

/// The folder name of a text: runs of other characters become one `-`.
fn plain(text: &str) -> String {
    let mut name = String::new();
    for letter in text.chars().take(LONGEST) {
        match letter {
            letter if is_plain(letter) && letter != '_' => name.push(letter),
            _ if name.ends_with('-') => {}
            _ => name.push('-'),
        }
    }
    name.trim_matches(|letter| letter == '-' || letter == '.').to_string()
}

#[cfg(test)]
mod tests {
    use super::{super::axes::Point, *};

    fn axis(name: &str, value: &Value) -> Axis {
        Axis { name: name.into(), points: vec![Point { value: value.clone(), sets: Vec::new(), tune: None }] }
    }

    #[test]
    fn a_part_says_the_value_and_where_it_must_the_key() {
        let string = |text: &str| Value::String(text.into());
        let rows = [
            ("quant.weight", string("E3M4:ieee"), "E3M4-ieee", "weight-E3M4-ieee"),
            ("optimizer", string("adam_w"), "adam_w", "adam_w"),
            ("run.seed", Value::Integer(7), "s7", "s7"),
            ("train.max_steps", Value::Integer(7), "max-steps7", "max-steps7"),
            ("train.lr", Value::Float(3e-3), "lr0.003", "lr0.003"),
            ("train.lr", Value::Float(1e-5), "lr1e-5", "lr1e-5"),
            ("model.bias", Value::Boolean(true), "bias-true", "bias-true"),
            ("quant.exclude", Value::Array(vec![string("*.attn.*"), string("x")]), "exclude-.attn.-x", ""),
        ];
        for (name, value, alone, beside) in rows {
            let own = axis(name, &value);
            assert_eq!(part(&own, &value, &[axis(name, &value)]), alone, "{name}");
            let others = [axis(name, &value), axis("quant.grad", &string("E5M2"))];
            if !beside.is_empty() {
                assert_eq!(part(&own, &value, &others), beside, "{name}");
            }
        }
    }
}
