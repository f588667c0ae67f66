//! Parses variants.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use rudy_units::Time;
use serde::Deserialize;
use toml::Spanned;

use super::Reader;
use super::workload::WorkloadTable;
use crate::plan::{Companion, Curve, OutputFormat, Ready, Variant, Workload, builtin};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct VariantTable {
    pub(super) name: Spanned<String>,
    #[serde(default)]
    command: Vec<String>,
    url: Option<String>,
    workloads: Option<Vec<Spanned<String>>>,
    rounds: Option<usize>,
    config: Option<Spanned<PathBuf>>,
    config_text: Option<String>,
    ready: Option<ReadyTable>,
    #[serde(default)]
    cores: Vec<usize>,
    #[serde(default)]
    control: bool,
    #[serde(default)]
    optional: bool,
    #[serde(default)]
    needs: Vec<String>,
    install: Option<String>,
    #[serde(default)]
    placeholders: BTreeMap<String, String>,
    #[serde(default)]
    companions: Vec<Spanned<String>>,
    output_format: Option<OutputFormat>,
    curve: Option<Curve>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CompanionTable {
    pub(super) name: Spanned<String>,
    command: Vec<String>,
    config: Option<Spanned<PathBuf>>,
    config_text: Option<String>,
    ready: Option<ReadyTable>,
    #[serde(default)]
    cores: Vec<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReadyTable {
    tcp: Option<bool>,
    http: Option<String>,
    line: Option<String>,
    timeout: Option<Time>,
}

/// The placeholders of every plan.
const PLACEHOLDERS: [&str; 10] =
    ["rudy", "programs", "port", "tls-port", "folder", "built", "temp", "config", "cores", "n"];

/// Default timeout for a variant to become ready.
const READY_WITHIN: Time = Time(Duration::from_secs(10));

impl VariantTable {
    fn has(&self, word: &str) -> bool {
        has(&self.command, word)
    }
}

/// Whether it is a valid placeholder name.
fn is_plain(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

fn has(command: &[String], word: &str) -> bool {
    command.iter().any(|part| part.contains(word))
}

impl Reader<'_> {
    pub(super) fn variant(
        &self,
        table: VariantTable,
        companions: &[Companion],
        workloads: &[Workload],
    ) -> Result<Variant, String> {
        self.check_url(&table)?;
        let config = self.configuration(&table.name, &table.command, table.config, table.config_text)?;
        if let Some(word) =
            table.placeholders.keys().find(|word| !is_plain(word) || PLACEHOLDERS.contains(&word.as_str()))
        {
            let why = format!(
                "{word:?} is not a valid placeholder: expected letters, digits and hyphens, and none of {}",
                PLACEHOLDERS.join(", ")
            );
            return Err(self.at(&table.name, &why));
        }
        let is_there = |name: &str| companions.iter().any(|companion| companion.name == name);
        let companions = self.known("[[companion]]", table.companions, is_there)?;
        let is_workload = |name: &str| workloads.iter().any(|workload| workload.name == name);
        let workloads =
            table.workloads.map(|names| self.known("workload", names, is_workload)).transpose()?;
        let (ready, within) = self.ready(&table.name, table.ready)?;
        Ok(Variant {
            name: table.name.into_inner(),
            command: table.command,
            config,
            ready,
            ready_within: within,
            cores: table.cores,
            url: table.url,
            workloads,
            rounds: table.rounds,
            is_control: table.control,
            is_optional: table.optional,
            needs: table.needs,
            install: table.install,
            placeholders: table.placeholders,
            companions,
            output_format: table.output_format.unwrap_or_default(),
            curve: table.curve,
        })
    }

    /// A variant has a command, unless its server runs already.
    fn check_url(&self, table: &VariantTable) -> Result<(), String> {
        if table.command.is_empty() && table.url.is_none() {
            return Err(
                self.at(&table.name, "`command` is empty: expected a program and its arguments, or a `url`")
            );
        }
        let is_running = table.command.is_empty();
        if is_running && (table.config.is_some() || table.config_text.is_some() || table.ready.is_some()) {
            return Err(self.at(&table.name, "a server that runs already has no `config` and no `ready`"));
        }
        if table.url.as_ref().is_some_and(|url| !url.contains("://")) {
            return Err(self.at(&table.name, "`url` must be a URL, as in \"http://127.0.0.1:{port}\""));
        }
        if table.rounds == Some(0) {
            return Err(self.at(&table.name, "`rounds` must be at least 1"));
        }
        Ok(())
    }

    pub(super) fn companion(&self, table: CompanionTable) -> Result<Companion, String> {
        if !is_plain(table.name.get_ref()) {
            return Err(self.at(
                &table.name,
                "its name may only contain letters, digits and hyphens, because {NAME.port} is its port",
            ));
        }
        if table.command.is_empty() {
            return Err(self.at(&table.name, "`command` is empty: expected a program and its arguments"));
        }
        let config = self.configuration(&table.name, &table.command, table.config, table.config_text)?;
        let (ready, ready_within) = self.ready(&table.name, table.ready)?;
        let (name, command, cores) = (table.name.into_inner(), table.command, table.cores);
        Ok(Companion { name, command, config, ready, ready_within, cores })
    }

    /// Parses a command and its configuration.
    fn configuration(
        &self,
        name: &Spanned<String>,
        command: &[String],
        config: Option<Spanned<PathBuf>>,
        text: Option<String>,
    ) -> Result<Option<String>, String> {
        if config.is_none() && text.is_none() && has(command, "{config}") {
            return Err(self.at(name, "its command has {config}, but there is no `config`"));
        }
        match (config, text) {
            (None, text) => Ok(text),
            (Some(path), None) => self.read(&path).map(Some),
            (Some(path), Some(_)) => Err(self.at(&path, "`config` and `config_text` exclude each other")),
        }
    }

    /// A variant either serves or runs to its end, and all variants of a plan must do the same.
    pub(super) fn check_together(
        &self,
        variants: &[VariantTable],
        workloads: &[WorkloadTable],
    ) -> Result<(), String> {
        if let Some(workload) = workloads.iter().find(|workload| workload.stall.is_some())
            && let Some(variant) = variants.iter().find(|variant| variant.companions.is_empty())
        {
            let (workload, why) =
                (workload.name.get_ref(), "needs `companions` of the variant, which has none");
            return Err(self.at(&variant.name, &format!("the stall of {workload:?} {why}")));
        }
        if let Some(workload) = workloads.iter().find(|workload| workload.is_cached())
            && variants.iter().all(|variant| variant.companions.is_empty())
        {
            let why = "`expect`: `cached` needs variants with `companions`, which are stopped for the check";
            return Err(self.at(&workload.name, why));
        }
        let runs = workloads.iter().filter(|workload| workload.is_run()).count();
        if runs == 0 {
            if let Some(variant) = variants.iter().find(|variant| variant.output_format.is_some()) {
                return Err(self.at(&variant.name, "`output_format` needs a workload of the kind \"run\""));
            }
            let odd = variants.iter().find(|variant| variant.has("{n}"));
            return odd.map_or(Ok(()), |variant| {
                Err(self.at(
                    &variant.name,
                    "its command has {n}, which needs a workload of the kind \"run\" with an `n`",
                ))
            });
        }
        if let Some(workload) = workloads.iter().find(|workload| !workload.is_run()) {
            let why = "a workload of the kind \"run\" runs variants to their end, which this one does not: use separate plans";
            return Err(self.at(&workload.name, why));
        }
        for variant in variants {
            if variant.ready.is_some() || variant.url.is_some() {
                return Err(
                    self.at(&variant.name, "a variant that runs to its end has no `ready` and no `url`")
                );
            }
            if let Some(workload) = workloads.iter().find(|workload| workload.has_n() != variant.has("{n}")) {
                let [with, without] =
                    if workload.has_n() { ["workload", "variant"] } else { ["variant", "workload"] };
                let why = format!(
                    "{{n}} in the command needs `n` in the workload: this {without} has none, but a {with} has one"
                );
                let name = if workload.has_n() { &variant.name } else { &workload.name };
                return Err(self.at(name, &why));
            }
        }
        Ok(())
    }

    fn ready(&self, name: &Spanned<String>, table: Option<ReadyTable>) -> Result<(Ready, Time), String> {
        let Some(table) = table else { return Ok((Ready::Tcp, READY_WITHIN)) };
        let ready = match (table.tcp, table.http, table.line) {
            (None | Some(true), None, None) => Ready::Tcp,
            (None, Some(path), None) if path.starts_with('/') => Ready::Http(path),
            (None, None, Some(line)) if !line.is_empty() => Ready::Line(line),
            _ => {
                let expected = "`ready` must be one of tcp = true, http = \"/PATH\" and line = \"TEXT\"";
                return Err(self.at(name, expected));
            }
        };
        Ok((ready, table.timeout.unwrap_or(READY_WITHIN)))
    }

    /// The text of a configuration: a file next to the plan, or a built-in one.
    pub(super) fn read(&self, path: &Spanned<PathBuf>) -> Result<String, String> {
        let wanted = path.get_ref();
        let companions = self.folder.map(|folder| folder.join(wanted));
        match companions.map(fs::read_to_string) {
            Some(Ok(text)) => Ok(text),
            other => builtin::peer(wanted).map(str::to_owned).ok_or_else(|| {
                let why =
                    other.and_then(Result::err).map_or("not a built-in file".to_owned(), |e| e.to_string());
                self.at(path, &format!("cannot read {}: {why}", wanted.display()))
            }),
        }
    }
}
