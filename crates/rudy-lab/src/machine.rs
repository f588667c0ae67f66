//! Describes the machine, and detects other activity during a run.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use rudy_experiment::plan::Plan;
use rudy_experiment::programs::find;
use rudy_experiment::record::Machine;
use rudy_observe::Hardware;
use rudy_request::Interrupt;

use crate::folders::cores;
use crate::variant::tool;

/// The description of this machine.
pub(crate) fn describe() -> Machine {
    let Hardware { cpu, memory_bytes, kernel, governor, has_smt } = Hardware::read();
    let cpu = cpu.unwrap_or_else(|| "unknown".to_owned());
    Machine { cpu, cores: cores(), memory_bytes, kernel, governor, has_smt }
}

/// Programs with a known flag to print their version. An unknown program might interpret the flag
/// differently.
const SAY_VERSION: [(&str, [&str; 2]); 13] = [
    ("nginx", ["nginx", "-v"]),
    ("lighttpd", ["lighttpd", "-v"]),
    ("h2o", ["h2o", "--version"]),
    ("apache2", ["apache2", "-v"]),
    ("httpd", ["httpd", "-v"]),
    ("escript", ["erl", "+V"]),
    ("go", ["go", "version"]),
    ("wrk", ["wrk", "-v"]),
    ("h2load", ["h2load", "--version"]),
    ("ab", ["ab", "-V"]),
    ("caddy", ["caddy", "version"]),
    ("haproxy", ["haproxy", "-v"]),
    ("varnishd", ["varnishd", "-V"]),
];

/// Timeout for a program to print its version.
const VERSION_WITHIN: Duration = Duration::from_secs(10);

/// The versions of Rudy and of the programs of a plan, as far as they print them.
pub(crate) fn versions(plan: &Plan, interrupt: &Interrupt) -> BTreeMap<String, String> {
    // A debug build is several times slower, and the report must show that.
    let build = if cfg!(debug_assertions) { " (debug build)" } else { "" };
    let own = ("rudy".to_owned(), format!("{}{build}", env!("CARGO_PKG_VERSION")));
    let variants = plan
        .variants
        .iter()
        .flat_map(|variant| plan.commands(variant).filter_map(<[String]>::first).chain(&variant.needs));
    let builders = plan.programs.iter().filter(|program| plan.uses(program)).map(|program| &program.build[0]);
    let named = variants.chain(builders).filter_map(|program| {
        let name = Path::new(program).file_name()?.to_str()?;
        Some((name, SAY_VERSION.iter().find(|(known, _)| *known == name)?.1))
    });
    // Each program runs once, even if several variants use it.
    let named: BTreeMap<_, _> = named.collect();
    let versions = named.into_iter().filter_map(|(name, [program, flag])| {
        let program = find(program)?.to_string_lossy().into_owned();
        // wrk prints its version and exits with code 1.
        let used = tool::run(&[program, flag.to_owned()], Path::new("."), VERSION_WITHIN, interrupt);
        let line = used.output.lines().next()?.trim().to_owned();
        Some((name.to_owned(), line))
    });
    versions.chain([own]).collect()
}

/// Other CPU usage during a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shares {
    /// The fraction of all cores' time that the host of a virtual machine gave to others (steal).
    pub(crate) steal: f64,
    /// The fraction of all cores' time used by processes other than the variant and the workload.
    pub(crate) background: f64,
}

impl Shares {
    pub(crate) fn between(
        before: &rudy_observe::Machine,
        after: &rudy_observe::Machine,
        own: Duration,
    ) -> Self {
        let cores = u32::try_from(after.cores.max(1)).unwrap_or(u32::MAX);
        let all = after.at.saturating_duration_since(before.at) * cores;
        let share = |time: Duration| time.as_secs_f64() / all.as_secs_f64().max(1e-9);
        let busy = after.busy.saturating_sub(before.busy);
        Self {
            steal: share(after.steal.saturating_sub(before.steal)),
            background: share(busy.saturating_sub(own)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_a_kernel_and_memory() {
        let machine = describe();
        assert!(!machine.kernel.is_empty() && machine.memory_bytes > 0 && machine.cores > 0);
    }

    #[test]
    fn what_neither_variant_nor_workload_had_was_had_by_others() {
        let before = rudy_observe::Machine::sample().unwrap();
        let mut after = before;
        after.at += Duration::from_secs(1);
        after.cores = 2;
        after.busy += Duration::from_millis(1500);
        after.steal += Duration::from_millis(20);
        let shares = Shares::between(&before, &after, Duration::from_millis(500));
        assert_eq!(format!("{:.3} {:.3}", shares.background, shares.steal), "0.500 0.010");
    }
}
