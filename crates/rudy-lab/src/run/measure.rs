//! Runs a subject under its load and collects the results of both.

use std::fs;
use std::time::Duration;

use super::meter::Meter;
use super::single::{Bench, Measured};
use crate::load::{self, Ended, Generator, Seen, says};
use crate::plan::{self, Kind, Load};
use crate::record::Run;
use crate::sample::{self, Sampler};
use crate::subject::{Company, Process, Scene, Stalling, StartError, Wanted};

impl Bench<'_> {
    /// From the start of the first program to the end of the last.
    pub(super) fn stage(
        &self,
        subject: &plan::Subject,
        load: &Load,
        run: &mut Run,
    ) -> Result<Measured, StartError> {
        run.commands.subject.clone_from(&subject.command);
        let scene = Scene::new(subject, load, self.folders)
            .map_err(|error| StartError::cannot("make a folder for it, or find a free port", &error))?;
        run.commands.subject = scene
            .command(&subject.command, subject.config.as_deref(), None)
            .map_err(|error| StartError::cannot("write its configuration", &error))?;
        let mut company = Company::start(self.plan, subject, &scene, self.interrupt)?;
        let measured = self.subject(subject, load, &scene, &mut company, run);
        run.notes.extend(company.stop());
        let mut measured = measured?;
        #[expect(clippy::cast_precision_loss, reason = "a count of processes")]
        measured.seen.figures.extend(scene.starts().map(|count| ("starts".to_owned(), count as f64)));
        Ok(measured)
    }

    fn subject(
        &self,
        subject: &plan::Subject,
        load: &Load,
        scene: &Scene,
        company: &mut Company,
        run: &mut Run,
    ) -> Result<Measured, StartError> {
        let is_run = matches!(load.kind, Kind::Run { .. });
        let command = run.commands.subject.clone();
        let wanted = Wanted {
            command: &command,
            cores: &subject.cores,
            address: scene.address(None),
            ready: (!is_run).then_some((&subject.ready, subject.ready_within)),
        };
        let mut program = Process::start(&wanted, scene, &company.pids(), self.interrupt)?;
        let measured = match load.kind {
            Kind::Run { within, .. } => self.finish(&mut program, subject, load, within.0, company),
            _ => self.measure(&mut program, load, company, run),
        };
        run.notes.extend(program.stop(&company.pids()));
        measured
    }

    fn measure(
        &self,
        program: &mut Process,
        load: &Load,
        company: &mut Company,
        run: &mut Run,
    ) -> Result<Measured, StartError> {
        let beside = company.pids();
        let idle_private_bytes = sample::private_bytes(&beside);
        self.warm_up(program, load, company)?;
        let is_bench = matches!(load.kind, Kind::Bench { .. });
        // A missing file is not an error.
        let _ = fs::remove_file(self.rows);
        let command = load::command(load, program.address, None, is_bench.then_some(self.rows));
        run.commands.load.clone_from(&command);
        let meter = Meter::start(&beside);
        let generator = Generator::start(&command, load).map_err(StartError::Failed)?;
        let mut sampler = Sampler::new([&beside[..], &[generator.pid()]].concat());
        let mut stalling = Stalling::new(load.stall, beside.clone());
        let mut seen = self.wait(generator, load, program, company, || {
            sampler.look();
            stalling.look();
        })?;
        let spent = meter.stop();
        seen.generator_took(spent.waited.total(), spent.time);
        let (stalled, samples, cpu) = (stalling.lasted(), sampler.samples(), spent.subject);
        Ok(Measured { seen, cpu, samples, idle_private_bytes, shares: spent.shares, stalled })
    }

    /// The results of a subject that runs to its end.
    fn finish(
        &self,
        program: &mut Process,
        subject: &plan::Subject,
        load: &Load,
        within: Duration,
        company: &mut Company,
    ) -> Result<Measured, StartError> {
        let beside = company.pids();
        let meter = Meter::start(&beside);
        let mut sampler = Sampler::new(beside.clone());
        let mut stalling = Stalling::new(load.stall, beside.clone());
        let (printed, cpu) = program.finish(within, self.interrupt, || {
            sampler.look();
            stalling.look();
            company.ended()
        })?;
        let stalled = stalling.lasted();
        let seen = says::read(subject.says, &printed, &load.kind)
            .map_err(|why| StartError::Failed(program.tell(&why)))?;
        let shares = meter.stop().shares;
        Ok(Measured { seen, cpu, samples: sampler.samples(), idle_private_bytes: 0, shares, stalled })
    }

    /// Sends the warm-up, with a separate generator.
    fn warm_up(&self, program: &mut Process, load: &Load, company: &mut Company) -> Result<(), StartError> {
        if self.plan.warmup.0.is_zero() || !matches!(load.kind, Kind::Bench { .. }) {
            return Ok(());
        }
        let command = load::command(load, program.address, Some(self.plan.warmup), None);
        let generator = Generator::start(&command, load).map_err(StartError::Failed)?;
        self.wait(generator, load, program, company, || {}).map(drop)
    }

    fn wait(
        &self,
        generator: Generator,
        load: &Load,
        program: &mut Process,
        company: &mut Company,
        mut look: impl FnMut(),
    ) -> Result<Seen, StartError> {
        let under = |status| format!("it ended ({status}) under the load");
        let ended = generator.wait(load, self.interrupt, || {
            look();
            program.ended().map(under).or_else(|| company.ended())
        });
        match ended {
            Ended::Report(seen) => match program.ended() {
                None => Ok(seen),
                Some(status) => Err(StartError::Failed(program.tell(&under(status)))),
            },
            Ended::Failed(why) => Err(StartError::Failed(program.tell(&why))),
            Ended::Interrupted => Err(StartError::Interrupted),
        }
    }
}
