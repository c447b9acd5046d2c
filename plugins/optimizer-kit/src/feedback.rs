//! Error feedback (Seide et al., Interspeech 2014) for weights that are stored without a master copy.
//!
//! Error feedback: the part of a weight that the rounding of its last update lost is added to the weight before the
//! next update. The host writes the lost part into a state; an optimizer asks for that state with
//! [`ErrorFeedback::states`] and takes it back with [`ErrorFeedback::apply`].

use altgrad_plugin_api::{Config, OptionSpec, ParamInfo, PluginError, ServiceParam, StateSpec, Step, ZipOp};

/// The option's value.
#[derive(Debug, Clone, Copy)]
pub struct ErrorFeedback {
    on: bool,
}

impl ErrorFeedback {
    /// The option.
    pub const OPTION: OptionSpec = OptionSpec::bool("error_feedback", false).help(
        "Without master weights: add what the last rounding lost before the next update; one more state per weight",
    );

    /// Reads the option.
    ///
    /// # Errors
    /// The option is not declared.
    pub fn new(config: &Config) -> Result<Self, PluginError> {
        Ok(Self { on: config.bool("error_feedback")? })
    }

    /// True if a parameter has a residual: the option is on, and the host rounds the parameter after each update.
    #[must_use]
    pub fn is_due(&self, param: &ParamInfo<'_>) -> bool {
        self.on && param.rounded
    }

    /// The states of a parameter: `states`, followed by the residual if there is one.
    #[must_use]
    pub fn states(&self, param: &ParamInfo<'_>, mut states: Vec<StateSpec>) -> Vec<StateSpec> {
        if self.is_due(param) {
            states.push(StateSpec::rounding_residual("rounding_residual"));
        }
        states
    }

    /// The rule for the run's record: `RULE with error feedback`, or nothing where none is due.
    #[must_use]
    pub fn rule(&self, param: &ParamInfo<'_>, rule: &str) -> String {
        if self.is_due(param) { format!("{rule} with error feedback") } else { String::new() }
    }

    /// Adds the residual to the weights and takes it off the list of states.
    pub fn apply(&self, step: &mut Step<'_>) {
        if self.is_due(&step.info)
            && let Some((residual, states)) = std::mem::take(&mut step.states).split_last_mut()
        {
            for (w, lost) in step.param.iter_mut().zip(residual.iter()) {
                *w += lost;
            }
            step.states = states;
        }
    }

    /// The same for a parameter that services update.
    ///
    /// # Errors
    /// The device failed.
    pub fn apply_with_services(&self, step: &mut ServiceParam<'_>) -> Result<(), PluginError> {
        if self.is_due(&step.info)
            && let Some(residual) = step.states.pop()
        {
            step.param.assign(&step.param.zip(ZipOp::ADD, &residual)?)?;
        }
        Ok(())
    }
}
