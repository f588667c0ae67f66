//! `rudy lab list` and `rudy lab show`: the built-in plans.

use std::fmt::Write as _;

use rudy_command::{Exit, print, report_error};
use rudy_units::rough;

use crate::plan::{Plan, builtin};

/// Prints each plan with its question, expected duration, variants and workloads.
#[must_use]
pub fn list() -> Exit {
    print(
        &builtin::all().map(|plan| plan.map_or_else(|why| why, |plan| described(&plan))).collect::<String>(),
    )
}

/// Prints a built-in plan, or a file that one uses, such as `peers/nginx-static.conf`.
#[must_use]
pub fn show(name: &str) -> Exit {
    if let Some(text) = builtin::text(name).or_else(|| builtin::peer(name.as_ref())) {
        return print(text);
    }
    let why = format!("no built-in plan or file {name:?}: expected one of {}", builtin::names());
    report_error(Exit::BadInput, &why)
}

fn described(plan: &Plan) -> String {
    let variants = plan.variants.iter().map(|variant| match plan.missing(variant) {
        Some(_) => format!("{} (not installed)", variant.name),
        None => variant.name.clone(),
    });
    let variants: Vec<String> = variants.collect();
    let workloads: Vec<&str> = plan.workloads.iter().map(|workload| workload.name.as_str()).collect();
    let time =
        [plan.installed().expected_time(), plan.expected_time()].into_iter().find(|time| !time.is_zero());
    let time = time.unwrap_or_default();
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = writeln!(text, "{}, about {}\n    {}", plan.name, rough(time), plan.question);
    let _ = writeln!(text, "    variants: {}\n    workloads: {}", variants.join(", "), workloads.join(", "));
    text
}
