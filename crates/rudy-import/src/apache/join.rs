//! Joins files and conditions: `Include`, `Define`, `<IfModule>` and their like.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::syntax::parse;
use crate::report::Ledger;
use crate::syntax::{Directive, SyntaxError};
use crate::{File, ReadFiles};

/// The deepest nesting of included files.
const DEPTH_MAX: usize = 20;

/// The most directives of all files.
const DIRECTIVES_MAX: usize = 200_000;

struct Joined<'a> {
    read: ReadFiles<'a>,
    ledger: &'a mut Ledger,
    defined: BTreeMap<String, String>,
    count: usize,
}

/// Reads a file with all that it includes.
pub(crate) fn read(
    main: &File,
    read: ReadFiles<'_>,
    ledger: &mut Ledger,
) -> Result<Vec<Directive>, SyntaxError> {
    let directives = parse(&Arc::from(main.name.as_str()), &main.text)?;
    // Debian sets this one before it starts Apache.
    let defined = BTreeMap::from([("APACHE_LOG_DIR".to_owned(), "/var/log/apache2".to_owned())]);
    Joined { read, ledger, defined, count: 0 }.join(directives, 0)
}

impl Joined<'_> {
    fn join(&mut self, directives: Vec<Directive>, depth: usize) -> Result<Vec<Directive>, SyntaxError> {
        let mut joined = Vec::new();
        for mut directive in directives {
            self.count += 1;
            if self.count > DIRECTIVES_MAX {
                let problem = format!("there are more than {DIRECTIVES_MAX} directives");
                return Err(SyntaxError { place: directive.place, problem });
            }
            for arg in &mut directive.args {
                *arg = self.replaced(arg);
            }
            match directive.name.to_ascii_lowercase().as_str() {
                "include" | "includeoptional" => joined.extend(self.include(&directive, depth)?),
                "define" => {
                    self.ledger.translated(&directive);
                    self.defined.insert(directive.arg(0).to_owned(), directive.arg(1).to_owned());
                }
                "<ifmodule" | "<ifversion" | "<ifdefine" | "<iffile" | "<ifdirective" => {
                    joined.extend(self.condition(directive, depth)?);
                }
                _ => {
                    if let Some(block) = directive.block.take() {
                        directive.block = Some(self.join(block, depth)?);
                    }
                    joined.push(directive);
                }
            }
        }
        Ok(joined)
    }

    fn replaced(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (name, value) in &self.defined {
            text = text.replace(&format!("${{{name}}}"), value);
        }
        text
    }

    /// Modules count as present, and so does what is for their absence as absent.
    fn condition(&mut self, mut section: Directive, depth: usize) -> Result<Vec<Directive>, SyntaxError> {
        let test = section.arg(0).to_owned();
        let is_negated = test.starts_with('!');
        let is_met = match section.name.to_ascii_lowercase().as_str() {
            "<ifdefine" => self.defined.contains_key(test.trim_start_matches('!')) != is_negated,
            "<ifversion" => !test.starts_with('<') && !is_negated,
            _ => !is_negated,
        };
        let block = section.block.take().unwrap_or_default();
        if is_met {
            self.ledger.translated(&section);
            return self.join(block, depth);
        }
        self.ledger.different(&section, "its content is for another version, or without a module");
        mark(&block, self.ledger);
        Ok(Vec::new())
    }

    fn include(&mut self, include: &Directive, depth: usize) -> Result<Vec<Directive>, SyntaxError> {
        if depth == DEPTH_MAX {
            let problem = format!("files include each other more than {DEPTH_MAX} times");
            return Err(SyntaxError { place: include.place.clone(), problem });
        }
        let files = (self.read)(include.arg(0));
        let is_optional =
            include.name.eq_ignore_ascii_case("IncludeOptional") || include.arg(0).contains(['*', '?', '[']);
        if files.is_empty() && !is_optional {
            self.ledger.unprotected(include, "the file is not here: import where it is");
        } else {
            self.ledger.translated(include);
        }
        let mut directives = Vec::new();
        for file in files {
            let read = parse(&Arc::from(file.name.as_str()), &file.text)?;
            directives.extend(self.join(read, depth + 1)?);
        }
        Ok(directives)
    }
}

fn mark(block: &[Directive], ledger: &mut Ledger) {
    for directive in block {
        ledger.different(directive, "its content is for another version, or without a module");
        mark(directive.children(), ledger);
    }
}
