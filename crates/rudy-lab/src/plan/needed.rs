//! Determines the requirements of a plan's subjects. Only these are checked and built.

use std::iter;

use super::{Beside, Plan, Program, Subject};

impl Plan {
    /// Whether a subject of the plan uses this program.
    pub(crate) fn uses(&self, program: &Program) -> bool {
        self.subjects.iter().any(|subject| self.runs(subject, program))
    }

    /// Whether a subject uses this program: whether its command or configuration, or that of a companion,
    /// contains its placeholder.
    pub(crate) fn runs(&self, subject: &Subject, program: &Program) -> bool {
        let own = iter::once((&subject.command, &subject.config));
        let beside = self.beside_of(subject).map(|beside| (&beside.command, &beside.config));
        own.chain(beside)
            .flat_map(|(command, config)| command.iter().chain(config))
            .any(|text| program.is_in(&subject.with_own_words(text)))
    }

    /// The companion programs of a subject.
    pub(crate) fn beside_of<'a>(&'a self, subject: &'a Subject) -> impl Iterator<Item = &'a Beside> {
        self.beside.iter().filter(move |beside| subject.beside.contains(&beside.name))
    }

    /// All commands of a subject, its own first.
    pub(crate) fn commands<'a>(&'a self, subject: &'a Subject) -> impl Iterator<Item = &'a [String]> {
        let beside = self.beside_of(subject).map(|beside| beside.command.as_slice());
        iter::once(subject.command.as_slice()).chain(beside)
    }
}

impl Subject {
    fn with_own_words(&self, text: &str) -> String {
        let put =
            |text: String, (word, value): (&String, &String)| text.replace(&format!("{{{word}}}"), value);
        self.words.iter().fold(text.to_owned(), put)
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
    fn what_is_built_is_found_wherever_a_subject_or_something_beside_it_has_it() {
        let program = Program {
            name: "go".to_owned(),
            file: "go.go".to_owned(),
            source: String::new(),
            build: Vec::new(),
        };
        for (subject, beside, is_used) in [
            ("command = [\"{built}/go\"]", "command = [\"b\"]", true),
            ("command = [\"{built}/{which}\"]\nwords = { which = \"go\" }", "command = [\"b\"]", true),
            ("command = [\"a\"]\nconfig_text = \"run {built}/go;\"", "command = [\"b\"]", true),
            ("command = [\"a\"]\nbeside = [\"b\"]", "command = [\"{built}/go\", \"-x\"]", true),
            ("command = [\"a\"]\nbeside = [\"b\"]", "command = [\"b\"]\nconfig_text = \"{built}/go\"", true),
            // No subject uses it, so it is not built.
            ("command = [\"a\"]", "command = [\"{built}/go\"]", false),
            ("command = [\"{built}/goconntest\"]", "command = [\"b\"]", false),
        ] {
            let text = format!(
                "[[beside]]\nname = \"b\"\n{beside}\n[[subject]]\nname = \"a\"\n{subject}\n\
                 [[load]]\nname = \"l\"\nkind = \"bench\"\n"
            );
            let plan = parse(&text, "x", None).unwrap();
            assert_eq!(plan.uses(&program), is_used, "{text}");
        }
    }
}
