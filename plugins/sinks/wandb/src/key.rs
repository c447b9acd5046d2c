//! The API key: where it is found, and that it shows nowhere.
//!
//! Order: `WANDB_API_KEY`, netrc (`$NETRC`, `~/.netrc`, `~/_netrc`; machine is the server's host, with its port if the
//! address has one), then the file that the option `api_key_file` names. The run file cannot hold a key: it is copied
//! into the run folder and into the tracker.

use std::{fmt, fs, path::PathBuf};

use crate::options::Environment;

/// Shortest key a server gives out.
const MIN_LENGTH: usize = 40;
/// What stands where a key stood.
const HIDDEN: &str = "(key hidden)";

/// A key. `Debug` does not show it, and it is neither `Display` nor serialisable.
#[derive(Clone)]
pub(crate) struct Key(String);

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HIDDEN)
    }
}

impl Key {
    /// For the one header that needs it.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }

    /// `text` with every appearance of the key taken out: for what servers and users say.
    pub(crate) fn scrub(&self, text: &str) -> String {
        text.replace(&self.0, HIDDEN)
    }

    /// The key for a server, or why there is none.
    pub(crate) fn find(host: &str, file: &str, environment: &Environment) -> Result<Self, String> {
        let (text, place) = if let Some(key) = environment.get("WANDB_API_KEY") {
            (key.to_string(), "WANDB_API_KEY".to_string())
        } else if let Some((key, place)) = from_netrc(host, environment) {
            (key, place)
        } else if !file.is_empty() {
            let text = fs::read_to_string(file)
                .map_err(|error| format!("the key file `{file}` cannot be read ({error})"))?;
            (text, format!("the file `{file}`"))
        } else {
            return Err(format!("no API key: set WANDB_API_KEY, or write it into netrc for machine {host}"));
        };
        let key = text.trim();
        let known = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        if key.len() < MIN_LENGTH || !key.bytes().all(known) {
            let what = "is not an API key (at least 40 letters, digits, `_` or `-`)";
            return Err(format!("what {place} holds {what}"));
        }
        Ok(Self(key.to_string()))
    }
}

/// Host of an address, with its port if there is one.
pub(crate) fn host(base_url: &str) -> &str {
    base_url.split('/').nth(2).unwrap_or_default()
}

/// The password of a machine, and the file it is in.
fn from_netrc(host: &str, environment: &Environment) -> Option<(String, String)> {
    let home = environment.get("HOME").map(PathBuf::from);
    let named = environment.get("NETRC").map(PathBuf::from).into_iter();
    let usual = home.into_iter().flat_map(|home| [home.join(".netrc"), home.join("_netrc")]);
    named.chain(usual).find_map(|path| {
        let text = fs::read_to_string(&path).ok()?;
        Some((password(&text, host)?, path.display().to_string()))
    })
}

/// The password of a machine in the text of a netrc file.
fn password(text: &str, host: &str) -> Option<String> {
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
    let mut words = lines.flat_map(str::split_whitespace);
    let mut ours = false;
    while let Some(word) = words.next() {
        match word {
            "machine" => ours = words.next() == Some(host),
            "default" => ours = false,
            "password" if ours => return words.next().map(str::to_string),
            "login" | "account" | "password" => drop(words.next()),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const KEY: &str = "0123456789abcdef0123456789abcdef01234567";

    #[test]
    fn the_order_is_environment_netrc_file_and_no_message_shows_a_key() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        let netrc_key = KEY.replace('0', "n");
        fs::write(
            path(".netrc"),
            format!("machine a login user password x\nmachine h:8080\n  password {netrc_key}\n"),
        )
        .unwrap();
        fs::write(path("key"), KEY.replace('0', "f") + "\n").unwrap();
        let environment = |key: Option<&str>| {
            let mut all = vec![("HOME".to_string(), path(""))];
            all.extend(key.map(|key| ("WANDB_API_KEY".to_string(), key.to_string())));
            Environment::of(all)
        };
        let find = |host: &str, key| Key::find(host, &path("key"), &environment(key)).map(|key| key.0);
        assert_eq!(find("h:8080", Some(KEY)).unwrap(), KEY);
        assert_eq!(find("h:8080", None).unwrap(), netrc_key);
        assert_eq!(find("h", None).unwrap(), KEY.replace('0', "f"));
        let short = find("h", Some("secret-but-short")).unwrap_err();
        assert!(short.contains("WANDB_API_KEY") && !short.contains("secret"), "{short}");
        let none = Key::find("h", "", &Environment::of(vec![])).unwrap_err();
        assert!(none.contains("set WANDB_API_KEY"), "{none}");
        let key = Key(KEY.into());
        assert_eq!(key.scrub(&format!("401 for {KEY}!")), "401 for (key hidden)!");
        assert_eq!(format!("{key:?}"), "(key hidden)");
    }
}
