//! Permissions of the page in a browser: run its own script, apply its own style, show pictures that are part of it; a
//! live page may also request updates from its own server. It has no other permission.
//!
//! Scripts and styles are named by their sha256: text of a run that became markup by mistake would run nothing, fetch
//! nothing and send nothing.

use base64::{Engine, prelude::BASE64_STANDARD};
use sha2::{Digest, Sha256};

/// The policy of a page with this script and style, as its elements hold them.
///
/// Marks have their colours and labels their places in attributes `style`. Pictures are the icon and heat maps.
pub(super) fn policy(script: &str, style: &str, is_live: bool) -> String {
    let (script, style) = (source(script), source(style));
    let own = if is_live { "; connect-src 'self'" } else { "" };
    format!(
        "default-src 'none'; script-src {script}; style-src-elem {style}; style-src-attr 'unsafe-inline'; \
         img-src data:; base-uri 'none'; form-action 'none'{own}"
    )
}

/// A text by its sum.
fn source(text: &str) -> String {
    format!("'sha256-{}'", BASE64_STANDARD.encode(Sha256::digest(text)))
}
