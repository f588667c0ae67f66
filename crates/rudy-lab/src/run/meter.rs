//! Measures other activity on the machine during a workload.

use std::time::{Duration, Instant};

use crate::machine::Shares;
use crate::variant::process_tree::{self, Cpu};

/// Minimum duration for which other activity is reported; ticks of 10 ms are too coarse for shorter workloads.
const SHARES_MIN: Duration = Duration::from_secs(1);

/// The state at the start.
pub(super) struct Meter<'a> {
    /// The first processes of the companion programs.
    companions: &'a [u32],
    variant_cpu: Cpu,
    /// What the generator has used before, and is reaped with the rest.
    generator_cpu: Cpu,
    companions_cpu: Cpu,
    lab: process_tree::Lab,
    machine: Option<rudy_observe::Machine>,
    begun: Instant,
}

/// The changes since the start.
pub(super) struct Usage {
    /// CPU time of the variant's processes that still exist.
    pub(super) variant: Cpu,
    /// CPU time of child processes that the lab has reaped meanwhile: a generator, or a variant that ran to
    /// its end.
    pub(super) reaped: Cpu,
    pub(super) time: Duration,
    /// `None` for a short time.
    pub(super) shares: Option<Shares>,
}

impl<'a> Meter<'a> {
    /// Starts it. The generator runs already, if there is one.
    pub(super) fn start(companions: &'a [u32], generator: Option<u32>) -> Self {
        let others: Vec<u32> = companions.iter().copied().chain(generator).collect();
        Self {
            companions,
            variant_cpu: process_tree::cpu_without(&others),
            generator_cpu: generator.map(process_tree::cpu_of).unwrap_or_default(),
            companions_cpu: process_tree::cpu_below(companions),
            lab: process_tree::lab(),
            // Without it there are no shares.
            machine: rudy_observe::Machine::sample().ok(),
            begun: Instant::now(),
        }
    }

    pub(super) fn stop(self) -> Usage {
        let time = self.begun.elapsed();
        let variant = process_tree::cpu_without(self.companions).since(self.variant_cpu);
        let companions = process_tree::cpu_below(self.companions).since(self.companions_cpu);
        let lab = process_tree::lab();
        let (itself, reaped) =
            (lab.itself.since(self.lab.itself), lab.reaped.since(self.lab.reaped).since(self.generator_cpu));
        let own = [variant, companions, itself, reaped].map(|cpu| cpu.total).into_iter().sum();
        let machine = self.machine.zip(rudy_observe::Machine::sample().ok());
        let shares = machine.filter(|_| time >= SHARES_MIN);
        let shares = shares.map(|(before, after)| Shares::between(&before, &after, own));
        Usage { variant, reaped, time, shares }
    }
}

#[cfg(test)]
mod tests {
    use rudy_experiment::plan::{Kind, parse};
    use rudy_load::bench::LOAD_STARTS;
    use rudy_request::Interrupt;

    use super::*;
    use crate::workload::Generator;

    /// A generator that computes while it opens its connections, as a client of TLS does, and then sends nothing.
    #[test]
    fn cpu_before_the_load_starts_is_not_counted() {
        let plan =
            "[[variant]]\nname = \"a\"\ncommand = [\"a\"]\n[[workload]]\nname = \"w\"\nkind = \"bench\"\n";
        let workload = &parse(plan, "w", None).unwrap().workloads[0];
        assert!(matches!(workload.kind, Kind::Bench { .. }));
        let script = format!(
            "i=0; while [ $i -lt 400000 ]; do i=$((i + 1)); done; echo '{LOAD_STARTS}' >&2; sleep 0.1"
        );
        let command = ["/bin/sh", "-c", &script].map(str::to_owned);
        let interrupt = Interrupt::catch_always().unwrap();
        let whole = Meter::start(&[], None);
        let generator = Generator::start(&command, workload, &[]).unwrap();
        let (pid, mut starts, mut meter) = (generator.pid(), 0, Meter::start(&[], None));
        generator.wait(workload, &interrupt, |has_started| {
            if has_started {
                starts += 1;
                meter = Meter::start(&[], Some(pid));
            }
            None
        });
        let (all, load) = (whole.stop(), meter.stop());
        assert_eq!(starts, 1);
        // Its loop takes some 300 ms, and the kernel counts in ticks of 10 ms.
        assert!(all.reaped.total >= Duration::from_millis(50), "{:?}", all.reaped);
        assert!(load.reaped.total * 2 < all.reaped.total, "{:?} of {:?}", load.reaped, all.reaped);
        assert!(load.variant.total * 2 < all.reaped.total, "{:?} of {:?}", load.variant, all.reaped);
    }
}
