//! Determines the requirements of a plan's variants. Only these are checked and built.

use std::ffi::OsStr;
use std::iter;
use std::path::Path;

use super::{Companion, Plan, Program, Variant};
use crate::programs;

impl Plan {
    /// The plan without the variants whose requirements are missing.
    #[must_use]
    pub fn installed(&self) -> Self {
        let mut plan = self.clone();
        plan.variants.retain(|variant| self.missing(variant).is_none());
        plan
    }

    /// Whether a variant of the plan uses this program.
    #[must_use]
    pub fn uses(&self, program: &Program) -> bool {
        self.variants.iter().any(|variant| self.runs(variant, program))
    }

    /// Whether a variant uses this program: whether its command or configuration, or that of a companion,
    /// contains its placeholder.
    #[must_use]
    pub fn runs(&self, variant: &Variant, program: &Program) -> bool {
        let own = iter::once((&variant.command, &variant.config));
        let companions = self.companions_of(variant).map(|companion| (&companion.command, &companion.config));
        own.chain(companions)
            .flat_map(|(command, config)| command.iter().chain(config))
            .any(|text| program.is_in(&variant.with_own_placeholders(text)))
    }

    /// The companion programs of a variant.
    pub fn companions_of<'a>(&'a self, variant: &'a Variant) -> impl Iterator<Item = &'a Companion> {
        self.companions.iter().filter(move |companion| variant.companions.contains(&companion.name))
    }

    /// All commands of a variant, its own first.
    pub fn commands<'a>(&'a self, variant: &'a Variant) -> impl Iterator<Item = &'a [String]> {
        let companions = self.companions_of(variant).map(|companion| companion.command.as_slice());
        iter::once(variant.command.as_slice()).chain(companions)
    }

    /// A message if a requirement of a variant is missing.
    pub fn missing(&self, variant: &Variant) -> Option<String> {
        // Requirements of other variants are checked at their start: their runs fail, and the others continue.
        let started = self.commands(variant).filter_map(<[String]>::first).filter(|_| variant.is_optional);
        let builders = self.programs.iter().filter(|program| self.runs(variant, program));
        let builders = builders.map(|program| &program.build[0]);
        started.chain(builders).chain(&variant.needs).find_map(|name| {
            let own = name.strip_prefix("{programs}/");
            let path = own.map_or_else(
                || name.clone(),
                |own| programs::folder().join(own).to_string_lossy().into_owned(),
            );
            let why = own.map_or_else(
                || "is not installed".to_owned(),
                |own| format!("does not exist; build it with `{}`", build(own, &programs::folder())),
            );
            let install = variant.install.as_ref().map(|command| format!("; install it with `{command}`"));
            (!programs::is_installed(&path)).then(|| format!("{path} {why}{}", install.unwrap_or_default()))
        })
    }
}

/// The command that builds a package of this repository into the folder of this program, whose name is that of Cargo's
/// profile, except that `dev` builds into `debug`.
fn build(package: &str, folder: &Path) -> String {
    match folder.file_name().and_then(OsStr::to_str) {
        Some("debug") => format!("cargo build -p {package}"),
        Some(profile) if folder.parent().is_some_and(|target| target.join("CACHEDIR.TAG").exists()) => {
            format!("cargo build --profile {profile} -p {package}")
        }
        // Installed: the program must be next to it.
        _ => format!("cargo build --release -p {package}"),
    }
}

impl Variant {
    fn with_own_placeholders(&self, text: &str) -> String {
        let put =
            |text: String, (word, value): (&String, &String)| text.replace(&format!("{{{word}}}"), value);
        self.placeholders.iter().fold(text.to_owned(), put)
    }
}

impl Program {
    /// Whether a text contains the name, and not only a longer one.
    fn is_in(&self, text: &str) -> bool {
        let goes_on = |rest: &str| rest.starts_with(|c: char| c.is_ascii_alphanumeric() || "-_".contains(c));
        text.split(&format!("{{built}}/{}", self.name)).skip(1).any(|rest| !goes_on(rest))
    }
}

#[cfg(test)]
mod tests {
    use crate::plan::{Program, parse};

    #[test]
    fn a_built_program_is_found_in_variants_and_companions() {
        let program = Program {
            name: "go".to_owned(),
            file: "go.go".to_owned(),
            source: String::new(),
            build: Vec::new(),
        };
        for (variant, companions, is_used) in [
            ("command = [\"{built}/go\"]", "command = [\"b\"]", true),
            ("command = [\"{built}/{which}\"]\nplaceholders = { which = \"go\" }", "command = [\"b\"]", true),
            ("command = [\"a\"]\nconfig_text = \"run {built}/go;\"", "command = [\"b\"]", true),
            ("command = [\"a\"]\ncompanions = [\"b\"]", "command = [\"{built}/go\", \"-x\"]", true),
            (
                "command = [\"a\"]\ncompanions = [\"b\"]",
                "command = [\"b\"]\nconfig_text = \"{built}/go\"",
                true,
            ),
            // No variant uses it, so it is not built.
            ("command = [\"a\"]", "command = [\"{built}/go\"]", false),
            ("command = [\"{built}/goconntest\"]", "command = [\"b\"]", false),
        ] {
            let text = format!(
                "[[companion]]\nname = \"b\"\n{companions}\n[[variant]]\nname = \"a\"\n{variant}\n\
                 [[workload]]\nname = \"l\"\nkind = \"bench\"\n"
            );
            let plan = parse(&text, "x", None).unwrap();
            assert_eq!(plan.uses(&program), is_used, "{text}");
        }
    }

    #[test]
    fn the_command_builds_into_the_folder_of_this_program() {
        let target = tempfile::tempdir().unwrap();
        let command = |name: &str| super::build("app", &target.path().join(name));
        assert_eq!(command("dist"), "cargo build --release -p app", "no folder of Cargo");
        std::fs::write(target.path().join("CACHEDIR.TAG"), "").unwrap();
        assert_eq!(
            ["debug", "release", "dist"].map(command),
            [
                "cargo build -p app",
                "cargo build --profile release -p app",
                "cargo build --profile dist -p app"
            ]
        );
    }
}
