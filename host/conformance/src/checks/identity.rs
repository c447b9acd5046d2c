//! Checks of a plugin's self-description: descriptor and options of every kind, and the description of
//! a format.

use altgrad_plugin_api::{
    Config, ConfigValue, Conventions, Descriptor, ErrorKind, OptionDefault, OptionSpec, PluginError,
    PluginKind, ValueGrid, texts,
};

use crate::{CheckResult, Oracle, Subject, Verdict, allowed_values::allowed_values, subject::said};

pub(crate) fn descriptor(subject: &Subject) -> CheckResult {
    described(subject.descriptor(), PluginKind::FORMAT)
}

/// Checks that a plugin of that kind describes itself correctly.
pub(crate) fn described(descriptor: &Descriptor, kind: PluginKind) -> CheckResult {
    if descriptor.kind != kind {
        return Err(format!("it describes itself as {}", descriptor.kind));
    }
    let id = descriptor.id.as_str();
    if id.is_empty() || !id.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c)) {
        return Err(format!("the name {id:?} has other characters than letters, digits, `-`, `_` and `.`"));
    }
    let texts = [("version", descriptor.version.as_str()), ("summary", descriptor.summary.as_str())];
    for (what, text) in texts {
        if text.trim().is_empty() || text.contains(char::is_control) {
            return Err(format!("the {what} {text:?} is not one line of text"));
        }
    }
    for (index, option) in descriptor.options.iter().enumerate() {
        if descriptor.options[..index].iter().any(|other| other.name == option.name) {
            return Err(format!("the option `{}` is declared twice", option.name));
        }
        Config::resolve(&descriptor.options, [(option.name.to_string(), option.default.into())])
            .map_err(|fault| format!("the default of `{}` {}", fault.key, fault.message))?;
    }
    Ok(Verdict::Passed)
}

pub(crate) fn options(subject: &Subject) -> CheckResult {
    constructed(subject.descriptor(), |config| subject.make(config).map(drop))
}

/// Checks that a constructor accepts every value that its options allow, and does not crash on other
/// values.
pub(crate) fn constructed(
    descriptor: &Descriptor,
    make: impl Fn(&Config) -> Result<(), PluginError>,
) -> CheckResult {
    for option in descriptor.options {
        for value in allowed_values(option) {
            let config = Config::resolve(&descriptor.options, [(option.name.to_string(), value.clone())])
                .map_err(|fault| {
                    format!("the declared value {value:?} of `{}` {}", fault.key, fault.message)
                })?;
            match make(&config) {
                Err(error) if error.kind != ErrorKind::CONFIG => {
                    return Err(format!("with `{}` = {value:?}: {}", option.name, said("new", &error)));
                }
                _ => {}
            }
        }
        // The host refuses these values; an author may rely on that, but must not panic.
        for value in impossible_values(option) {
            let loose = option.range(f64::NEG_INFINITY, f64::INFINITY).choices(texts![]);
            let others = descriptor.options.iter().filter(|other| other.name != option.name).copied();
            let declared: Vec<OptionSpec> = others.chain([loose]).collect();
            let Ok(config) = Config::resolve(&declared, [(option.name.to_string(), value.clone())]) else {
                continue;
            };
            no_panic(&make, &config, &format!("`{}` = {value:?}", option.name))?;
        }
    }
    no_panic(&make, &Config::default(), "no option at all")?;
    Ok(Verdict::Passed)
}

fn no_panic(
    make: impl Fn(&Config) -> Result<(), PluginError>,
    config: &Config,
    what: &str,
) -> Result<(), String> {
    match make(config) {
        Err(error) if error.kind == ErrorKind::PANIC => Err(format!("with {what}: {}", said("new", &error))),
        _ => Ok(()),
    }
}

/// Values no sensible option allows.
fn impossible_values(option: &OptionSpec) -> Vec<ConfigValue> {
    match option.default {
        OptionDefault::Bool(_) => Vec::new(),
        OptionDefault::Integer(_) => [i64::MIN, -1, 0, i64::MAX].map(ConfigValue::Integer).into(),
        OptionDefault::Float(_) => {
            [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, 0.0, 1e300].map(ConfigValue::Float).into()
        }
        OptionDefault::Text(_) => {
            ["", " ", "no such thing", "\u{0}\u{1f9ea}"].map(|text| ConfigValue::Text(text.into())).into()
        }
        OptionDefault::TextList(_) => {
            vec![
                ConfigValue::TextList(Vec::new().into()),
                ConfigValue::TextList(vec!["no such thing".into()].into()),
            ]
        }
    }
}

pub(crate) fn spec(subject: &Subject) -> CheckResult {
    // Tables may hold NaN, which is unequal to itself: compared as decode tables.
    let described = || -> Result<(Vec<u32>, Conventions), String> {
        let instance = subject.instance()?;
        let spec = instance.spec().map_err(|error| said("spec", &error))?;
        let conventions = instance.conventions()?;
        let values = ValueGrid::new(&spec).map_err(|error| error.message.to_string())?;
        conventions.check(&values).map_err(|error| error.message.to_string())?;
        Ok((Oracle::new(&spec)?.by_code().iter().map(|value| value.to_bits()).collect(), conventions))
    };
    if described()? != described()? {
        return Err("two instances with the same options describe different formats".into());
    }
    Ok(Verdict::Passed)
}
