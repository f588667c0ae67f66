//! The thread dumps of an update.

use rudy_observe::{Difference, Error, Process, Processes};

use crate::jvm::{Dumps, JavaThread, Samples, Tool};
use crate::watch::{Stop, say};

/// Where the dumps come from, and those since the last update.
pub(super) struct Java {
    /// `None` for a file.
    tool: Option<Tool>,
    pub(super) samples: Samples,
    /// Whether the process is in a container, where its threads have other ids.
    is_namespaced: bool,
}

impl Java {
    /// Announces on stderr if it is going to attach.
    pub(super) fn new(dumps: &Dumps, process: &mut Process) -> Result<Self, Stop> {
        let pid = process.pid();
        let is_namespaced = process.inner_id(pid)?.is_some_and(|inner| inner != pid);
        if let Dumps::File(path) = dumps {
            let unreadable = |error| Stop::Dump(format!("cannot read {}: {error}", path.display()));
            let samples = Samples::read(path).map_err(unreadable)?;
            return Ok(Self { tool: None, samples, is_namespaced });
        }
        let tool = Tool::find(process).map_err(|error| Stop::Dump(error.to_string()))?;
        let notice = format!(
            "--jvm attaches to the JVM {pid} through {} and takes ten thread dumps per update; each stops its threads for a \
             moment. Everything else only reads",
            tool.program().display()
        );
        say("notice", &notice);
        Ok(Self { tool: Some(tool), samples: Samples::default(), is_namespaced })
    }

    /// Whether it asks the JVM.
    pub(super) fn attaches(&self) -> bool {
        self.tool.is_some()
    }

    /// Starts the dumps of the next update.
    pub(super) fn begin(&mut self) {
        if self.attaches() {
            self.samples = Samples::default();
        }
    }

    /// Takes a dump. If the first one fails, the others would too, so it is the end.
    pub(super) fn take(&mut self) -> Result<(), Stop> {
        let Some(tool) = &self.tool else { return Ok(()) };
        match self.samples.take(tool) {
            Err(error) if self.samples.dumps == 0 => Err(Stop::Dump(error.to_string())),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Gives each thread the full name that the JVM has for it.
    pub(super) fn name(&self, processes: &mut Processes, difference: &mut Difference) -> Result<(), Error> {
        for thread in &mut difference.threads {
            if let Some(java) = self.thread(processes, thread.tid)? {
                thread.name.clone_from(&java.name);
            }
        }
        Ok(())
    }

    /// A thread in the dumps, by its id outside of its container.
    pub(super) fn thread(&self, processes: &mut Processes, tid: u32) -> Result<Option<&JavaThread>, Error> {
        let nid = if self.is_namespaced { processes.inner_id(tid)?.unwrap_or(tid) } else { tid };
        Ok(self.samples.thread(nid))
    }
}
