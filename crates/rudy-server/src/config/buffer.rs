//! Checks of the folder for buffered bodies.

use rudy_config::{Location, Problem};

use super::Config;
use super::start::unusable_folder;

impl Config {
    /// Reports a `buffer_dir` that is not writable. The default folder is not checked, because most configurations do not need it.
    pub(crate) fn unusable_buffer_dir(&self) -> Option<Problem> {
        let dir = self.buffer.dir.as_deref()?;
        let why = unusable_folder(dir)?;
        let title = format!("cannot write to {}: {why}", dir.display());
        Some(Problem::value(&Location::file(0).key("buffer_dir"), title).label("expected a writable folder"))
    }
}
