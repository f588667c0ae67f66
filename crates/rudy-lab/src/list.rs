//! `rudy lab list`: prints the built-in plans.

use std::fmt::Write as _;
use std::io::{self, Write};

use rudy_load::Exit;

use crate::plan::builtin;

/// Prints each plan with its question, its variants and its workloads.
#[must_use]
pub fn list() -> Exit {
    let mut text = String::new();
    for plan in builtin::all() {
        match plan {
            Ok(plan) => {
                let names = |names: Vec<&str>| names.join(", ");
                let variants = names(plan.variants.iter().map(|variant| variant.name.as_str()).collect());
                let workloads = names(plan.workloads.iter().map(|workload| workload.name.as_str()).collect());
                // Writing to a string does not fail.
                let _ = writeln!(text, "{}\n    {}", plan.name, plan.question);
                let _ = writeln!(text, "    variants: {variants}\n    workloads: {workloads}");
            }
            Err(why) => drop(writeln!(text, "{why}")),
        }
    }
    // A closed pipe is no error: the reader has read enough.
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Exit::CannotRun,
        _ => Exit::Done,
    }
}
