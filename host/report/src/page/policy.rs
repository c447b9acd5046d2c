//! What a browser lets the page do: run its own scripts, apply its own style, show pictures that are part of it; nothing else.
//!
//! Scripts and styles are named by their sha256, so that text of a run that should ever come to stand as markup runs nothing,
//! fetches nothing and sends nothing.

use base64::{Engine, prelude::BASE64_STANDARD};
use sha2::{Digest, Sha256};

/// The policy of a page with these scripts and styles, as its elements hold them.
///
/// Charts put style elements without text into the page and fill them by script, and set attributes `style` on their parts. Pictures
/// are the icon and the cells of heat maps.
pub(super) fn policy(scripts: &[&str], styles: &[&str]) -> String {
    let sources = |texts: &[&str]| texts.iter().map(|text| source(text)).collect::<Vec<_>>().join(" ");
    let (scripts, styles) = (sources(scripts), sources(&[styles, &[""]].concat()));
    format!(
        "default-src 'none'; script-src {scripts}; style-src-elem {styles}; style-src-attr 'unsafe-inline'; \
         img-src data:; base-uri 'none'; form-action 'none'"
    )
}

/// A text by its sum.
fn source(text: &str) -> String {
    format!("'sha256-{}'", BASE64_STANDARD.encode(Sha256::digest(text)))
}
