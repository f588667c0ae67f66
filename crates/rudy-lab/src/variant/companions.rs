//! Companion programs: start before a variant, stop after it, and are not measured.

use std::collections::BTreeMap;

use rudy_experiment::plan::{Plan, Variant};
use rudy_request::Interrupt;

use super::{Cores, Launch, Process, StartError, Workspace};

/// The running companion programs of a variant.
#[derive(Debug, Default)]
pub(crate) struct Companions<'a> {
    programs: Vec<(&'a str, Process)>,
}

impl<'a> Companions<'a> {
    /// Starts each program, and waits until it is ready, before the next.
    pub(crate) fn start(
        plan: &'a Plan,
        variant: &'a Variant,
        workspace: &Workspace,
        interrupt: &Interrupt,
    ) -> Result<Self, StartError> {
        let mut companions = Self::default();
        for name in &variant.companions {
            // The plan parser has checked that each name exists.
            for companion in plan.companions.iter().filter(|companion| companion.name == *name) {
                let filled = workspace.command(
                    &companion.command,
                    companion.config.as_deref(),
                    Some(name),
                    &companions.by_name(),
                );
                let started = filled
                    .map_err(|error| StartError::cannot("write its configuration", &error))
                    .and_then(|command| {
                        let launch = Launch {
                            command: &command,
                            cores: Cores::of(&companion.cores, &workspace.cores.servers),
                            address: workspace.address(Some(name)),
                            ready: Some((&companion.ready, companion.ready_within)),
                        };
                        Process::start(&launch, workspace, &companions.pids(), interrupt)
                    });
                match started {
                    Ok(program) => companions.programs.push((name, program)),
                    Err(error) => return Err(error.of(name).with(&companions.stop())),
                }
            }
        }
        Ok(companions)
    }

    /// The first process of each program.
    pub(crate) fn pids(&self) -> Vec<u32> {
        self.programs.iter().map(|(_, program)| program.pid()).collect()
    }

    /// The first process of each program, by the program's name.
    pub(crate) fn by_name(&self) -> BTreeMap<&'a str, u32> {
        self.programs.iter().map(|(name, program)| (*name, program.pid())).collect()
    }

    /// A message if one has ended.
    pub(crate) fn ended(&mut self) -> Option<String> {
        self.programs.iter_mut().find_map(|(name, program)| {
            let status = program.ended()?;
            Some(program.describe(&format!("{name}, a companion program, ended ({status})")))
        })
    }

    /// Stops all of them in reverse order. Returns a message about problems.
    pub(crate) fn stop(mut self) -> Vec<String> {
        let mut notes = Vec::new();
        while let Some((name, program)) = self.programs.pop() {
            let of = |note| format!("of the companion program {name}: {note}");
            notes.extend(program.stop(&self.pids()).into_iter().map(of));
        }
        notes
    }
}
