//! Processes that are observed as one: those of a server with several, such as nginx, php-fpm or gunicorn.

use std::time::{Duration, Instant};

use super::{KernelStack, Process, Sample};
use crate::sockets::{Remotes, Sockets};
use crate::{Descriptors, Error, Target};

/// One process by its id, or all that have a name or listen on a port. Of these, later ones are included from their start on, and the
/// observation goes on until the last one has ended.
#[derive(Debug)]
pub struct Processes {
    target: Target,
    list: Vec<Watched>,
    searched: Instant,
    /// The CPU time of those that have ended, until their last sample: in user mode and in the kernel.
    ended: [Duration; 2],
    remotes: Remotes,
}

#[derive(Debug)]
struct Watched {
    process: Process,
    /// At the last sample.
    cpu: [Duration; 2],
}

/// How often later processes are looked for: a search reads two files of each process of the machine.
const SEARCH_INTERVAL: Duration = Duration::from_secs(1);

impl Processes {
    /// Opens the processes.
    ///
    /// # Errors
    ///
    /// There are none, or they cannot be read.
    pub fn open(target: &Target) -> Result<Self, Error> {
        let list = target
            .pids()?
            .into_iter()
            .map(|pid| Ok(Watched { process: Process::open(pid)?, cpu: Default::default() }));
        // Some may have ended since they were found.
        let list = list.filter(|opened| !matches!(opened, Err(Error::NoSuchProcess { .. } | Error::Ended { .. }) if !target.is_pid()));
        let mut list = list.collect::<Result<Vec<_>, Error>>()?;
        list.sort_by_key(|watched| watched.process.pid());
        if list.is_empty() {
            return Err(Error::NotFound { target: target.clone() });
        }
        let (searched, ended, remotes) = (Instant::now(), Default::default(), Remotes::default());
        Ok(Self { target: target.clone(), list, searched, ended, remotes })
    }

    /// The process with the lowest id: usually the one that has started the others.
    #[must_use]
    pub fn first(&mut self) -> &mut Process {
        &mut self.list[0].process
    }

    /// Its id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.list[0].process.pid()
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.list[0].process.name()
    }

    /// Their ids.
    pub fn pids(&self) -> impl Iterator<Item = u32> {
        self.list.iter().map(|watched| watched.process.pid())
    }

    /// Takes a sample of all as if they were one. Memory that they share counts in each. The limit of descriptors is that of one process, so a
    /// sum has none.
    ///
    /// # Errors
    ///
    /// The last one has ended, or one cannot be read.
    pub fn sample(&mut self) -> Result<Sample, Error> {
        self.search();
        let samples = self.each(|watched| {
            let sample = watched.process.sample()?;
            watched.cpu = [sample.cpu_user, sample.cpu_system];
            Ok(sample)
        })?;
        let mut sum = samples.into_iter().reduce(Sample::with).expect("one is left");
        // What ends takes nothing away from the sum.
        sum.cpu_user += self.ended[0];
        sum.cpu_system += self.ended[1];
        Ok(sum)
    }

    /// Finds their sockets, as [`Process::sockets`]. One that several have, such as a socket that workers inherit, counts once.
    ///
    /// # Errors
    ///
    /// As [`Self::sample`].
    pub fn sockets(&mut self) -> Result<Sockets, Error> {
        self.search();
        let limits = self.each(|watched| Ok(watched.process.descriptors()?.limit))?;
        let limit = if let [limit] = limits[..] { limit } else { None };
        let folders: Vec<_> = self.list.iter().map(|watched| watched.process.folder()).collect();
        let sockets = Sockets::find(&folders, limit, &mut self.remotes)?;
        // One may have ended meanwhile, so the descriptors may be incomplete.
        self.check_runs()?;
        Ok(sockets)
    }

    /// Fails if the last one has ended.
    ///
    /// # Errors
    ///
    /// As [`Self::sample`].
    pub fn check_runs(&mut self) -> Result<(), Error> {
        self.each(|watched| watched.process.check_runs()).map(drop)
    }

    /// Where a thread of one of them is in the kernel; see [`Process::kernel_stack`].
    ///
    /// # Errors
    ///
    /// Its process cannot be read.
    pub fn kernel_stack(&mut self, tid: u32) -> Result<Option<KernelStack>, Error> {
        self.of_thread(tid).map_or(Ok(None), |process| process.kernel_stack(tid))
    }

    /// The id of a thread in its own namespace; see [`Process::inner_id`].
    ///
    /// # Errors
    ///
    /// Its process cannot be read.
    pub fn inner_id(&mut self, tid: u32) -> Result<Option<u32>, Error> {
        self.of_thread(tid).map_or(Ok(None), |process| process.inner_id(tid))
    }

    fn of_thread(&mut self, tid: u32) -> Option<&mut Process> {
        let mut processes = self.list.iter_mut().map(|watched| &mut watched.process);
        processes.find(|process| process.known.contains_key(&tid))
    }

    /// Adds processes that have started.
    fn search(&mut self) {
        if self.target.is_pid() || self.searched.elapsed() < SEARCH_INTERVAL {
            return;
        }
        self.searched = Instant::now();
        for pid in self.target.pids().unwrap_or_default() {
            if self.pids().all(|known| known != pid)
                && let Ok(process) = Process::open(pid)
            {
                self.list.push(Watched { process, cpu: Default::default() });
            }
        }
    }

    /// Reads something of each, and forgets those that have ended.
    fn each<T>(&mut self, mut read: impl FnMut(&mut Watched) -> Result<T, Error>) -> Result<Vec<T>, Error> {
        let (mut values, mut end) = (Vec::new(), Ok(()));
        let (ended, mut left) = (&mut self.ended, self.list.len());
        self.list.retain_mut(|watched| match read(watched) {
            Ok(value) => {
                values.push(value);
                true
            }
            Err(error) if error.is_end() && left > 1 => {
                left -= 1;
                ended.iter_mut().zip(watched.cpu).for_each(|(ended, cpu)| *ended += cpu);
                false
            }
            Err(error) => {
                end = Err(error);
                true
            }
        });
        end.map(|()| values)
    }
}

impl Sample {
    /// Adds the sample of another process.
    fn with(mut self, other: Self) -> Self {
        self.cpu_user += other.cpu_user;
        self.cpu_system += other.cpu_system;
        self.threads.extend(other.threads);
        let (memory, added) = (&mut self.memory, other.memory);
        memory.rss_bytes += added.rss_bytes;
        memory.anonymous_bytes += added.anonymous_bytes;
        memory.peak_rss_bytes += added.peak_rss_bytes;
        memory.shared_memory_bytes += added.shared_memory_bytes;
        memory.swap_bytes += added.swap_bytes;
        let open = self.descriptors.open.zip(other.descriptors.open).map(|(one, other)| one + other);
        self.descriptors = Descriptors { open, limit: None };
        self
    }
}
