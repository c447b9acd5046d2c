//! Failures of a run by class, with their evidence; and classes that cannot be decided, because a metric is missing or
//! the run is too short.

use altgrad_config::AlertsSection;
use altgrad_metrics::{
    Role, Statistic,
    families::{
        fidelity::{GRAD_COS_SIM, GRADIENT_COSINE_ALERT},
        gradients::DEAD_FRAC,
        ranks::STABLE_RANK,
        rounding::{CODE_SATURATION_ALERT, OVERFLOW_ALERT, OVERFLOW_RATE, UNDERFLOW_RATE},
        training,
        ulp_from_init::MOVEMENT_LOSS,
        updates,
    },
};

use super::{
    run::{Run, RunState},
    series::{Series, Tail},
};

const LOSS: Statistic = Statistic::new(&training::LOSS);
const GRAD_NORM: Statistic = Statistic::new(&training::GRAD_NORM);
const STALL: Statistic = Statistic::new(&updates::BIT_STALL_RATE);
const OVERFLOW: Statistic = Statistic::new(&OVERFLOW_RATE);
const GRAD_UNDERFLOW: Statistic = Statistic::new(&UNDERFLOW_RATE).of_role(Role::Grad);

const MOVEMENT: Statistic = Statistic::new(&MOVEMENT_LOSS);
const ZERO_UPDATES: Statistic = Statistic::new(&updates::ZERO_UPDATE_FRAC);
const COSINE: Statistic = Statistic::new(&GRAD_COS_SIM);
const DEAD: Statistic = Statistic::new(&DEAD_FRAC);
const RANK: Statistic = Statistic::new(&STABLE_RANK);

/// Steps of the shortest run that can be reported to have reached a plateau.
const PLATEAU_STEPS: u64 = 200;
/// A plateau has at least this share of the loss in the middle of the run.
const PLATEAU: f64 = 0.995;
/// A share of a layer's gradients, or of all updates, that are zero: sparse.
const SPARSE: f64 = 0.99;
/// A collapsed stable rank, as a share of its first value.
const COLLAPSED: f64 = 0.1;
/// An underflow of gradients that starves training: over half of the elements.
const STARVED: f64 = 0.5;
/// A stall of weights without master weights: no code changes. In healthy runs with stochastic rounding a few codes in
/// a hundred change per step; with fp32 master weights, which add up small steps, an unchanged code is no stall.
const STALLED: f64 = 0.995;
/// A stall with master weights: most of their movement does not reach the rounded weights.
const LOST_MOVEMENT: f64 = 0.5;
/// A vanished gradient norm, as a share of its largest.
const VANISHED: f64 = 1e-4;
/// The end of a run, over which stalls and gradients are judged.
const END: f64 = 0.1;

/// One thing that went wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunFailure {
    /// `NaN`, `divergence`, `never learned`, `plateau`, `stall`, `update sparsity`, `gradient sparsity`,
    /// `vanishing gradient`, `gradient direction`, `overflow`, `saturation`, `rank collapse`, `early stop`.
    pub class: &'static str,
    /// The evidence for it.
    pub evidence: String,
}

/// Everything that went wrong in a run.
#[must_use]
pub fn of(run: &Run) -> Vec<RunFailure> {
    let found = [
        not_finite(run),
        diverged(run),
        never_learned(run),
        on_a_plateau(run),
        stalled(run),
        updates_are_sparse(run),
        gradients_are_sparse(run),
        vanished(run),
        gradient_departed(run),
        overflowing(run),
        saturated(run),
        rank_collapsed(run),
        stopped(run),
    ];
    found.into_iter().flatten().collect()
}

/// Classes that cannot be judged, because the run has not recorded the metric or is too short.
#[must_use]
pub fn unknown(run: &Run) -> Vec<&'static str> {
    let quantized = run.curve(OVERFLOW).is_some();
    let (stall, no_stall) = stall_evidence(run);
    let entropy = run.status.unigram_entropy;
    let has_losses = run.curve(LOSS).is_some();
    let needs = [
        (!has_losses, "NaN (no train/loss)"),
        (run.evaluations.is_empty(), "divergence (no evaluation)"),
        (quantized && run.curve(stall).is_none(), no_stall),
        (run.curve(GRAD_NORM).is_none(), "vanishing gradient (no train/grad_norm)"),
        (entropy.is_none(), "never learned (no unigram_entropy in run.json)"),
        (
            has_losses && entropy.is_some() && !is_past_learning(run),
            "never learned (shorter than train.warmup_steps + alerts.no_learning_steps)",
        ),
        (run.curve(ZERO_UPDATES).is_none(), "update sparsity (metrics.every)"),
        (!run.layers.contains_key(&DEAD), "gradient sparsity (metrics.every)"),
        (quantized && run.curve(COSINE).is_none(), "gradient direction (shadow.every)"),
        (!run.layers.contains_key(&RANK), "rank collapse (metrics.rank_every)"),
    ];
    needs.into_iter().filter(|(missing, _)| *missing).map(|(_, what)| what).collect()
}

fn failure(class: &'static str, evidence: String) -> Option<RunFailure> {
    Some(RunFailure { class, evidence })
}

/// The text of the first event of a kind.
fn told(run: &Run, kinds: &[&str]) -> Option<String> {
    let event = run.events.iter().find(|event| kinds.contains(&event.kind.as_str()))?;
    Some(format!("step {}: {}", event.step, event.text))
}

fn not_finite(run: &Run) -> Option<RunFailure> {
    if let Some(told) = told(run, &["nan_loss", "nan_grad"]) {
        return failure("NaN", told);
    }
    let first =
        [LOSS, GRAD_NORM].into_iter().find_map(|name| Some((name, run.curve(name)?.first_not_finite()?)));
    first.and_then(|(name, step)| failure("NaN", format!("step {step}: `{name}` is not finite")))
}

fn diverged(run: &Run) -> Option<RunFailure> {
    if let Some(told) = told(run, &["divergence", "loss_rise"]) {
        return failure("divergence", told);
    }
    let step = run.status.diverged_step?;
    failure("divergence", format!("step {step}: `run.json` says it diverged"))
}

/// True from the step on at which the alert `no_learning` is due. Shorter runs are not reported to have never learned.
/// If the alert is off, its default counts.
fn is_past_learning(run: &Run) -> bool {
    let key = |key: &str| run.config.get(key).and_then(|steps| steps.parse::<u64>().ok());
    let steps = key("alerts.no_learning_steps").filter(|steps| *steps > 0);
    let due = steps.unwrap_or(AlertsSection::default().no_learning_steps);
    let due = key("train.warmup_steps").unwrap_or(0).saturating_add(due);
    run.curve(LOSS).and_then(Series::last).is_some_and(|(step, _)| step >= due)
}

/// The training loss at the end is not below that of a model that uses only token frequencies.
fn never_learned(run: &Run) -> Option<RunFailure> {
    if !is_past_learning(run) {
        return None;
    }
    let (Tail { from, mean }, entropy) = (run.curve(LOSS)?.tail(END)?, run.status.unigram_entropy?);
    let evidence =
        format!("{mean:.4} nats/token from step {from} on; the corpus's unigram entropy is {entropy:.4}");
    (!altgrad_alerts::has_learned(mean, entropy)).then_some(RunFailure { class: "never learned", evidence })
}

/// The training loss has stopped falling halfway.
fn on_a_plateau(run: &Run) -> Option<RunFailure> {
    let losses = run.curve(LOSS)?;
    let (means, (last, _)) = (losses.means(16), losses.last()?);
    if means.len() < 8 || last < PLATEAU_STEPS || never_learned(run).is_some() {
        return None;
    }
    let at = |part: &[(u64, f64)]| part.iter().map(|(_, loss)| loss).sum::<f64>() / part.len() as f64;
    let width = means.len() / 8;
    let middle = means.len() / 2;
    let (before, after) = (at(&means[middle - width..middle]), at(&means[means.len() - width..]));
    let evidence = format!(
        "{after:.4} nats/token from step {} on, {before:.4} before step {}, half-way",
        means[means.len() - width].0,
        means[middle].0
    );
    (after >= PLATEAU * before).then_some(RunFailure { class: "plateau", evidence })
}

fn updates_are_sparse(run: &Run) -> Option<RunFailure> {
    let Tail { from, mean } = run.curve(ZERO_UPDATES)?.tail(END).filter(|end| end.mean > SPARSE)?;
    let evidence = format!("{:.1} % of the elements do not move from step {from} on", mean * 100.0);
    failure("update sparsity", evidence)
}

/// Of the blocks' layers: tokens that do not occur leave an embedding without gradients, and nothing is wrong.
fn gradients_are_sparse(run: &Run) -> Option<RunFailure> {
    let layers = run.layers.get(&DEAD)?.iter().filter(|(layer, _)| layer.starts_with("h."));
    let (layer, Tail { from, mean }) = worst_end(layers).filter(|(_, end)| end.mean > SPARSE)?;
    let evidence =
        format!("{:.1} % of the gradient of `{layer}` is below 1e-8 from step {from} on", mean * 100.0);
    failure("gradient sparsity", evidence)
}

fn gradient_departed(run: &Run) -> Option<RunFailure> {
    let limit = GRADIENT_COSINE_ALERT.default;
    let Tail { from, mean } = run.curve(COSINE)?.tail(END).filter(|end| end.mean < limit)?;
    let evidence = format!("{mean:.3} is its cosine to the gradient of fp32 from step {from} on");
    failure("gradient direction", evidence)
}

fn rank_collapsed(run: &Run) -> Option<RunFailure> {
    let of_layer =
        |(layer, curve): (&String, &Series)| {
            let ((_, first), (step, last)) = (curve.first()?, curve.last()?);
            (last < COLLAPSED * first).then(|| (last / first, format!(
            "the stable rank of `{layer}` is {last:.1} at step {step}, and was {first:.1} at first"
        )))
        };
    let collapsed = run.layers.get(&RANK)?.iter().filter_map(of_layer);
    let (_, evidence) = collapsed.min_by(|a, b| a.0.total_cmp(&b.0))?;
    failure("rank collapse", evidence)
}

fn saturated(run: &Run) -> Option<RunFailure> {
    let layers = Role::ALL.iter().filter_map(|role| run.layers.get(&OVERFLOW.of_role(*role))).flatten();
    let worst = worst_end(layers).filter(|(_, end)| end.mean > CODE_SATURATION_ALERT.default);
    let (layer, Tail { from, mean }) = worst?;
    let evidence =
        format!("{:.1} % of a tensor of `{layer}` share the largest code from step {from} on", mean * 100.0);
    failure("saturation", evidence)
}

/// The layer with the largest mean at the end of the run.
fn worst_end<'a>(layers: impl Iterator<Item = (&'a String, &'a Series)>) -> Option<(&'a String, Tail)> {
    let ends = layers.filter_map(|(layer, curve)| Some((layer, curve.tail(END)?)));
    ends.max_by(|a, b| a.1.mean.total_cmp(&b.1.mean))
}

/// Over the end of the run, with the layer where it is worst.
fn at_the_end(run: &Run, metric: Statistic, layer_metric: Statistic, above: f64) -> Option<String> {
    let Tail { from, mean } = run.curve(metric)?.tail(END).filter(|end| end.mean > above)?;
    let worst = worst_end(run.layers.get(&layer_metric).into_iter().flatten());
    let worst =
        worst.map_or(String::new(), |(layer, end)| format!(", {:.1} % in `{layer}`", end.mean * 100.0));
    Some(format!("{:.1} % from step {from} on{worst}", mean * 100.0))
}

/// The statistic that shows a stall, and what [`unknown`] says without it. With master weights it is the share of the
/// movement of the weights that rounding removes, without them the share of codes that stay.
fn stall_evidence(run: &Run) -> (Statistic, &'static str) {
    match run.config.get("quant.master_weights") {
        Some("none") => (STALL, "stall (metrics.every)"),
        _ => (MOVEMENT, "stall (metrics.histograms_every)"),
    }
}

fn stalled(run: &Run) -> Option<RunFailure> {
    let (evidence, _) = stall_evidence(run);
    if evidence == MOVEMENT {
        let (step, lost) = run.curve(MOVEMENT)?.last().filter(|(_, lost)| *lost > LOST_MOVEMENT)?;
        let evidence = format!(
            "rounding removes {:.1} % of the movement of the weights up to step {step}",
            lost * 100.0
        );
        return failure("stall", evidence);
    }
    let measured = at_the_end(run, STALL, STALL, STALLED)?;
    failure("stall", format!("codes that stay although they have a gradient: {measured}"))
}

fn overflowing(run: &Run) -> Option<RunFailure> {
    let roles = Role::FIRST_USES.map(|role| OVERFLOW.of_role(role));
    let role = |role: &Statistic| {
        Some((
            run.layers
                .get(role)?
                .values()
                .filter_map(|curve| curve.largest())
                .map(|most| most.1)
                .reduce(f64::max)?,
            *role,
        ))
    };
    let worst = roles.iter().filter_map(role).max_by(|a, b| a.0.total_cmp(&b.0));
    let metric = worst.map_or(OVERFLOW, |(_, metric)| metric);
    let measured = at_the_end(run, OVERFLOW, metric, OVERFLOW_ALERT.default)?;
    // Recipes that let block maxima saturate train well: only where the alert found that the signal was lost too.
    let told = told(run, &["overflow", "code_saturation"])?;
    failure("overflow", format!("elements beyond the largest value: {measured}; {told}"))
}

fn vanished(run: &Run) -> Option<RunFailure> {
    if let Some(measured) = at_the_end(run, GRAD_UNDERFLOW, GRAD_UNDERFLOW, STARVED) {
        return failure("vanishing gradient", format!("gradient elements that round to zero: {measured}"));
    }
    // A norm that is not finite has no size.
    let norm = run.curve(GRAD_NORM).filter(|norm| norm.first_not_finite().is_none())?;
    let (Tail { from, mean }, (step, largest)) = (norm.tail(END)?, norm.largest()?);
    let vanished = mean <= VANISHED * largest;
    let evidence =
        format!("its norm is {mean:.2e} from step {from} on, and was {largest:.2e} at step {step}");
    vanished.then_some(RunFailure { class: "vanishing gradient", evidence })
}

fn stopped(run: &Run) -> Option<RunFailure> {
    let done = run.steps.unwrap_or(0);
    let due = run.config.get("train.max_steps").and_then(|steps| steps.parse::<u64>().ok());
    let of = due.map_or(String::new(), |due| format!(" of {due}"));
    let evidence = match run.state {
        RunState::Failed | RunState::NotFinite => {
            let error = run.status.error.clone().unwrap_or_else(|| "no reason is recorded".into());
            format!("after {done}{of} steps: {error}")
        }
        RunState::Interrupted => format!("the user stopped it after {done}{of} steps"),
        RunState::Silent => {
            format!("its status is `running`, but it has written nothing recently; {done}{of} steps so far")
        }
        RunState::Completed if due.is_some_and(|due| done < due) => {
            format!("it ended after {done}{of} steps")
        }
        _ => return None,
    };
    failure("early stop", evidence)
}
