//! Who had the machine while a load went on.

use std::time::{Duration, Instant};

use crate::machine::Shares;
use crate::subject::family::{self, Cpu};

/// From so long a load on it is said who else had the machine: of a moment ticks of 10 ms tell nothing.
const SHARES_MIN: Duration = Duration::from_secs(1);

/// How things stood when it began.
pub(super) struct Meter<'a> {
    /// The first processes of what is beside the subject.
    beside: &'a [u32],
    subject_cpu: Cpu,
    beside_cpu: Cpu,
    lab: family::Lab,
    machine: Option<rudy_observe::Machine>,
    begun: Instant,
}

/// What happened since.
pub(super) struct Spent {
    /// CPU of the subject, as far as it is still there.
    pub(super) subject: Cpu,
    /// CPU of what the lab has waited for meanwhile: of a generator, or of a subject that was run to its end.
    pub(super) waited: Cpu,
    pub(super) time: Duration,
    /// Nothing of a short time.
    pub(super) shares: Option<Shares>,
}

impl<'a> Meter<'a> {
    pub(super) fn start(beside: &'a [u32]) -> Self {
        Self {
            beside,
            subject_cpu: family::cpu_without(beside),
            beside_cpu: family::cpu_below(beside),
            lab: family::lab(),
            // Without it there are no shares.
            machine: rudy_observe::Machine::sample().ok(),
            begun: Instant::now(),
        }
    }

    pub(super) fn stop(self) -> Spent {
        let time = self.begun.elapsed();
        let subject = family::cpu_without(self.beside).since(self.subject_cpu);
        let beside = family::cpu_below(self.beside).since(self.beside_cpu);
        let lab = family::lab();
        let (itself, waited) = (lab.itself.since(self.lab.itself), lab.waited.since(self.lab.waited));
        let own = [subject, beside, itself, waited].map(Cpu::total).into_iter().sum();
        let machine = self.machine.zip(rudy_observe::Machine::sample().ok());
        let shares = machine.filter(|_| time >= SHARES_MIN);
        let shares = shares.map(|(before, after)| Shares::between(&before, &after, own));
        Spent { subject, waited, time, shares }
    }
}
