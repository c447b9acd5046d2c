//! The API key: its sources, its destinations, and its removal from all output.
//!
//! Order: `WANDB_API_KEY`, then netrc (`$NETRC`, `~/.netrc`, `~/_netrc`; machine is the server's host, with its port if
//! the address has one). The run file cannot hold a key: it is copied into the run folder and into the tracker.
//!
//! Run files and spools come from strangers, and may name any server. A key therefore goes only to a host that the user
//! has configured: the public server, that of `WANDB_BASE_URL` or of W&B's settings file, a machine of netrc, and this
//! machine. It never goes over http to another machine, nor to a proxy on its way to this one.

use std::{fmt, fs, net::IpAddr, path::PathBuf};

use crate::environment::{Environment, PUBLIC_SERVER};

/// Shortest key a server gives out.
const MIN_LENGTH: usize = 40;
/// The replacement of a key.
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

    /// `text` with every occurrence of the key removed: for messages of servers and users.
    pub(crate) fn scrub(&self, text: &str) -> String {
        text.replace(&self.0, HIDDEN)
    }

    /// The key of the environment, independent of its destination: it is removed from all output, also where it is not
    /// sent.
    pub(crate) fn of_environment(environment: &Environment) -> Option<Self> {
        let key = environment.get("WANDB_API_KEY")?.trim();
        (key.len() >= MIN_LENGTH).then(|| Self(key.to_string()))
    }

    /// The key for a server, or the reason why there is none.
    pub(crate) fn find(base_url: &str, environment: &Environment) -> Result<Self, String> {
        let host = host(base_url);
        if !base_url.starts_with("https://") && !is_this_machine(host) {
            return Err(format!("the API key is not sent over http to another machine: use https://{host}"));
        }
        let (text, place) = match (from_netrc(host, environment), environment.get("WANDB_API_KEY")) {
            (_, Some(key)) if is_configured(host, environment) => (key.to_string(), "WANDB_API_KEY".into()),
            (Some(found), _) => found,
            (None, Some(_)) => {
                return Err(format!(
                    "WANDB_API_KEY is not sent to {host}, which only the run names: set \
                     WANDB_BASE_URL={base_url}, or write the key into netrc for machine {host}"
                ));
            }
            (None, None) => {
                return Err(format!(
                    "no API key: set WANDB_API_KEY, or write it into netrc for machine {host}"
                ));
            }
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

/// True if the user, and not a run file alone, has chosen a server.
fn is_configured(named: &str, environment: &Environment) -> bool {
    let of_variable = environment.get("WANDB_BASE_URL").map(str::to_string);
    let chosen = [Some(PUBLIC_SERVER.to_string()), of_variable, environment.server_of_settings()];
    is_this_machine(named) || chosen.iter().flatten().any(|url| host(url.trim_end_matches('/')) == named)
}

/// True if a host, with or without a port, is a loopback address.
pub(crate) fn is_this_machine(host: &str) -> bool {
    let address = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next(),
        None => host.split(':').next(),
    };
    let address = address.unwrap_or_default();
    address == "localhost" || address.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
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
    fn the_order_is_environment_netrc_and_no_message_shows_a_key() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().display().to_string();
        let netrc_key = KEY.replace('0', "n");
        let netrc = format!("machine a login user password x\nmachine h:8080\n  password {netrc_key}\n");
        fs::write(folder.path().join(".netrc"), netrc).unwrap();
        let find = |url: &str, variables: &[(&str, &str)]| {
            let all = variables.iter().map(|(name, value)| (name.to_string(), value.to_string()));
            let all = all.chain([("HOME".to_string(), home.clone())]).collect();
            Key::find(url, &Environment::of(all)).map(|key| key.0)
        };
        let key = [("WANDB_API_KEY", KEY)];
        assert_eq!(find(PUBLIC_SERVER, &key).unwrap(), KEY);
        assert_eq!(find("http://127.0.0.1:99", &key).unwrap(), KEY);
        assert_eq!(find("http://[::1]:99", &key).unwrap(), KEY);
        assert_eq!(find("https://h:8080", &[]).unwrap(), netrc_key);
        let short = find(PUBLIC_SERVER, &[("WANDB_API_KEY", "secret-but-short")]).unwrap_err();
        assert!(short.contains("WANDB_API_KEY") && !short.contains("secret"), "{short}");
        let none = find(PUBLIC_SERVER, &[]).unwrap_err();
        assert!(none.contains("set WANDB_API_KEY"), "{none}");
        let key = Key(KEY.into());
        assert_eq!(key.scrub(&format!("401 for {KEY}!")), "401 for (key hidden)!");
        assert_eq!(format!("{key:?}"), "(key hidden)");
    }

    #[test]
    fn a_key_goes_only_where_the_user_sends_it() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().display().to_string();
        let find = |url: &str, base_url: Option<&str>| {
            let mut all =
                vec![("WANDB_API_KEY".to_string(), KEY.to_string()), ("HOME".to_string(), home.clone())];
            all.extend(base_url.map(|url| ("WANDB_BASE_URL".to_string(), url.to_string())));
            Key::find(url, &Environment::of(all)).map(|key| key.0)
        };
        for url in
            ["https://stranger.example", "https://api.wandb.ai.stranger.example", "https://127.0.0.1.example"]
        {
            let refused = find(url, None).unwrap_err();
            assert!(refused.contains("only the run names") && !refused.contains(KEY), "{refused}");
        }
        let own = "https://wandb.example:8443";
        assert!(find(own, Some("https://wandb.example")).is_err(), "another port is another server");
        assert_eq!(find(own, Some("https://wandb.example:8443/")).unwrap(), KEY);
        let http = find("http://wandb.example:8443", Some("http://wandb.example:8443")).unwrap_err();
        assert!(http.contains("over http"), "{http}");
        fs::create_dir_all(folder.path().join(".config/wandb")).unwrap();
        fs::write(folder.path().join(".config/wandb/settings"), format!("[default]\nbase_url = {own}\n"))
            .unwrap();
        assert_eq!(find(own, None).unwrap(), KEY);
    }
}
