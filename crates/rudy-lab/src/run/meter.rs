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
    pub(super) fn start(companions: &'a [u32]) -> Self {
        Self {
            companions,
            variant_cpu: process_tree::cpu_without(companions),
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
        let (itself, reaped) = (lab.itself.since(self.lab.itself), lab.reaped.since(self.lab.reaped));
        let own = [variant, companions, itself, reaped].map(|cpu| cpu.total).into_iter().sum();
        let machine = self.machine.zip(rudy_observe::Machine::sample().ok());
        let shares = machine.filter(|_| time >= SHARES_MIN);
        let shares = shares.map(|(before, after)| Shares::between(&before, &after, own));
        Usage { variant, reaped, time, shares }
    }
}
