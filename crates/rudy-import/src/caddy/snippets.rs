//! `import`: the directives of a snippet or of files take its place.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::syntax::parse;
use crate::report::Ledger;
use crate::syntax::{Directive, SyntaxError};
use crate::{File, ReadFiles};

/// The deepest nesting of imports.
const DEPTH_MAX: usize = 20;

/// The most directives. More are the sign of snippets that import each other.
const DIRECTIVES_MAX: usize = 200_000;

struct Imports<'a> {
    snippets: BTreeMap<String, Vec<Directive>>,
    read: ReadFiles<'a>,
    ledger: &'a mut Ledger,
    count: usize,
}

/// Reads a Caddyfile with all that it imports.
pub(crate) fn read(
    main: &File,
    read: ReadFiles<'_>,
    ledger: &mut Ledger,
) -> Result<Vec<Directive>, SyntaxError> {
    let blocks = parse(&Arc::from(main.name.as_str()), &main.text)?;
    let mut imports = Imports { snippets: BTreeMap::new(), read, ledger, count: 0 };
    let blocks = imports.expand(blocks, 0)?;
    reject_version_1(&blocks)?;
    Ok(blocks)
}

/// Directives that only Caddy 1 has.
const OF_VERSION_1: [&str; 7] = ["proxy", "fastcgi", "gzip", "ext", "errors", "internal", "browse"];

/// Caddy 1 has other directives with the same names, so that a translation would have another meaning.
fn reject_version_1(blocks: &[Directive]) -> Result<(), SyntaxError> {
    let old =
        blocks.iter().flat_map(Directive::children).find(|inner| OF_VERSION_1.contains(&inner.name.as_str()));
    match old {
        None => Ok(()),
        Some(old) => Err(SyntaxError {
            place: old.place.clone(),
            problem: format!("`{}` is a directive of Caddy 1: expected a Caddyfile of Caddy 2", old.name),
        }),
    }
}

impl Imports<'_> {
    fn expand(&mut self, directives: Vec<Directive>, depth: usize) -> Result<Vec<Directive>, SyntaxError> {
        let mut expanded = Vec::new();
        for mut directive in directives {
            self.count += 1;
            if self.count > DIRECTIVES_MAX {
                let problem = format!("there are more than {DIRECTIVES_MAX} directives");
                return Err(SyntaxError { place: directive.place, problem });
            }
            if directive.name.starts_with('(') && directive.name.ends_with(')') {
                let name = directive.name[1..directive.name.len() - 1].to_owned();
                self.snippets.insert(name, directive.block.unwrap_or_default());
            } else if directive.name == "import" {
                expanded.extend(self.import(&directive, depth)?);
            } else {
                if let Some(block) = directive.block.take() {
                    directive.block = Some(self.expand(block, depth)?);
                }
                expanded.push(directive);
            }
        }
        Ok(expanded)
    }

    fn import(&mut self, import: &Directive, depth: usize) -> Result<Vec<Directive>, SyntaxError> {
        if depth == DEPTH_MAX {
            let problem = format!("files and snippets import each other more than {DEPTH_MAX} times");
            return Err(SyntaxError { place: import.place.clone(), problem });
        }
        let args = import.args.get(1..).unwrap_or_default();
        if let Some(snippet) = self.snippets.get(import.arg(0)) {
            self.ledger.translated(import);
            let snippet = snippet.iter().map(|directive| with(directive, args, import.children())).collect();
            return self.expand(snippet, depth + 1);
        }
        let files = (self.read)(import.arg(0));
        if files.is_empty() && !import.arg(0).contains('*') {
            self.ledger.unprotected(import, "there is no such snippet or file here: import where it is");
        } else {
            self.ledger.translated(import);
        }
        let mut directives = Vec::new();
        for file in files {
            let blocks = parse(&Arc::from(file.name.as_str()), &file.text)?;
            // A file without a site has directives of the block that imports it: its first line is one of them, too.
            let directives_of = |block: Directive| match block.block {
                Some(rest) if !file.text.contains('{') => {
                    let first = Directive { block: None, ..block };
                    std::iter::once(first).chain(rest).collect()
                }
                block_of => vec![Directive { block: block_of, ..block }],
            };
            let read: Vec<Directive> = blocks.into_iter().flat_map(directives_of).collect();
            directives.extend(self.expand(read, depth + 1)?);
        }
        Ok(directives)
    }
}

/// A directive of a snippet with the arguments of its import.
fn with(directive: &Directive, args: &[String], block: &[Directive]) -> Directive {
    let filled = |text: &String| {
        let mut text = text.replace("{args[:]}", &args.join(" "));
        for (index, arg) in args.iter().enumerate() {
            text =
                text.replace(&format!("{{args[{index}]}}"), arg).replace(&format!("{{args.{index}}}"), arg);
        }
        text
    };
    let all = |directives: &[Directive]| {
        let filled = directives.iter().flat_map(|inner| match inner.name.as_str() {
            "{block}" | "{blocks}" => block.to_vec(),
            _ => vec![with(inner, args, block)],
        });
        filled.collect::<Vec<_>>()
    };
    let texts = directive.args.iter().flat_map(|arg| match arg.as_str() {
        "{args[:]}" | "{args.*}" => args.to_vec(),
        _ => vec![filled(arg)],
    });
    Directive {
        name: filled(&directive.name),
        args: texts.collect(),
        block: directive.block.as_deref().map(all),
        place: directive.place.clone(),
    }
}
