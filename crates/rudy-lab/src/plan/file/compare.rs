//! Parses comparisons.

use std::collections::HashSet;

use serde::Deserialize;
use toml::Spanned;

use super::{METRICS, Reader};
use crate::plan::{Comparison, Variant, Workload};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CompareTable {
    variant: Spanned<String>,
    with: Spanned<String>,
    workloads: Option<Vec<Spanned<String>>>,
    metrics: Option<Vec<Spanned<String>>>,
}

impl Reader<'_> {
    /// All comparisons, without duplicates, because each one counts in the correction of the verdicts.
    pub(super) fn comparisons(
        &self,
        tables: Vec<CompareTable>,
        variants: &[Variant],
        workloads: &[Workload],
    ) -> Result<Vec<Comparison>, String> {
        let mut asked = HashSet::new();
        let mut comparisons = Vec::with_capacity(tables.len());
        for table in tables {
            let first = table.variant.clone();
            let comparison = self.comparison(table, variants, workloads)?;
            let Comparison { variant, with, workloads, metrics } = &comparison;
            let mut pair = [variant.clone(), with.clone()];
            // A with B is the same comparison as B with A.
            pair.sort();
            for (workload, metric) in
                workloads.iter().flat_map(|workload| metrics.iter().map(move |metric| (workload, metric)))
            {
                if !asked.insert((pair.clone(), workload.clone(), metric.clone())) {
                    let why = format!(
                        "{variant:?} and {with:?} are already compared in {metric} under {workload:?}"
                    );
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
        variants: &[Variant],
        workloads: &[Workload],
    ) -> Result<Comparison, String> {
        for name in [&table.variant, &table.with] {
            if !variants.iter().any(|variant| variant.name == *name.get_ref()) {
                return Err(self.at(name, &format!("unknown variant {:?}", name.get_ref())));
            }
        }
        if table.variant == table.with {
            return Err(self.at(&table.with, "to compare a variant with itself, set its `control = true`"));
        }
        for (key, names) in [("workloads", &table.workloads), ("metrics", &table.metrics)] {
            if names.as_ref().is_some_and(Vec::is_empty) {
                let why = format!("`{key}` is empty: give at least one, or remove `{key}` for the default");
                return Err(self.at(&table.variant, &why));
            }
        }
        let workloads = match table.workloads {
            None => workloads.iter().map(|workload| workload.name.clone()).collect(),
            Some(names) => {
                self.known("workload", names, |name| workloads.iter().any(|workload| workload.name == name))?
            }
        };
        let metrics = match table.metrics {
            None => vec!["cpu_us_per_request".to_owned(), "p99_ns".to_owned()],
            Some(names) => self.known("metric", names, |name| METRICS.contains(&name))?,
        };
        Ok(Comparison {
            variant: table.variant.into_inner(),
            with: table.with.into_inner(),
            workloads,
            metrics,
        })
    }
}
