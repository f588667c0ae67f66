//! Parses programs that a plan includes as source.

use std::path::PathBuf;

use serde::Deserialize;
use toml::Spanned;

use super::Reader;
use crate::plan::Program;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ProgramTable {
    pub(super) name: Spanned<String>,
    source: Spanned<PathBuf>,
    build: Vec<String>,
}

impl Reader<'_> {
    pub(super) fn program(&self, table: ProgramTable) -> Result<Program, String> {
        if table.build.is_empty() {
            return Err(
                self.at(&table.name, "`build` is empty: expected a command with {source} and {target}")
            );
        }
        if !table.name.get_ref().chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c)) {
            return Err(self.at(&table.name, "the name of a program may contain letters, digits, - and _"));
        }
        let source = self.read(&table.source)?;
        let file = table.source.get_ref().file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Program { name: table.name.into_inner(), file, source, build: table.build })
    }
}
