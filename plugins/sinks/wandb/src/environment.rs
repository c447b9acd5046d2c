//! Variables of the process, and W&B's settings file that they name.

use std::{collections::HashMap, fs, path::PathBuf};

/// The default server.
pub(crate) const PUBLIC_SERVER: &str = "https://api.wandb.ai";

/// Variables of this process; a test makes its own.
#[derive(Debug, Clone)]
pub(crate) struct Environment(HashMap<String, String>);

impl Environment {
    pub(crate) fn of_process() -> Self {
        let text = |text: std::ffi::OsString| text.into_string().ok();
        Self(std::env::vars_os().filter_map(|(name, value)| Some((text(name)?, text(value)?))).collect())
    }

    #[cfg(test)]
    pub(crate) fn of(all: Vec<(String, String)>) -> Self {
        Self(all.into_iter().collect())
    }

    /// A variable that is set to something.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// The server in the settings file of W&B's client: `$WANDB_CONFIG_DIR/settings`, by default
    /// `~/.config/wandb/settings`.
    pub(crate) fn server_of_settings(&self) -> Option<String> {
        let named = self.get("WANDB_CONFIG_DIR").map(PathBuf::from);
        let folder = named.or_else(|| Some(PathBuf::from(self.get("HOME")?).join(".config/wandb")))?;
        let text = fs::read_to_string(folder.join("settings")).ok()?;
        let setting = |line: &str| {
            let (name, value) = line.split_once('=')?;
            (name.trim() == "base_url").then(|| value.trim().to_string())
        };
        text.lines().find_map(setting)
    }
}
