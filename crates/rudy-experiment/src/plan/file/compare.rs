//! Parses comparisons.

use std::collections::HashSet;

use serde::Deserialize;
use toml::Spanned;

use super::Reader;
use crate::metric::is_comparable;
use crate::plan::{Comparison, Kind, Variant, Workload};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CompareTable {
    variant: Spanned<String>,
    with: Spanned<String>,
    workloads: Option<Vec<Spanned<String>>>,
    metrics: Option<Vec<Spanned<String>>>,
}

/// The metrics in which variants are compared by default. The latency of a closed loop is none of them: it sends less
/// while it waits, so it misses the slow responses.
#[must_use]
pub fn usual_metrics(kind: &Kind) -> Vec<String> {
    let metrics: &[&str] = match kind {
        Kind::Bench { rate: None, .. } => &["cpu_us_per_request"],
        Kind::Bench { rate: Some(_), .. } => &["cpu_us_per_request", "p99_ns"],
        Kind::Burst { .. } | Kind::Sequence { .. } | Kind::Run { .. } => &["time_s"],
        Kind::MaxRate { .. } => &["max_rate_per_s"],
        Kind::Idle { .. } | Kind::Flood { .. } => &["private_bytes", "private_bytes_per_connection"],
    };
    metrics.iter().map(|metric| (*metric).to_owned()).collect()
}

impl Reader<'_> {
    /// All comparisons, without duplicates, because each one counts in the correction of the verdicts.
    pub(super) fn comparisons(
        &self,
        tables: Vec<CompareTable>,
        variants: &[Variant],
        workloads: &[Workload],
    ) -> Result<Vec<Comparison>, String> {
        let mut known = HashSet::new();
        let mut comparisons = Vec::with_capacity(tables.len());
        for table in tables {
            let first = table.variant.clone();
            for comparison in self.comparison(table, variants, workloads)? {
                let Comparison { variant, with, workloads, metrics } = &comparison;
                let mut pair = [variant.clone(), with.clone()];
                // A with B is the same comparison as B with A.
                pair.sort();
                for (workload, metric) in
                    workloads.iter().flat_map(|workload| metrics.iter().map(move |metric| (workload, metric)))
                {
                    if !known.insert((pair.clone(), workload.clone(), metric.clone())) {
                        let why = format!(
                            "{variant:?} and {with:?} are already compared in {metric} under {workload:?}"
                        );
                        return Err(self.at(&first, &why));
                    }
                }
                comparisons.push(comparison);
            }
        }
        Ok(comparisons)
    }

    fn comparison(
        &self,
        table: CompareTable,
        variants: &[Variant],
        workloads: &[Workload],
    ) -> Result<Vec<Comparison>, String> {
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
        let run_with = |name: &str| {
            let of = |name: &Spanned<String>| variants.iter().find(|variant| variant.name == *name.get_ref());
            let runs = |variant: &Variant| {
                variant.workloads.as_ref().is_none_or(|names| names.iter().any(|own| own == name))
            };
            [&table.variant, &table.with].into_iter().filter_map(of).all(runs)
        };
        let workloads: Vec<&Workload> = match &table.workloads {
            None => workloads.iter().filter(|workload| run_with(&workload.name)).collect(),
            Some(names) => {
                let is_known = |name: &str| workloads.iter().any(|workload| workload.name == name);
                let names = self.known("workload", names.clone(), is_known)?;
                if let Some(name) = names.iter().find(|name| !run_with(name)) {
                    let why =
                        format!("one of the two does not run with {name:?}, which its `workloads` leave out");
                    return Err(self.at(&table.variant, &why));
                }
                workloads.iter().filter(|workload| names.contains(&workload.name)).collect()
            }
        };
        let metrics = table.metrics.map(|names| self.known("metric", names, is_comparable));
        let metrics = metrics.transpose()?;
        let mut comparisons: Vec<Comparison> = Vec::new();
        for workload in workloads {
            let metrics = metrics.clone().unwrap_or_else(|| usual_metrics(&workload.kind));
            // Workloads with the same metrics are one comparison.
            match comparisons.iter_mut().find(|comparison| comparison.metrics == metrics) {
                Some(comparison) => comparison.workloads.push(workload.name.clone()),
                None => comparisons.push(Comparison {
                    variant: table.variant.get_ref().clone(),
                    with: table.with.get_ref().clone(),
                    workloads: vec![workload.name.clone()],
                    metrics,
                }),
            }
        }
        Ok(comparisons)
    }
}
