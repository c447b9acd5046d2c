//! Memory of this process and of the machine, bytes, as Linux reports them; `None` elsewhere.

use std::fs;

/// Memory that programs can still take.
#[must_use]
pub fn available() -> Option<u64> {
    linux_says("/proc/meminfo", "MemAvailable:")
}

/// The largest memory of this process so far.
#[must_use]
pub fn peak_rss() -> Option<u64> {
    linux_says("/proc/self/status", "VmHWM:")
}

/// The current memory of this process.
#[must_use]
pub fn rss() -> Option<u64> {
    linux_says("/proc/self/status", "VmRSS:")
}

fn linux_says(file: &str, name: &str) -> Option<u64> {
    let text = fs::read_to_string(file).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()? * 1024)
}
