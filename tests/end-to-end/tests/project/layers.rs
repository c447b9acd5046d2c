//! The dependency graph of the workspace: each crate depends on the layers below it and on nothing else.
//!
//! The tables below are the law. A crate that no row names is refused, so a new crate comes with its row; so is a
//! dependency that a row allows and no crate has.

use std::{env, process::Command};

use serde_json::{Value, json};

/// The dependencies that a crate of the workspace may have.
struct Rule {
    /// The crate's name; a `*` at its end matches any end.
    package: &'static str,
    /// Crates of the workspace that it may be built with.
    uses: &'static [&'static str],
    /// Further crates that its tests may use.
    tests_use: &'static [&'static str],
}

const fn rule(package: &'static str, uses: &'static [&'static str]) -> Rule {
    Rule { package, uses, tests_use: &[] }
}

impl Rule {
    const fn tests(mut self, tests_use: &'static [&'static str]) -> Self {
        self.tests_use = tests_use;
        self
    }

    fn is_of(&self, package: &str) -> bool {
        match self.package.strip_suffix('*') {
            Some(begin) => package.starts_with(begin),
            None => package == self.package,
        }
    }
}

const ALERTS: &str = "altgrad-alerts";
const API: &str = "altgrad-plugin-api";
const BASE: &str = "altgrad-base";
const BLAME: &str = "altgrad-blame";
const CASTS: &str = "altgrad-casts";
const CONFIG: &str = "altgrad-config";
const CONFORMANCE: &str = "altgrad-conformance";
const DATA: &str = "altgrad-data";
const END_TO_END: &str = "altgrad-end-to-end";
const ENGINE: &str = "altgrad-engine";
const FORMAT_KIT: &str = "altgrad-format-kit";
const HOST: &str = "altgrad-host";
const KERNEL_GENERATOR: &str = "altgrad-kernel-generator";
const KERNEL_KIT: &str = "altgrad-kernel-kit";
const CORPUS: &str = "altgrad-synthetic-corpus";
const LOADER: &str = "altgrad-loader";
const METRICS: &str = "altgrad-metrics";
const OPTIMIZER_KIT: &str = "altgrad-optimizer-kit";
const PYTHON: &str = "altgrad-python";
const REPORT: &str = "altgrad-report";
const RUN_FOLDER: &str = "altgrad-run-folder";
const SINKS: &str = "altgrad-sinks";
const SWEEP: &str = "altgrad-sweep";
const WATCH: &str = "altgrad-watch";

/// From the lowest layer to the highest.
const RULES: &[Rule] = &[
    rule(API, &[]),
    rule(BASE, &[]),
    rule(CORPUS, &[]),
    rule(METRICS, &[]),
    rule(CASTS, &[API]),
    rule(CONFORMANCE, &[API]).tests(&[FORMAT_KIT]),
    rule(CONFIG, &[BASE, CASTS, METRICS]).tests(&[END_TO_END]),
    rule(LOADER, &[API, BASE, CONFIG]).tests(&[END_TO_END]),
    rule(DATA, &[BASE, CONFIG, CORPUS]).tests(&[END_TO_END]),
    rule(RUN_FOLDER, &[API, BASE]),
    rule(ALERTS, &[API, BASE, CONFIG, METRICS, RUN_FOLDER]),
    rule(SINKS, &[API, BASE, LOADER, METRICS, RUN_FOLDER]).tests(&[CONFIG, END_TO_END]),
    rule(ENGINE, &[ALERTS, API, BASE, CASTS, CONFIG, DATA, LOADER, METRICS, RUN_FOLDER, SINKS])
        .tests(&[END_TO_END]),
    rule(REPORT, &[ALERTS, BASE, CONFIG, METRICS, RUN_FOLDER]),
    rule(SWEEP, &[ALERTS, BASE, CONFIG, METRICS, RUN_FOLDER]),
    rule(BLAME, &[BASE, CONFIG, METRICS, REPORT, RUN_FOLDER, SWEEP]),
    rule(WATCH, &[BASE, REPORT]),
    rule(
        HOST,
        &[
            API,
            BASE,
            BLAME,
            CASTS,
            CONFIG,
            CONFORMANCE,
            DATA,
            ENGINE,
            LOADER,
            METRICS,
            REPORT,
            RUN_FOLDER,
            SWEEP,
            WATCH,
        ],
    ),
    rule(PYTHON, &[API, BASE, CASTS, CONFIG, LOADER, METRICS, REPORT]),
    // Plugins know the API and the kits.
    rule(FORMAT_KIT, &[API]).tests(&[CONFORMANCE]),
    rule(OPTIMIZER_KIT, &[API]),
    rule(KERNEL_KIT, &[API]),
    rule(KERNEL_GENERATOR, &[KERNEL_KIT]),
    rule("altgrad-format-*", &[API, FORMAT_KIT]),
    rule("altgrad-optimizer-*", &[API, OPTIMIZER_KIT]).tests(&[FORMAT_KIT]),
    rule("altgrad-sink-*", &[API]).tests(&[CONFORMANCE]),
    rule("altgrad-example-*", &[API]),
    rule("altgrad-fixture-*", &[API]),
    // Tests.
    rule(END_TO_END, &[]),
    rule("altgrad-fuzz", &[]).tests(&[API, BASE, CONFIG, DATA, ENGINE, LOADER, REPORT, SWEEP]),
    rule("altgrad-test-kernels", &[API, CONFORMANCE, FORMAT_KIT, OPTIMIZER_KIT]).tests(&[
        END_TO_END,
        KERNEL_GENERATOR,
        LOADER,
    ]),
    rule("xtask", &[]),
];

/// Crates of the tensor library, by the beginning of their names, and the crates that may depend on them.
const TENSORS: [(&str, &[&str]); 2] = [("burn", &[ENGINE]), ("cubecl", &[ENGINE, KERNEL_KIT])];

/// The first rule for a crate.
fn rule_of(package: &str) -> Option<&'static Rule> {
    RULES.iter().find(|rule| rule.is_of(package))
}

fn name(value: &Value) -> &str {
    value["name"].as_str().unwrap_or_default()
}

/// The crates that a package of `cargo metadata` depends on; true for those that only its tests use.
fn dependencies(package: &Value) -> impl Iterator<Item = (&str, bool)> {
    let dependencies = package["dependencies"].as_array().into_iter().flatten();
    dependencies.map(|dependency| (name(dependency), dependency["kind"] == "dev"))
}

/// Every edge of `cargo metadata`'s packages that the tables do not allow, and every crate they do not name.
fn wrong_edges(packages: &[Value]) -> Vec<String> {
    let ours: Vec<&str> = packages.iter().map(name).collect();
    let mut wrong = Vec::new();
    for package in packages {
        let from = name(package);
        let Some(rule) = rule_of(from) else {
            wrong.push(format!("{from} has no rule in {}", file!()));
            continue;
        };
        for (to, of_tests) in dependencies(package) {
            let allowed = match TENSORS.iter().find(|(library, _)| to.starts_with(library)) {
                Some((_, users)) => users.contains(&from),
                None if ours.contains(&to) => {
                    rule.uses.contains(&to) || (of_tests && rule.tests_use.contains(&to))
                }
                None => true,
            };
            if !allowed {
                let tests = if of_tests { "the tests of " } else { "" };
                wrong.push(format!("{tests}{from} must not depend on {to}"));
            }
        }
    }
    wrong
}

/// Every edge that the tables allow and none of `cargo metadata`'s packages has.
fn unused_edges(packages: &[Value]) -> Vec<String> {
    let mut unused = Vec::new();
    for rule in RULES {
        let is_of = |package: &&Value| rule_of(name(package)).is_some_and(|of| of.package == rule.package);
        let edges: Vec<_> = packages.iter().filter(is_of).flat_map(dependencies).collect();
        for (allowed, of_tests) in [(rule.uses, false), (rule.tests_use, true)] {
            let tests = if of_tests { "the tests of " } else { "" };
            let missing = allowed.iter().filter(|to| !edges.contains(&(**to, of_tests)));
            unused.extend(
                missing.map(|to| format!("{tests}{} need not be allowed to depend on {to}", rule.package)),
            );
        }
    }
    unused
}

/// True if the rules let a crate depend on another, directly or indirectly.
fn reaches(from: &str, to: &str) -> bool {
    let uses = rule_of(from).map_or(&[][..], |rule| rule.uses);
    uses.iter().any(|next| *next == to || reaches(next, to))
}

#[test]
fn crates_depend_only_on_the_layers_below_them() {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["metadata", "--no-deps", "--offline", "--format-version", "1"]).current_dir(super::root());
    let output = cargo.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    assert!(packages.len() > 20, "only {} packages", packages.len());
    let wrong = [wrong_edges(packages), unused_edges(packages)].concat();
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

#[test]
fn no_rule_lets_a_lower_layer_reach_a_higher_one() {
    for low in [REPORT, SWEEP, DATA, LOADER, METRICS, CONFIG, CASTS, CONFORMANCE, API] {
        assert!(!reaches(low, ENGINE), "{low} may reach {ENGINE}");
    }
    for rule in RULES {
        assert!(!reaches(rule.package, HOST), "{} may reach {HOST}", rule.package);
        assert!(!rule.tests_use.contains(&HOST), "the tests of {} may use {HOST}", rule.package);
        assert!(!reaches(rule.package, rule.package), "{} may reach itself", rule.package);
    }
}

#[test]
fn a_wrong_edge_and_an_unknown_crate_are_named() {
    let package = |name: &str, dependencies: &[(&str, &str)]| {
        let dependency = |(name, kind): &(&str, &str)| json!({ "name": name, "kind": kind });
        json!({ "name": name, "dependencies": dependencies.iter().map(dependency).collect::<Vec<_>>() })
    };
    let packages = [
        package(REPORT, &[(ENGINE, "normal"), (METRICS, "normal"), ("serde", "normal")]),
        package(ENGINE, &[("burn", "normal"), ("burn-cubecl", "normal"), (END_TO_END, "dev")]),
        package(METRICS, &[("burn-tensor", "normal"), (ENGINE, "dev")]),
        package(END_TO_END, &[]),
        package("altgrad-new", &[]),
    ];
    insta::assert_snapshot!(wrong_edges(&packages).join("\n"), @r"
    altgrad-report must not depend on altgrad-engine
    altgrad-metrics must not depend on burn-tensor
    the tests of altgrad-metrics must not depend on altgrad-engine
    altgrad-new has no rule in tests/end-to-end/tests/project/layers.rs
    ");
}

#[test]
fn an_allowed_edge_that_no_crate_has_is_named() {
    let dependency = |name: &str, kind: &str| json!({ "name": name, "kind": kind });
    let packages = [
        json!({ "name": OPTIMIZER_KIT, "dependencies": [dependency(FORMAT_KIT, "dev")] }),
        json!({ "name": "altgrad-optimizer-x", "dependencies": [dependency(API, "normal")] }),
        json!({ "name": "altgrad-optimizer-y", "dependencies": [dependency(OPTIMIZER_KIT, "normal")] }),
    ];
    let mut unused = unused_edges(&packages);
    let rules = ["altgrad-optimizer-kit need", "altgrad-optimizer-* need"];
    unused.retain(|edge| rules.iter().any(|rule| edge.contains(rule)));
    insta::assert_snapshot!(unused.join("\n"), @r"
    altgrad-optimizer-kit need not be allowed to depend on altgrad-plugin-api
    the tests of altgrad-optimizer-* need not be allowed to depend on altgrad-format-kit
    ");
}
