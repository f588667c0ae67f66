//! Parses comparisons.

use std::collections::HashSet;

use serde::Deserialize;
use toml::Spanned;

use super::{FIGURES, Reader};
use crate::plan::{Comparison, Load, Subject};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CompareTable {
    subject: Spanned<String>,
    with: Spanned<String>,
    loads: Option<Vec<Spanned<String>>>,
    figures: Option<Vec<Spanned<String>>>,
}

impl Reader<'_> {
    /// All comparisons, without duplicates, because each one counts in the correction of the verdicts.
    pub(super) fn comparisons(
        &self,
        tables: Vec<CompareTable>,
        subjects: &[Subject],
        loads: &[Load],
    ) -> Result<Vec<Comparison>, String> {
        let mut asked = HashSet::new();
        let mut comparisons = Vec::with_capacity(tables.len());
        for table in tables {
            let first = table.subject.clone();
            let comparison = self.comparison(table, subjects, loads)?;
            let Comparison { subject, with, loads, figures } = &comparison;
            let mut pair = [subject.clone(), with.clone()];
            // A with B is the same comparison as B with A.
            pair.sort();
            for (load, figure) in
                loads.iter().flat_map(|load| figures.iter().map(move |figure| (load, figure)))
            {
                if !asked.insert((pair.clone(), load.clone(), figure.clone())) {
                    let why =
                        format!("{subject:?} and {with:?} are already compared in {figure} under {load:?}");
                    return Err(self.at(&first, &why));
                }
            }
            comparisons.push(comparison);
        }
        Ok(comparisons)
    }

    fn comparison(
        &self,
        table: CompareTable,
        subjects: &[Subject],
        loads: &[Load],
    ) -> Result<Comparison, String> {
        for name in [&table.subject, &table.with] {
            if !subjects.iter().any(|subject| subject.name == *name.get_ref()) {
                return Err(self.at(name, &format!("unknown subject {:?}", name.get_ref())));
            }
        }
        if table.subject == table.with {
            return Err(self.at(&table.with, "to compare a subject with itself, set its `control = true`"));
        }
        for (key, names) in [("loads", &table.loads), ("figures", &table.figures)] {
            if names.as_ref().is_some_and(Vec::is_empty) {
                let why = format!("`{key}` is empty: give at least one, or remove `{key}` for the default");
                return Err(self.at(&table.subject, &why));
            }
        }
        let loads = match table.loads {
            None => loads.iter().map(|load| load.name.clone()).collect(),
            Some(names) => self.known("load", names, |name| loads.iter().any(|load| load.name == name))?,
        };
        let figures = match table.figures {
            None => vec!["cpu_us_per_request".to_owned(), "p99_ns".to_owned()],
            Some(names) => self.known("figure", names, |name| FIGURES.contains(&name))?,
        };
        Ok(Comparison { subject: table.subject.into_inner(), with: table.with.into_inner(), loads, figures })
    }
}
