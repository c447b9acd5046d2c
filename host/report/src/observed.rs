//! Formats ranked by role, from the `observe/*` metrics of a run, which may be unquantized.
//!
//! Values are means over the steps that measured, magnitudes and ranges the largest. Formats are ranked by signal to
//! noise, which depends on the scales that the run assumed; overflow and underflow are those without scales.

use std::collections::BTreeSet;

use altgrad_metrics::{
    FormatName, MetricDefinition, Role, Statistic,
    families::observation::{
        OBSERVED_AMAX, OBSERVED_OVERFLOW, OBSERVED_RANGE, OBSERVED_SQNR, OBSERVED_UNDERFLOW,
    },
};

use super::{
    run::Run,
    series::Series,
    table::{Cell, Digits, Table},
};

/// The errors of a format in a role.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FormatErrors {
    /// The format.
    pub name: FormatName,
    /// Signal to noise in dB; `None` where it is not known.
    pub sqnr_db: Option<f64>,
    /// True if rounding would have changed nothing in any step that measured.
    pub is_exact: bool,
    /// Share of elements beyond the largest value without a scale.
    pub overflow: Option<f64>,
    /// Share of elements that become zero without a scale.
    pub underflow: Option<f64>,
}

/// A role of a run with the formats that were observed in it, the best first.
#[derive(Debug, Clone, PartialEq)]
pub struct ObservedRole {
    /// The role.
    pub role: Role,
    /// Largest magnitude.
    pub amax: Option<f64>,
    /// Binades from the smallest to the largest magnitude, at most.
    pub range: Option<f64>,
    /// By signal to noise.
    pub formats: Vec<FormatErrors>,
}

impl ObservedRole {
    /// The best format, if signal to noise is known. The first by name of several that would change nothing.
    #[must_use]
    pub fn best(&self) -> Option<&FormatErrors> {
        self.formats.first().filter(|format| format.is_exact || format.sqnr_db.is_some())
    }
}

/// The roles that a run observed; empty if it observed nothing.
#[must_use]
pub fn roles(run: &Run) -> Vec<ObservedRole> {
    Role::ALL.into_iter().filter_map(|role| observed(run, role)).collect()
}

fn observed(run: &Run, role: Role) -> Option<ObservedRole> {
    let of_role = |statistic: &&Statistic| statistic.role == Some(role);
    let names: BTreeSet<FormatName> =
        run.curves.keys().filter(of_role).filter_map(|statistic| statistic.format).collect();
    let curve = |definition: &'static MetricDefinition, format: Option<FormatName>| {
        run.curves.get(&Statistic { format, ..Statistic::new(definition) }.of_role(role))
    };
    let amax = curve(&OBSERVED_AMAX, None).and_then(most);
    let format = |name: FormatName| {
        let of = |definition| curve(definition, Some(name)).and_then(mean);
        let (sqnr_db, overflow) = (of(&OBSERVED_SQNR), of(&OBSERVED_OVERFLOW));
        FormatErrors {
            name,
            sqnr_db,
            is_exact: sqnr_db.is_none() && overflow.is_some() && amax.is_some(),
            overflow,
            underflow: of(&OBSERVED_UNDERFLOW),
        }
    };
    let mut formats: Vec<FormatErrors> = names.into_iter().map(format).collect();
    let key = |format: &FormatErrors| match format.sqnr_db {
        _ if format.is_exact => f64::INFINITY,
        sqnr => sqnr.unwrap_or(f64::NEG_INFINITY),
    };
    formats.sort_by(|a, b| key(b).total_cmp(&key(a)));
    let range = curve(&OBSERVED_RANGE, None).and_then(most);
    (!formats.is_empty() || amax.is_some()).then_some(ObservedRole { role, amax, range, formats })
}

fn mean(curve: &Series) -> Option<f64> {
    curve.means(1).first().map(|(_, mean)| *mean)
}

fn most(curve: &Series) -> Option<f64> {
    curve.points(usize::MAX).into_iter().map(|(_, value)| value).reduce(f64::max)
}

/// One row per run and role: the best format, and the signal to noise of each.
#[must_use]
pub fn ranking(runs: &[Run]) -> Table {
    let observed: Vec<_> = runs.iter().map(|run| (run, roles(run))).collect();
    let all = observed.iter().flat_map(|(_, roles)| roles.iter().flat_map(|role| &role.formats));
    let names: BTreeSet<FormatName> = all.map(|format| format.name).collect();
    let heads: Vec<String> = names.iter().map(|name| format!("{name}, dB")).collect();
    let mut columns = vec!["run", "role", "amax", "binades", "best"];
    columns.extend(heads.iter().map(String::as_str));
    let title = "Formats by role: SQNR with the assumed scales";
    let mut table = Table::new("observed", title, &columns);
    for (run, roles) in &observed {
        for observed in roles {
            let best = observed.best().map(|best| best.name.to_string());
            let mut row = vec![
                Cell::text(&run.name),
                Cell::text(observed.role.name()),
                Cell::number(observed.amax, Digits::Scientific),
                Cell::number(observed.range, Digits::Fixed(1)),
                best.map_or(Cell::Missing, Cell::Text),
            ];
            let cell = |name: &FormatName| {
                observed.formats.iter().find(|format| format.name == *name).map_or(Cell::Missing, sqnr)
            };
            row.extend(names.iter().map(cell));
            table.rows.push(row);
        }
    }
    table
}

/// One row per run, role and format, the best format of a role first.
#[must_use]
pub fn formats(runs: &[Run]) -> Table {
    let columns = ["run", "role", "rank", "format", "SQNR, dB", "overflow", "underflow"];
    let title = "Formats by role, the best first: SQNR with assumed scales, overflow and underflow without";
    let mut table = Table::new("observed_formats", title, &columns);
    for run in runs {
        for observed in roles(run) {
            let rows = observed.formats.iter().enumerate().map(|(index, format)| {
                let is_known = format.is_exact || format.sqnr_db.is_some();
                vec![
                    Cell::text(&run.name),
                    Cell::text(observed.role.name()),
                    Cell::number(is_known.then_some(index as f64 + 1.0), Digits::Fixed(0)),
                    Cell::text(format.name.as_str()),
                    sqnr(format),
                    Cell::number(format.overflow, Digits::Percent),
                    Cell::number(format.underflow, Digits::Percent),
                ]
            });
            table.rows.extend(rows);
        }
    }
    table
}

fn sqnr(format: &FormatErrors) -> Cell {
    if format.is_exact { Cell::text("exact") } else { Cell::number(format.sqnr_db, Digits::Fixed(1)) }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn formats_are_ranked_by_role_and_what_is_missing_stays_missing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.csv");
        let columns = "step,train/loss,observe/weight/amax,observe/weight/range,observe/weight/sqnr_db/E4M3,\
                       observe/weight/overflow_rate/E4M3,observe/weight/underflow_rate/E4M3,\
                       observe/weight/sqnr_db/E5M2,observe/weight/overflow_rate/E5M2,observe/norm_gain/amax,\
                       observe/norm_gain/sqnr_db/E4M3,observe/norm_gain/overflow_rate/E4M3,\
                       observe/grad/sqnr_db/E4M3,observe/grad/overflow_rate/E4M3";
        let rows = "0,5,0.5,20,20,0,0.25,25,0,1,,0,,0\n1,4,,,,,,,,,,,,\n2,3,2,18,24,0,0.75,29,0,1,,0,,0\n";
        fs::write(&path, format!("{columns}\n{rows}")).unwrap();
        let run = Run::read(&path).unwrap();
        let roles = roles(&run);
        let names: Vec<&str> = roles.iter().map(|observed| observed.role.name()).collect();
        assert_eq!(names, ["weight", "grad", "norm_gain"]);
        let weight = &roles[0];
        assert_eq!((weight.amax, weight.range), (Some(2.0), Some(20.0)));
        assert_eq!(weight.best().map(|best| best.name.to_string()).as_deref(), Some("E5M2"));
        assert_eq!((weight.formats[0].sqnr_db, weight.formats[0].underflow), (Some(27.0), None));
        assert_eq!((weight.formats[1].sqnr_db, weight.formats[1].underflow), (Some(22.0), Some(0.5)));
        // All was zero: no magnitude, so no format is best. Where there is one and no noise, the format is exact.
        assert_eq!(roles[1].best(), None);
        assert!(roles[2].best().unwrap().is_exact);
        let runs = [run];
        let ranking = ranking(&runs);
        assert_eq!(ranking.columns[5..], ["E4M3, dB", "E5M2, dB"]);
        let shown = |row: usize| ranking.rows[row][4..].iter().map(|cell| cell.show("–")).collect::<Vec<_>>();
        assert_eq!(
            [shown(0), shown(1), shown(2)],
            [["E5M2", "22.0", "27.0"], ["–", "–", "–"], ["E4M3", "exact", "–"]]
        );
        let formats = formats(&runs);
        assert_eq!(formats.rows.len(), 4);
        assert_eq!(
            formats.rows[1][3..].iter().map(|cell| cell.show("–")).collect::<Vec<_>>(),
            ["E4M3", "22.0", "0", "50.00 %"]
        );
    }
}
