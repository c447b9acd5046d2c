//! The output of commands, normalised for snapshots: the same on every machine.

use std::path::Path;

use super::{Bench, Outcome, stage};

impl Bench {
    /// A text without the parts that differ between machines: the scratch folder, the staged host's folder, the
    /// project's folder and sha256 sums become `[scratch]`, `[stage]`, `[project]` and `[sha256]`.
    #[must_use]
    pub fn redacted(&self, text: &str) -> String {
        let project = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let project = project.canonicalize().unwrap_or(project);
        let folders = [
            (self.path("").display().to_string(), "[scratch]"),
            (stage().display().to_string(), "[stage]"),
            (project.display().to_string(), "[project]"),
        ];
        let text = folders
            .iter()
            .fold(text.to_string(), |text, (folder, name)| text.replace(folder.trim_end_matches('/'), name));
        without_sums(&text)
    }

    /// A command's exit code and its output on both streams.
    #[must_use]
    pub fn page(&self, outcome: &Outcome) -> String {
        let Outcome { code, stdout, stderr } = outcome;
        self.redacted(&format!("exit code {code}\n--- standard output\n{stdout}--- standard error\n{stderr}"))
    }
}

/// Sixty-four hexadecimal digits in a row are a sha256 sum.
fn without_sums(text: &str) -> String {
    let mut out = String::new();
    let mut word = String::new();
    for c in text.chars().chain(['\0']) {
        if c.is_ascii_alphanumeric() {
            word.push(c);
            continue;
        }
        let is_sum = word.len() == 64 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
        out.push_str(if is_sum { "[sha256]" } else { &word });
        word.clear();
        out.push(c);
    }
    out.pop();
    out
}

#[cfg(test)]
mod tests {
    use super::without_sums;

    #[test]
    fn only_whole_sums_are_replaced() {
        let sum = "0123456789abcdef".repeat(4);
        let text = format!("sha256 {sum}, not {sum}0 or {}\n{sum}", &sum[1..]);
        let expected = format!("sha256 [sha256], not {sum}0 or {}\n[sha256]", &sum[1..]);
        assert_eq!(without_sums(&text), expected);
    }
}
