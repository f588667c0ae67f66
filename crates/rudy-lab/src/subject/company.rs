//! The programs that a subject has beside it: started before it, ended after it, and not measured.

use rudy_load::Interrupt;

use super::{Process, Scene, StartError, Wanted};
use crate::plan::{Plan, Subject};

/// Those of one subject, as they were started.
#[derive(Debug, Default)]
pub(crate) struct Company<'a> {
    programs: Vec<(&'a str, Process)>,
}

impl<'a> Company<'a> {
    /// Starts each, and waits until it serves, before the next.
    pub(crate) fn start(
        plan: &'a Plan,
        subject: &'a Subject,
        scene: &Scene,
        interrupt: &Interrupt,
    ) -> Result<Self, StartError> {
        let mut company = Self::default();
        for name in &subject.beside {
            // That there is one of each name was checked when the plan was read.
            for beside in plan.beside.iter().filter(|beside| beside.name == *name) {
                let filled = scene.command(&beside.command, beside.config.as_deref(), Some(name));
                let started = filled
                    .map_err(|error| StartError::cannot("write its configuration", &error))
                    .and_then(|command| {
                        let wanted = Wanted {
                            command: &command,
                            cores: &beside.cores,
                            address: scene.address(Some(name)),
                            ready: Some((&beside.ready, beside.ready_within)),
                        };
                        Process::start(&wanted, scene, &company.pids(), interrupt)
                    });
                match started {
                    Ok(program) => company.programs.push((name, program)),
                    Err(error) => return Err(error.of(name).with(&company.stop())),
                }
            }
        }
        Ok(company)
    }

    /// The first process of each.
    pub(crate) fn pids(&self) -> Vec<u32> {
        self.programs.iter().map(|(_, program)| program.pid()).collect()
    }

    /// What there is to say where one has ended.
    pub(crate) fn ended(&mut self) -> Option<String> {
        self.programs.iter_mut().find_map(|(name, program)| {
            let status = program.ended()?;
            Some(program.tell(&format!("{name}, which is beside it, ended ({status})")))
        })
    }

    /// Ends all of them, the last first. What there is to say of that is the answer.
    pub(crate) fn stop(mut self) -> Vec<String> {
        let mut notes = Vec::new();
        while let Some((name, program)) = self.programs.pop() {
            let of = |note| format!("of {name}, which is beside it: {note}");
            notes.extend(program.stop(&self.pids()).into_iter().map(of));
        }
        notes
    }
}
