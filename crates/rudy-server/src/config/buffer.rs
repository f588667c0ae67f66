//! Where bodies wait that are larger than what stays in memory, as it is written.

use super::start::unusable_folder;
use super::{Config, Location, Problem};

impl Config {
    /// A folder that no body can be stored in. The default one is not checked: most configurations have no use for it.
    pub(crate) fn unusable_buffer_dir(&self) -> Option<Problem> {
        let dir = self.buffer.dir.as_deref()?;
        let why = unusable_folder(dir)?;
        let title = format!("cannot write to {}: {why}", dir.display());
        Some(
            Problem::value(&Location::file(0).key("buffer_dir"), title)
                .label("a folder that can be written to"),
        )
    }
}
