//! After an outage, or in a new process: our position, from the server's own count and last row.

use std::io;

use crate::{
    index::{Index, RowAt},
    json,
    protocol::ServerRun,
};

/// The decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The server has this number of our rows; continue there.
    Has(usize),
    /// The server has rows that have been replaced here: those from this step on must go.
    Rewind(u64),
    /// The server's last row is not ours: another program writes to the run.
    Foreign,
}

/// Compares. `base` lines of the server are not ours; our line 0 is the row at `first`.
pub(crate) fn reconcile(server: &ServerRun, base: u64, first: usize, index: &Index) -> io::Result<Verdict> {
    let Some(lines) = server.lines.checked_sub(base) else { return Ok(Verdict::Foreign) };
    let lines = lines as usize;
    let Some(last) = lines.checked_sub(1) else { return Ok(Verdict::Has(0)) };
    let is_tail = |row: RowAt| match &server.tail {
        Some(tail) => index.text(row).map(|text| json::same(tail, &text)),
        // A server that does not show its last row is taken at its count.
        None => Ok(true),
    };
    let place = first + last;
    if let Some(&row) = index.rows.get(place)
        && is_tail(row)?
    {
        return Ok(Verdict::Has(lines));
    }
    for &(_, row) in index.cut.iter().filter(|(was, _)| *was == place) {
        if let Some(floor) = index.cut_floor
            && is_tail(row)?
        {
            return Ok(Verdict::Rewind(floor));
        }
    }
    Ok(Verdict::Foreign)
}
