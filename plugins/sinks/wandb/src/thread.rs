//! The upload's thread: made at once, so that the start of a run does not wait, and observed until it
//! ends.

use std::{fs::File, sync::Arc, thread};

use crate::{
    client::Client, index::Index, key::Key, options::Identity, pace::Pace, protocol::Wire, remote::Remote,
    say, shared::Shared, uploader::Uploader,
};

/// Starts the upload's thread. It keeps the lock of the folder until it ends, which may be after the end of the run.
pub(crate) fn start(
    base_url: &str,
    identity: &Identity,
    key: Result<Key, String>,
    (shared, index, remote, pace): (Arc<Shared>, Index, Remote, Pace),
    lock: Arc<File>,
) -> std::io::Result<()> {
    let (base_url, identity) = (base_url.to_string(), identity.clone());
    let key = match key {
        Ok(key) => key,
        // The sink reported it to the user when it was made.
        Err(why) => {
            Ending(shared).say(Some(why));
            return Ok(());
        }
    };
    let upload = move || {
        let ending = Ending(shared.clone());
        let result = Client::new(&base_url, key, shared.clone(), pace).and_then(|client| {
            // As the server spelled them, once it has.
            let known = |said: &str, wanted| if said.is_empty() { wanted } else { Some(said.to_string()) };
            let wire = Wire {
                client,
                entity: known(&remote.entity, identity.entity),
                project: known(&remote.project, None).unwrap_or(identity.project),
                run_id: identity.run_id,
                limit: pace.limit,
            };
            Uploader::new(shared, index, remote, wire, pace).serve()
        });
        if let Err(why) = &result {
            say(&format!("{why}; the upload has stopped. The run continues, and its rows are kept on disk"));
        }
        ending.say(result.err());
        drop(lock);
    };
    thread::Builder::new().name("wandb-upload".into()).spawn(upload).map(drop)
}

/// Says that the upload has ended, even if it ends by a panic.
struct Ending(Arc<Shared>);

impl Ending {
    fn say(self, refused: Option<String>) {
        self.0.lock().report.refused = refused;
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        let panicked = thread::panicking().then(|| "the upload's thread panicked".to_string());
        self.0.tell(|state| {
            state.done = true;
            state.report.refused = state.report.refused.take().or(panicked);
        });
    }
}
