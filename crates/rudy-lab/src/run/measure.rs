//! Runs a variant under its workload and collects the results of both.

use std::fs;
use std::time::Duration;

use rudy_experiment::plan::{self, Kind, Stall, Workload};
use rudy_experiment::record::{Run, Warning};
use rudy_observe::ThreadTimes;
use rudy_units::Time;

use super::meter::Meter;
use super::single::{Bench, Measured};
use super::validity;
use crate::sample::{Memory, Sampler};
use crate::variant::process_tree;
use crate::variant::{Companions, Cores, ExpectedEnd, Launch, Process, Stalling, StartError, Workspace};
use crate::workload::{self, Ended, Generator, Measurement, output_format};

impl Bench<'_> {
    /// From the start of the first program to the end of the last.
    pub(super) fn start_and_measure(
        &self,
        variant: &plan::Variant,
        workload: &Workload,
        run: &mut Run,
    ) -> Result<Measured, StartError> {
        run.commands.variant.clone_from(&variant.command);
        let workspace = Workspace::new(variant, workload, self.folders)
            .map_err(|error| StartError::cannot("make a folder for it, or find a free port", &error))?;
        let mut companions = Companions::start(self.plan, variant, &workspace, self.interrupt)?;
        let measured = workspace
            .command(&variant.command, variant.config.as_deref(), None, &companions.by_name())
            .map_err(|error| StartError::cannot("write its configuration", &error))
            .and_then(|command| {
                run.commands.variant = command;
                self.variant(variant, workload, &workspace, &mut companions, run)
            });
        run.notes.extend(companions.stop());
        let mut measured = measured?;
        if workspace.cores.share_a_core {
            let own = ["cpu_us_per_request", "cpu_user_us_per_request", "cpu_system_us_per_request"]
                .map(str::to_owned);
            let sentence = "server and load generator are hardware threads of the same core (SMT), and slow each other down";
            let concerns = measured.measurement.metrics.keys().cloned().chain(own).collect();
            measured.measurement.warnings.push(Warning { sentence: sentence.to_owned(), concerns });
        }
        #[expect(clippy::cast_precision_loss, reason = "a count of processes")]
        measured
            .measurement
            .metrics
            .extend(workspace.starts().map(|count| ("starts".to_owned(), count as f64)));
        Ok(measured)
    }

    fn variant(
        &self,
        variant: &plan::Variant,
        workload: &Workload,
        workspace: &Workspace,
        companions: &mut Companions,
        run: &mut Run,
    ) -> Result<Measured, StartError> {
        let is_run = matches!(workload.kind, Kind::Run { .. });
        if variant.command.is_empty() {
            return self.measure(None, workload, workspace, companions, run);
        }
        let command = run.commands.variant.clone();
        // A variant that runs to its end is the load generator.
        let cores = if is_run { &workspace.cores.generator } else { &workspace.cores.servers };
        let launch = Launch {
            command: &command,
            cores: Cores::of(&variant.cores, cores),
            address: workspace.address(None),
            ready: (!is_run).then_some((&variant.ready, variant.ready_within)),
        };
        let mut program = Process::start(&launch, workspace, &companions.pids(), self.interrupt)?;
        let measured = match &workload.kind {
            Kind::Run { within, exit_codes, .. } => {
                let expected_end = ExpectedEnd { within: within.0, exit_codes };
                self.finish(&mut program, variant, workload, &expected_end, companions)
            }
            _ => self.measure(Some(&mut program), workload, workspace, companions, run),
        };
        run.notes.extend(program.stop(&companions.pids()));
        measured
    }

    /// Measures a program, or a server that runs already, whose CPU and memory are unknown.
    fn measure(
        &self,
        mut program: Option<&mut Process>,
        workload: &Workload,
        workspace: &Workspace,
        companions: &mut Companions,
        run: &mut Run,
    ) -> Result<Measured, StartError> {
        let companion_pids = companions.pids();
        let memory = Memory::read(&companion_pids);
        let idle_private_bytes = memory.last.exact_bytes;
        workload::check(workload, workspace).map_err(StartError::Failed)?;
        self.warm_up(program.as_deref_mut(), workload, workspace, companions)?;
        check_cache(workload, workspace, &companion_pids)?;
        let is_bench = matches!(workload.kind, Kind::Bench { .. });
        // A missing file is not an error.
        let _ = fs::remove_file(self.rows);
        let command = workload::command(workload, workspace, None, is_bench.then_some(self.rows));
        run.commands.workload.clone_from(&command);
        let generator =
            Generator::start(&command, workload, &workspace.cores.generator).map_err(StartError::Failed)?;
        let generator_pid = generator.pid();
        let mut meter = Meter::start(&companion_pids, Some(generator_pid));
        let mut generator_times = ThreadTimes::default();
        let mut sampler =
            Sampler::new([&companion_pids[..], &[generator_pid]].concat(), memory, &workload.kind);
        // The workload may end before the next one.
        sampler.poll();
        let mut stalling = Stalling::new(workload.stall, companion_pids.clone());
        let is_ours = program.is_some();
        let mut measurement = self.wait(generator, workload, program, companions, |has_started| {
            if has_started {
                // What the server has computed for handshakes is no part of its requests.
                meter = Meter::start(&companion_pids, Some(generator_pid));
            }
            if sampler.poll() {
                generator_times.poll([generator_pid]);
            }
            stalling.poll();
        })?;
        let usage = meter.stop();
        let run_delay = validity::server(&validity::threads(&generator_times));
        let run_delay = run_delay.and_then(|threads| threads.run_delay_share);
        measurement.generator_took(usage.reaped.total, usage.time, run_delay);
        let is_seen = is_ours && validity::concerns_server(&workload.kind);
        let server = is_seen.then(|| validity::server(&validity::threads(sampler.thread_times()))).flatten();
        let (stalled, cpu) = (stalling.lasted(), usage.variant);
        let (samples, unreadable) =
            if is_ours { sampler.samples(measurement.open.as_ref()) } else { (Vec::new(), None) };
        Ok(Measured {
            measurement,
            cpu,
            samples,
            unreadable,
            idle_private_bytes,
            shares: usage.shares,
            server,
            stalled,
        })
    }

    /// The results of a variant that runs to its end.
    fn finish(
        &self,
        program: &mut Process,
        variant: &plan::Variant,
        workload: &Workload,
        expected_end: &ExpectedEnd,
        companions: &mut Companions,
    ) -> Result<Measured, StartError> {
        let companion_pids = companions.pids();
        let meter = Meter::start(&companion_pids, None);
        let mut sampler = Sampler::new(companion_pids.clone(), Memory::default(), &workload.kind);
        // The server of a load generator. It lives longer, so two polls see all of its threads that live.
        let mut server_times = ThreadTimes::default();
        server_times.poll(pids_below(&companion_pids));
        let mut stalling = Stalling::new(workload.stall, companion_pids.clone());
        let finished = program.finish(expected_end, self.interrupt, || {
            sampler.poll();
            stalling.poll();
            companions.ended()
        })?;
        let stalled = stalling.lasted();
        let mut measurement = output_format::read(variant.output_format, &finished.stdout, &workload.kind)
            .map_err(|why| StartError::Failed(program.describe(&why)))?;
        if expected_end.exit_codes != [0] {
            measurement.metrics.insert("exit_code".to_owned(), f64::from(finished.exit_code));
        }
        let cpu = finished.cpu;
        let shares = meter.stop().shares;
        server_times.poll(pids_below(&companion_pids));
        let server = validity::server(&validity::threads(&server_times));
        if validity::is_other_generator(variant.output_format) {
            measurement.conditions.client_threads = validity::threads(sampler.thread_times());
        }
        let (samples, unreadable) = sampler.samples(None);
        Ok(Measured { measurement, cpu, samples, unreadable, idle_private_bytes: 0, shares, server, stalled })
    }

    /// Sends the warm-up, with a separate generator.
    fn warm_up(
        &self,
        program: Option<&mut Process>,
        workload: &Workload,
        workspace: &Workspace,
        companions: &mut Companions,
    ) -> Result<(), StartError> {
        if self.plan.warmup.0.is_zero() || !matches!(workload.kind, Kind::Bench { .. }) {
            return Ok(());
        }
        let command = workload::command(workload, workspace, Some(self.plan.warmup), None);
        let generator =
            Generator::start(&command, workload, &workspace.cores.generator).map_err(StartError::Failed)?;
        self.wait(generator, workload, program, companions, |_| {}).map(drop)
    }

    fn wait(
        &self,
        generator: Generator,
        workload: &Workload,
        mut program: Option<&mut Process>,
        companions: &mut Companions,
        mut poll: impl FnMut(bool),
    ) -> Result<Measurement, StartError> {
        let under = |status| format!("it ended ({status}) under the workload");
        let ended = generator.wait(workload, self.interrupt, |has_started| {
            poll(has_started);
            let status = program.as_deref_mut().and_then(Process::ended);
            status.map(under).or_else(|| companions.ended())
        });
        let ended = match (ended, program.as_deref_mut().and_then(Process::ended)) {
            (Ended::Report(_), Some(status)) => Ended::Failed(under(status)),
            (ended, _) => ended,
        };
        match ended {
            Ended::Report(measurement) => Ok(*measurement),
            Ended::Failed(why) => {
                Err(StartError::Failed(program.map_or(why.clone(), |program| program.describe(&why))))
            }
            Ended::Interrupted => Err(StartError::Interrupted),
        }
    }
}

/// Checks the response again, without the programs that a response could come from if it is not from a cache.
fn check_cache(workload: &Workload, workspace: &Workspace, companions: &[u32]) -> Result<(), StartError> {
    if !workload.expect.as_ref().is_some_and(|expect| expect.cached) {
        return Ok(());
    }
    let stall = Stall { after: Time(Duration::ZERO), time: Time(Duration::MAX) };
    let mut stalling = Stalling::new(Some(stall), companions.to_vec());
    stalling.poll();
    let is_not_cached =
        |why| StartError::Failed(format!("not from the cache, while its upstream was stopped: {why}"));
    workload::check(workload, workspace).map_err(is_not_cached)
}

/// These processes and all their living descendants.
fn pids_below(roots: &[u32]) -> impl Iterator<Item = u32> {
    process_tree::below(roots).into_iter().map(|member| member.pid)
}
