//! The outline of an act, drawn before any text: its articles and the number of paragraphs of each.
//!
//! Guarantees that a cross-reference can be checked when it is written, because every article and
//! paragraph is known in advance. Article `i` of the act is entry `i - 1` of the plan.

use super::identity::ActKind;
use super::sampler::Sampler;
use super::subject::Form;

/// The purpose of an article.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Fixing,
    Opening,
    Amending,
    Granting,
    Stopping,
    Scope,
    Definitions,
    Substance,
    Application,
    Security,
    Checks,
    Notification,
    Derogation,
    Penalties,
    Records,
    Financing,
    Confidentiality,
    Annexes,
    Committee,
    Review,
    Transition,
    Repeal,
    Transposition,
    Entry,
    Addressees,
}

impl Role {
    /// True for the articles on which nothing else in an act depends.
    pub(super) fn is_formal(self) -> bool {
        matches!(self, Role::Repeal | Role::Transposition | Role::Entry | Role::Addressees)
    }
}

/// One article of the plan.
#[derive(Debug, Clone, Copy)]
pub(super) struct Planned {
    pub(super) role: Role,
    /// Number of paragraphs; a single one is not numbered.
    pub(super) paragraphs: usize,
}

/// Roles that may fill the middle of an act of rules, in the order in which they appear.
const MIDDLE: [Role; 11] = [
    Role::Substance,
    Role::Application,
    Role::Security,
    Role::Derogation,
    Role::Checks,
    Role::Records,
    Role::Financing,
    Role::Notification,
    Role::Confidentiality,
    Role::Penalties,
    Role::Review,
];

/// Draws the number of annexes.
pub(super) fn annexes(sampler: &mut Sampler, form: Form, size: u32) -> usize {
    match form {
        Form::Fix => 1,
        Form::Quota => sampler.between(1, 2) as usize,
        Form::Stop => 0,
        Form::Amend | Form::Grant => usize::from(sampler.chance(20 + 10 * size)),
        Form::Rules | Form::Approximate => sampler.below(size + 1).min(3) as usize,
    }
}

/// Draws the articles of an act.
pub(super) fn draw(
    sampler: &mut Sampler,
    form: Form,
    kind: ActKind,
    size: u32,
    annexes: usize,
) -> Vec<Planned> {
    let mut roles = Vec::new();
    opening(sampler, form, size, &mut roles);
    middle(sampler, form, size, &mut roles);
    if annexes > 0 && !matches!(form, Form::Fix | Form::Quota) {
        roles.push(Role::Annexes);
    }
    closing(sampler, form, kind, size, &mut roles);
    roles
        .into_iter()
        .map(|role| Planned { role, paragraphs: paragraphs(sampler, role, size, annexes) })
        .collect()
}

/// The articles that state the purpose of the act.
fn opening(sampler: &mut Sampler, form: Form, size: u32, roles: &mut Vec<Role>) {
    match form {
        Form::Fix => roles.push(Role::Fixing),
        Form::Quota => roles.push(Role::Opening),
        Form::Stop => roles.push(Role::Stopping),
        Form::Grant => roles.push(Role::Granting),
        Form::Amend => {
            let count = sampler.between(1, 1 + size.min(2));
            roles.extend((0..count).map(|_| Role::Amending));
        }
        Form::Rules | Form::Approximate => {
            roles.push(Role::Scope);
            if size > 0 || sampler.chance(40) {
                roles.push(Role::Definitions);
            }
        }
    }
}

/// The articles that say how; their number grows with the size of the act.
fn middle(sampler: &mut Sampler, form: Form, size: u32, roles: &mut Vec<Role>) {
    let (low, high) = match form {
        Form::Fix | Form::Stop => (0, size),
        Form::Amend => (0, size),
        Form::Quota | Form::Grant => (size, 2 * size + 1),
        Form::Rules | Form::Approximate => {
            ([1, 2, 4, 7, 11][size as usize % 5], [2, 4, 7, 11, 15][size as usize % 5])
        }
    };
    let count = sampler.between(low, high);
    let mut extra = [0_u32; MIDDLE.len()];
    for _ in 0..count {
        // A third of the articles carry the substance of the subject; the rest are spread out, and a
        // role that has been drawn already gives way to substance, since two articles on penalties
        // would read oddly.
        let place = if sampler.chance(33) { 0 } else { sampler.index(MIDDLE.len()) };
        let place = if extra[place] > 0 { 0 } else { place };
        extra[place] += 1;
    }
    for (role, count) in MIDDLE.iter().zip(extra) {
        roles.extend((0..count).map(|_| *role));
    }
}

/// The articles that end the act.
fn closing(sampler: &mut Sampler, form: Form, kind: ActKind, size: u32, roles: &mut Vec<Role>) {
    let rules = matches!(form, Form::Rules | Form::Approximate);
    if rules && (size > 1 || sampler.chance(30)) {
        roles.push(Role::Committee);
    }
    if size > 0 && sampler.chance(15 + 10 * size) {
        roles.push(Role::Transition);
    }
    if rules && sampler.chance(25) {
        roles.push(Role::Repeal);
    }
    if kind == ActKind::Directive {
        roles.push(Role::Transposition);
    }
    if kind != ActKind::Decision {
        roles.push(Role::Entry);
    }
    if kind != ActKind::Regulation {
        roles.push(Role::Addressees);
    }
}

/// Draws the number of paragraphs of an article.
fn paragraphs(sampler: &mut Sampler, role: Role, size: u32, annexes: usize) -> usize {
    let high = match role {
        Role::Definitions | Role::Amending | Role::Repeal | Role::Entry | Role::Addressees => 1,
        Role::Annexes => return annexes,
        Role::Fixing | Role::Stopping | Role::Scope | Role::Transition | Role::Penalties => 2,
        Role::Committee | Role::Transposition => return 2,
        Role::Substance => 2 + size.min(3),
        _ => 2 + size.min(2),
    };
    sampler.between(1, high) as usize
}
