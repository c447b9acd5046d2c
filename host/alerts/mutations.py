"""Changes each condition of the alerts, one at a time, and runs their tests: python3 host/alerts/mutations.py

Every change must make a test of `altgrad-alerts` fail. Changes that survive are listed; then the exit status is 1. The
source files are restored after each change. A change that does not compile is an error of this script.
"""

import pathlib
import subprocess
import sys

HOST = pathlib.Path(__file__).resolve().parents[1]
FINDINGS = "alerts/src/findings.rs"
ALERTS = "alerts/src/lib.rs"
WINDOW = "alerts/src/loss_window.rs"
TWIN = "alerts/src/twin.rs"
KINDS = "metrics/src/alert_kind.rs"
FAMILIES = "metrics/src/families/"

# Conditions on a value over all layers.
RUN_WIDE = "Condition::AboveAtHighRate | Condition::AboveAndDoubled | Condition::Below | Condition::Outside\n"


def without(condition):
    """The conditions on a value over all layers but one."""
    kept = [name for name in RUN_WIDE.strip().split(" | ") if name != f"Condition::{condition}"]
    return " | ".join(kept) + "\n"


# The alert or rule, its file, the text that is replaced (its only occurrence), the text that replaces it.
MUTATIONS = [
    ("all: threshold", FINDINGS, "value > limit }", "value >= limit }"),
    ("all: threshold below", FINDINGS, "{ value < limit }", "{ value <= limit }"),
    ("all: direction", FINDINGS, "if is_below { value < limit }", "if !is_below { value < limit }"),
    ("all: worst layer", FINDINGS, "if wrong(worst.held, next.held) { worst } else { next }", "if wrong(worst.held, next.held) { next } else { worst }"),
    ("all: NaN values", FINDINGS, "id.definition() == definition && !value.is_nan()", "id.definition() == definition"),
    ("all: nothing measured", FINDINGS, "    (!values.is_empty()).then_some(values)\n}", "    Some(values)\n}"),
    ("all: patience", ALERTS, "state.streak < patience ||", "state.streak <= patience ||"),
    ("all: row of measurements", ALERTS, "state.streak = 0;", ""),
    ("all: cooldown", ALERTS, "since < cooldown_s", "since <= cooldown_s"),
    ("all: cooldown of its own", ALERTS, "            AlertKind::NanLoss | AlertKind::NanGrad => self.config.nan_cooldown_s,\n", ""),
    ("all: count", ALERTS, "state.fired += 1;", ""),
    ("all: holds", ALERTS, "streak > 0 && streak >= self.patience(kind)", "streak > self.patience(kind)"),
    ("all: holds, patience 0", ALERTS, "streak > 0 && streak >=", "streak >="),
    ("bit_stall: kind of condition", FAMILIES + "updates.rs", "Condition::AboveAtHighRate", "Condition::Above"),
    ("bit_stall: all weights", FINDINGS, RUN_WIDE, without("AboveAtHighRate")),
    ("bit_stall: rate", FINDINGS, "Condition::AboveAtHighRate) && !thresholds.is_rate_high", "Condition::AboveAtHighRate) && thresholds.is_rate_high"),
    ("bit_stall: warm-up", ALERTS, "record.step >= self.facts.warmup_steps && !is_low", "!is_low"),
    ("bit_stall: end of warm-up", ALERTS, "record.step >= self.facts.warmup_steps && !is_low", "record.step > self.facts.warmup_steps && !is_low"),
    ("bit_stall: low rate", ALERTS, "record.step >= self.facts.warmup_steps && !is_low", "record.step >= self.facts.warmup_steps"),
    ("bit_stall: limit of the rate", ALERTS, "lr < HIGH_RATE", "lr <= HIGH_RATE"),
    ("bit_stall: share of the rate", KINDS, "HIGH_RATE: f64 = 0.25", "HIGH_RATE: f64 = 0.249"),
    ("bit_stall: largest rate", ALERTS, "fold(self.state.largest_lr, f64::max)", "fold(self.state.largest_lr, f64::min)"),
    ("bit_stall: all updates so far", FAMILIES + "ulp_from_init.rs", "alerts: &[&BIT_STALL_ALERT],", ""),
    ("overflow, underflow: noise", FINDINGS, "sqnr_at(record, measured.id, sqnr)? < least", "sqnr_at(record, measured.id, sqnr)? <= least"),
    ("overflow, underflow: not measured", FINDINGS, "(!known.is_empty()).then_some(noisy)", "Some(noisy)"),
    ("overflow, underflow: same layer", FINDINGS, "id.over == at.over && id.statistic.role", "id.statistic.role"),
    ("overflow, underflow: same role", FINDINGS, "id.over == at.over && id.statistic.role == at.statistic.role", "id.over == at.over"),
    ("overflow, underflow: off", FINDINGS, "thresholds.alerts.sqnr_threshold.limit()", "thresholds.alerts.sqnr_threshold.limit().or(Some(0.0))"),
    ("overflow: kind of condition", FAMILIES + "rounding.rs", "kind: AlertKind::Overflow,\n    condition: Condition::AboveWithNoise(&SQNR_DB)", "kind: AlertKind::Overflow,\n    condition: Condition::Above"),
    ("underflow: kind of condition", FAMILIES + "rounding.rs", "kind: AlertKind::Underflow,\n    condition: Condition::AboveWithNoise(&SQNR_DB)", "kind: AlertKind::Underflow,\n    condition: Condition::Above"),
    ("sparsity: kind of condition", FAMILIES + "rounding.rs", "Condition::AboveOverRole", "Condition::Above"),
    ("sparsity: over layers", FINDINGS, "measured.id.over == Over::All && measured.id.statistic.role.is_some()", "measured.id.statistic.role.is_some()"),
    ("sparsity: of a role", FINDINGS, "measured.id.over == Over::All && measured.id.statistic.role.is_some()", "measured.id.over == Over::All"),
    ("code_saturation: kind of condition", FAMILIES + "rounding.rs", "kind: AlertKind::CodeSaturation,\n    condition: Condition::Above,", "kind: AlertKind::CodeSaturation,\n    condition: Condition::Below,"),
    ("code_saturation: metric", FAMILIES + "rounding.rs", "&[&OVERFLOW_ALERT, &CODE_SATURATION_ALERT]", "&[&OVERFLOW_ALERT]"),
    ("kurtosis: kind of condition", FAMILIES + "codes.rs", "Condition::AboveAndGrown", "Condition::Above"),
    ("kurtosis: growth", FINDINGS, "thresholds.first(measured) * growth", "thresholds.first(measured)"),
    ("kurtosis: own start", FINDINGS, "entry(measured.id.to_string())", "entry(String::new())"),
    ("gradient_cosine: kind of condition", FAMILIES + "fidelity.rs", "Condition::Below,", "Condition::Above,"),
    ("gradient_cosine: all layers", FINDINGS, RUN_WIDE, without("Below")),
    ("gradient_norm: kind of condition", FAMILIES + "fidelity.rs", "Condition::Outside", "Condition::Above"),
    ("gradient_norm: inverse", FINDINGS, "measured.value.max(measured.value.recip())", "measured.value"),
    ("gradient_norm: all layers", FINDINGS, RUN_WIDE, without("Outside")),
    ("attention_logit: kind of condition", FAMILIES + "attention.rs", "Condition::AboveAndDoubled", "Condition::Above"),
    ("attention_logit: all layers", FINDINGS, RUN_WIDE, without("AboveAndDoubled")),
    ("attention_logit: growth", FINDINGS, "if is_doubled { 2.0 }", "if is_doubled { 1.99 }"),
    ("attention_logit: growth, more", FINDINGS, "if is_doubled { 2.0 }", "if is_doubled { 2.01 }"),
    ("rank_collapse: kind of condition", FAMILIES + "ranks.rs", "Condition::BelowFirst", "Condition::Below"),
    ("rank_collapse: direction", FINDINGS, "Condition::BelowOfGradient | Condition::BelowFirst)", "Condition::BelowOfGradient)"),
    ("gradient_sqnr: kind of condition", FAMILIES + "rounding.rs", "Condition::BelowOfGradient", "Condition::Below"),
    ("gradient_sqnr: direction", FINDINGS, "Condition::BelowOfGradient | Condition::BelowFirst)", "Condition::BelowFirst)"),
    ("gradient_sqnr: of gradients", FINDINGS, "role.is_some_and(Role::is_gradient)", "role.is_some()"),
    ("rank_collapse: share", FINDINGS, "measured.value / thresholds.first(measured)", "measured.value / (1.0 + 0.0 * thresholds.first(measured))"),
    ("nan_loss: infinity", FINDINGS, "Some(value) if value.is_finite() => Verdict::Fine", "Some(value) if !value.is_nan() => Verdict::Fine"),
    ("nan_loss: metric", FINDINGS, "(AlertKind::NanLoss, verdict(&training::LOSS,", "(AlertKind::NanLoss, verdict(&training::GRAD_NORM,"),
    ("nan_grad: metric", FINDINGS, "(AlertKind::NanGrad, verdict(&training::GRAD_NORM,", "(AlertKind::NanGrad, verdict(&training::LOSS,"),
    ("nan: patience", ALERTS, "            AlertKind::NanLoss | AlertKind::NanGrad => 1,\n", ""),
    ("lost run: count", ALERTS, "self.state.nan_steps += 1;", "self.state.nan_steps = 1;"),
    ("lost run: end of a row", ALERTS, "self.state.nan_steps = 0;", ""),
    ("lost run: limit", ALERTS, "self.state.nan_steps >= self.config.nan_patience", "self.state.nan_steps > self.config.nan_patience"),
    ("lost run: off", ALERTS, "self.config.nan_patience > 0 && ", ""),
    ("divergence: rise", FINDINGS, "loss > previous", "loss >= previous"),
    ("divergence: above the best", FINDINGS, "best.is_none_or(|best| loss_window::has_risen(loss, best.loss))", "best.is_none_or(|best| loss > best.loss)"),
    ("divergence: noise", WINDOW, "?, 1.0)", "?, 0.0)"),
    ("divergence: training loss", ALERTS, "Some(false) if loss.is_finite() => Verdict::Fine", "Some(false) if loss.is_nan() => Verdict::Fine"),
    ("divergence: not finite while the training loss falls", ALERTS, "Some(false) if loss.is_finite()", "Some(false)"),
    ("divergence: not finite", FINDINGS, "if loss.is_finite() && !is_higher", "if !is_higher"),
    ("divergence: after one that is not finite", ALERTS, "loss.is_finite().then_some(loss);", "Some(loss);"),
    ("divergence: patience", ALERTS, "            AlertKind::Divergence => self.config.divergence_patience,\n", ""),
    ("divergence: off", ALERTS, "if self.config.divergence_patience == 0 { Verdict::Missing } else { verdict }", "verdict"),
    ("divergence: step", ALERTS, "if self.run_is_lost() || self.loss_keeps_rising()", "if self.run_is_lost()"),
    ("best evaluation", ALERTS, "is_none_or(|best| loss < best.loss)", "is_none_or(|best| loss > best.loss)"),
    ("loss_rise: least window", WINDOW, "[64, 1000]", "[63, 1000]"),
    ("loss_rise: window of a long run", WINDOW, "step / 10", "step / 100"),
    ("loss_rise: noise", WINDOW, "DEVIATIONS: f64 = 1.4826", "DEVIATIONS: f64 = 1.0"),
    ("loss_rise: least rise", WINDOW, "LEAST_RISE: f64 = 0.02", "LEAST_RISE: f64 = 0.018"),
    ("loss_rise: least rise, more", WINDOW, "LEAST_RISE: f64 = 0.02", "LEAST_RISE: f64 = 0.022"),
    ("loss_rise, divergence: nothing to learn", WINDOW, "loss >= LEARNED && ", ""),
    ("loss_rise: limit", WINDOW, "> limit * noise", "> 2.0 * limit * noise"),
    ("loss_rise: noise of the last window", WINDOW, "lowest.noise.max(noise(&self.last, median)?)", "lowest.noise"),
    ("loss_rise: noise of the lowest window", WINDOW, "lowest.noise.max(noise(&self.last, median)?)", "noise(&self.last, median)?"),
    ("loss_rise: lowest", WINDOW, "center < lowest.median", "center > lowest.median"),
    ("loss_rise: not finite", WINDOW, "if !loss.is_finite() {", "if loss.is_nan() {"),
    ("loss_rise: off", ALERTS, "let rise = limit.map(|limit|", "let rise = limit.or(Some(1.0)).map(|limit|"),
    ("loss_rise, no_learning: patience", ALERTS, "            AlertKind::LossRise | AlertKind::NoLearning => 1,\n", ""),
    ("no_learning: entropy", FINDINGS, "loss < entropy.max(LEARNED)", "loss <= entropy.max(LEARNED)"),
    ("no_learning: nothing to learn", WINDOW, "LEARNED: f64 = 0.01", "LEARNED: f64 = 0.0"),
    ("no_learning: steps", ALERTS, "self.facts.warmup_steps.saturating_add(steps)", "steps"),
    ("no_learning: off", ALERTS, "steps > 0 && record.step >=", "record.step >="),
    ("twin: excess", TWIN, "EXCESS: f64 = 0.025", "EXCESS: f64 = 0.015"),
    ("twin: significance", TWIN, "ERRORS: f64 = 5.0", "ERRORS: f64 = 0.0"),
    ("twin: both", TWIN, "difference > EXCESS * twin.abs() && difference", "difference > EXCESS * twin.abs() || difference"),
    ("twin: window", TWIN, "WINDOW: usize = 50", "WINDOW: usize = 49"),
    ("twin: not finite", TWIN, "pairs.take_while(|(_, loss, _)| loss.is_finite())", "pairs.filter(|(_, loss, _)| loss.is_finite())"),
    ("levels: information", KINDS, "Self::Kurtosis | Self::RankCollapse => Severity::Information,\n", ""),
    ("levels: error", KINDS, "Self::NanLoss | Self::NanGrad | Self::Divergence | Self::LossRise => Severity::Error", "Self::NanLoss | Self::NanGrad | Self::Divergence => Severity::Error"),
]


def cargo(*arguments):
    command = ["cargo", "test", "-q", "-p", "altgrad-alerts", "--lib", *arguments]
    return subprocess.run(command, cwd=HOST, capture_output=True, text=True)


def outcome(path, old, new):
    """`caught`, `survived`, or the error of the compiler."""
    source = path.read_text()
    if source.count(old) != 1:
        sys.exit(f"{path}: {source.count(old)} occurrences of {old!r}")
    path.write_text(source.replace(old, new))
    try:
        if (built := cargo("--no-run")).returncode != 0:
            sys.exit(f"{path}: {new!r} does not compile:\n{built.stderr}")
        return "survived" if cargo().returncode == 0 else "caught"
    finally:
        path.write_text(source)


def main():
    if cargo().returncode != 0:
        sys.exit("the tests fail without a change")
    survived = []
    for name, file, old, new in MUTATIONS:
        result = outcome(HOST / file, old, new)
        print(f"{result}: {name}", flush=True)
        if result == "survived":
            survived.append(name)
    print(f"{len(MUTATIONS) - len(survived)} of {len(MUTATIONS)} changes make a test fail")
    sys.exit(1 if survived else 0)


main()
