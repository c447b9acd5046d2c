//! The settings of the sink: its options in the run file, then the `WANDB_*` variables, then, for the server, the
//! settings file of W&B's client, then defaults.
//!
//! The run file identifies the run; a variable applies where the run file leaves an option empty. `WANDB_DIR` is not
//! followed: a sink writes inside its run folder only. Refuses names that a server would refuse.

use std::time::Duration;

use altgrad_plugin_api::{AlertLevel, Config, OptionSpec, PluginError, texts};
use serde::{Deserialize, Serialize};

use crate::environment::{Environment, PUBLIC_SERVER};

const PROJECT: &str = "altgrad";

/// The destination of metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// To a server, during the run.
    Online,
    /// To a file that can be sent later.
    Offline,
    /// Nowhere.
    Disabled,
}

/// The treatment of a run with that id that exists on the server and was not made by this run folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Resume {
    /// Continue it.
    Allow,
    /// Continue it; it has to exist.
    Must,
    /// Leave it alone.
    Never,
}

/// The names of the run on the server: kept in the spool, so that a later upload uses the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Identity {
    pub run_id: String,
    pub project: String,
    /// None: the user's own.
    pub entity: Option<String>,
    pub display_name: Option<String>,
    pub notes: Option<String>,
    pub group: Option<String>,
    pub job_type: Option<String>,
    pub tags: Vec<String>,
    pub resume: Resume,
    /// The server of the run. None: an offline run that names none, or a spool of an earlier version.
    #[serde(default)]
    pub base_url: Option<String>,
}

/// All options, checked.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    pub mode: Mode,
    /// The server: of the run file or WANDB_BASE_URL, else the default.
    pub base_url: String,
    /// True if run file or WANDB_BASE_URL name it.
    pub names_server: bool,
    /// `run_id` is empty if the options set none.
    pub identity: Identity,
    /// Folder inside the run folder.
    pub folder: String,
    pub interval: Duration,
    pub finish_timeout: Duration,
    pub alert_level: AlertLevel,
    pub alert_cooldown: Duration,
}

/// The options a run file may set.
pub(crate) const SPECS: [OptionSpec; 16] = [
    text("mode", "Where metrics go; empty: WANDB_MODE, or online")
        .choices(texts!["", "online", "offline", "disabled"]),
    text("project", "Project; empty: WANDB_PROJECT, or `altgrad`"),
    text("entity", "User or team; empty: WANDB_ENTITY, or the key's owner"),
    text("display_name", "Name to show; empty: WANDB_NAME, or the run's name"),
    text("group", "Group of runs that belong together; empty: WANDB_RUN_GROUP"),
    text("job_type", "Kind of job; empty: WANDB_JOB_TYPE"),
    text("notes", "Notes, Markdown; empty: WANDB_NOTES"),
    OptionSpec::text_list("tags", texts![]).help("Tags, 1 to 64 characters each; empty: WANDB_TAGS"),
    text("run_id", "Id on the server; empty: WANDB_RUN_ID, or a new one"),
    text("resume", "If the server has that id from elsewhere; empty: WANDB_RESUME, or never")
        .choices(texts!["", "allow", "must", "never"]),
    text(
        "base_url",
        "Server; empty: WANDB_BASE_URL, or that of `wandb login --host`, or https://api.wandb.ai. A key goes only to servers \
         that the user has configured",
    ),
    OptionSpec::text("folder", "wandb").help("Folder of the sink's files inside the run folder"),
    OptionSpec::float("interval_s", 15.0)
        .range(0.5, 3600.0)
        .help("Seconds between uploads, as the official client has it; servers take about 2 a second"),
    OptionSpec::float("finish_timeout_s", 20.0)
        .range(0.0, 1e6)
        .help(
            "Seconds the end of a run waits for the upload, and up to a quarter (at most 5 s) more while rows arrive; what is \
             left stays on disk. `deadline_s` must be larger than the sum",
        ),
    OptionSpec::text("alert_level", "warn")
        .choices(texts!["info", "warn", "error"])
        .help("Least urgent alert to send"),
    OptionSpec::float("alert_cooldown_s", 0.0)
        .range(0.0, 86400.0)
        .help("Seconds between alerts of one kind, besides those of `[alerts]`; the next one says how many were left out"),
];

/// A text that is empty by default.
const fn text(name: &'static str, help: &'static str) -> OptionSpec {
    OptionSpec::text(name, "").help(help)
}

impl Options {
    /// Puts options, variables and defaults together.
    ///
    /// # Errors
    /// `CONFIG`: a value that a server, or the run folder, would refuse.
    pub(crate) fn resolve(config: &Config, environment: &Environment) -> Result<Self, PluginError> {
        let said = |option: &str, variable: &str| -> Result<Option<String>, PluginError> {
            let text = config.text(option)?;
            let found = if text.is_empty() { environment.get(variable) } else { Some(text) };
            Ok(found.map(str::to_string))
        };
        let mode = match said("mode", "WANDB_MODE")?.as_deref() {
            None | Some("online") => Mode::Online,
            Some("offline" | "dryrun") => Mode::Offline,
            Some("disabled") => Mode::Disabled,
            Some(other) => return Err(refused("WANDB_MODE", other, "is not online, offline or disabled")),
        };
        let resume = match said("resume", "WANDB_RESUME")?.as_deref() {
            None | Some("never") => Resume::Never,
            Some("allow") => Resume::Allow,
            Some("must") => Resume::Must,
            Some(other) => return Err(refused("WANDB_RESUME", other, "is not allow, must or never")),
        };
        let mut tags: Vec<String> = config.text_list("tags")?.iter().map(ToString::to_string).collect();
        if tags.is_empty() {
            let listed = environment.get("WANDB_TAGS").unwrap_or_default().split(',');
            tags = listed.map(|tag| tag.trim().to_string()).filter(|tag| !tag.is_empty()).collect();
        }
        let named = said("base_url", "WANDB_BASE_URL")?;
        let names_server = named.is_some();
        let base_url = named.or_else(|| environment.server_of_settings());
        let base_url = checked_url(base_url.as_deref().unwrap_or(PUBLIC_SERVER))?;
        let identity = Identity {
            run_id: said("run_id", "WANDB_RUN_ID")?.unwrap_or_default(),
            project: said("project", "WANDB_PROJECT")?.unwrap_or_else(|| PROJECT.into()),
            entity: said("entity", "WANDB_ENTITY")?,
            display_name: said("display_name", "WANDB_NAME")?,
            notes: said("notes", "WANDB_NOTES")?,
            group: said("group", "WANDB_RUN_GROUP")?,
            job_type: said("job_type", "WANDB_JOB_TYPE")?,
            tags,
            resume,
            base_url: (mode == Mode::Online || names_server).then(|| base_url.clone()),
        };
        check(&identity)?;
        let seconds = |option: &str| {
            Duration::try_from_secs_f64(config.float(option)?)
                .map_err(|error| PluginError::config(format!("`{option}`: {error}")))
        };
        Ok(Self {
            mode,
            base_url,
            names_server,
            identity,
            folder: folder(config)?,
            interval: seconds("interval_s")?,
            finish_timeout: seconds("finish_timeout_s")?,
            alert_level: match config.text("alert_level")? {
                "info" => AlertLevel::INFO,
                "error" => AlertLevel::ERROR,
                _ => AlertLevel::WARN,
            },
            alert_cooldown: seconds("alert_cooldown_s")?,
        })
    }
}

fn refused(what: &str, value: &str, why: &str) -> PluginError {
    PluginError::config(format!("{what} `{value}` {why}"))
}

/// Checks names against the server's rules.
fn check(identity: &Identity) -> Result<(), PluginError> {
    let Identity { run_id, project, tags, .. } = identity;
    let id_fits = run_id.chars().count() <= 128 && run_id.trim() == run_id;
    if !id_fits || run_id.contains([':', ';', ',', '#', '?', '/', '\'', '\n']) {
        return Err(refused(
            "run id",
            run_id,
            "must be short, without blanks around it and without any of :;,#?/'",
        ));
    }
    if project.chars().count() > 128 || project.contains(['/', '\\', '#', '?', '%', ':']) {
        return Err(refused(
            "project",
            project,
            "must have at most 128 characters, none of them one of /\\#?%:",
        ));
    }
    match tags.iter().find(|tag| !(1..=64).contains(&tag.chars().count())) {
        Some(tag) => Err(refused("tag", tag, "must have 1 to 64 characters")),
        None => Ok(()),
    }
}

/// A server's address without a slash at its end. A password in it would end up in messages.
fn checked_url(url: &str) -> Result<String, PluginError> {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    let host = rest.unwrap_or_default().split('/').next().unwrap_or_default();
    if host.is_empty() {
        return Err(refused("server address", url, "must begin with https:// or http:// and name a host"));
    }
    if host.contains('@') {
        return Err(PluginError::config("the server address must not hold a user or password")
            .with_hint("keys belong into WANDB_API_KEY or netrc"));
    }
    Ok(url.trim_end_matches('/').to_string())
}

/// A folder inside the run folder, for the sink alone.
fn folder(config: &Config) -> Result<String, PluginError> {
    let folder = config.path_inside("folder")?;
    if folder.as_os_str().is_empty() {
        return Err(refused("folder", config.text("folder")?, "must be a folder below the run folder"));
    }
    Ok(folder.to_string_lossy().into_owned())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use altgrad_plugin_api::ConfigValue;

    use super::*;

    fn resolve(option: Option<(&str, &str)>, variable: Option<(&str, &str)>) -> Result<Options, String> {
        let given = option.map(|(name, value)| (name.to_string(), ConfigValue::Text(value.into())));
        let config = Config::resolve(&SPECS, given).unwrap();
        let all = variable.map(|(name, value)| (name.to_string(), value.to_string()));
        Options::resolve(&config, &Environment::of(all.into_iter().collect()))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn the_run_file_comes_before_variables_and_both_before_defaults() {
        let project = |option, variable| resolve(option, variable).unwrap().identity.project;
        assert_eq!(project(None, None), "altgrad");
        assert_eq!(project(None, Some(("WANDB_PROJECT", "v"))), "v");
        assert_eq!(project(Some(("project", "o")), Some(("WANDB_PROJECT", "v"))), "o");
        assert_eq!(resolve(None, Some(("WANDB_MODE", "disabled"))).unwrap().mode, Mode::Disabled);
        assert_eq!(resolve(None, Some(("WANDB_RESUME", "must"))).unwrap().identity.resume, Resume::Must);
        let tags = resolve(None, Some(("WANDB_TAGS", "a, b,"))).unwrap().identity.tags;
        assert_eq!(tags, ["a", "b"]);
        let slash = resolve(Some(("base_url", "http://h:1/")), None).unwrap();
        assert_eq!(slash.base_url, "http://h:1");
    }

    #[test]
    fn the_server_is_that_of_the_run_file_the_variable_or_wandb_login() {
        let folder = tempfile::tempdir().unwrap();
        let settings = ("WANDB_CONFIG_DIR", folder.path().to_str().unwrap());
        let server = |option, variables: &[(&str, &str)]| {
            let given = [("base_url".to_string(), ConfigValue::Text(option))];
            let all = variables.iter().map(|(name, value)| (name.to_string(), value.to_string()));
            let config = Config::resolve(&SPECS, given).unwrap();
            let options = Options::resolve(&config, &Environment::of(all.collect())).unwrap();
            (options.base_url, options.names_server)
        };
        let variable = ("WANDB_BASE_URL", "https://variable");
        assert_eq!(server("".into(), &[settings]), (PUBLIC_SERVER.into(), false));
        std::fs::write(folder.path().join("settings"), "[default]\nbase_url = https://login/\n").unwrap();
        assert_eq!(server("".into(), &[settings]), ("https://login".into(), false));
        assert_eq!(server("".into(), &[settings, variable]), ("https://variable".into(), true));
        assert_eq!(server("https://file".into(), &[settings, variable]), ("https://file".into(), true));
    }

    #[test]
    fn what_a_server_would_refuse_is_refused_here() {
        let long = "x".repeat(129);
        let rows = [
            ("run_id", "a/b"),
            ("run_id", &long),
            ("project", "a:b"),
            ("project", &long),
            ("base_url", "wandb.ai"),
            ("base_url", "https://user:secret@h"),
            ("folder", "../x"),
            ("folder", "/x"),
        ];
        for (option, value) in rows {
            let error = resolve(Some((option, value)), None).unwrap_err();
            assert!(!error.contains("secret"), "{error}");
        }
        assert!(resolve(None, Some(("WANDB_TAGS", &long))).is_err());
        assert!(resolve(None, Some(("WANDB_MODE", "of"))).unwrap_err().contains("online, offline"));
    }
}
