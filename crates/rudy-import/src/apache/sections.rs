//! The sections that apply to a site, in the order in which Apache merges them.

use super::content::folder_patterns;
use super::{is, named};
use crate::guard::Guard;
use crate::regexes::path_pattern;
use crate::report::Ledger;
use crate::syntax::Directive;

/// A section with the paths that it is for.
#[derive(Debug)]
pub(super) struct Section<'a> {
    pub(super) guard: Guard,
    pub(super) block: &'a [Directive],
    /// The path of its folder, with a slash at its end, for the rules in it.
    pub(super) base: String,
}

/// The folders of a site, for the paths of `<Directory>`.
pub(super) struct Folders {
    pub(super) root: Option<String>,
    /// Paths with their folders.
    pub(super) aliases: Vec<(String, String)>,
}

/// The sections about files: folders from the shortest to the longest, then names of files.
pub(super) fn of_files<'a>(
    blocks: &[&'a [Directive]],
    folders: &Folders,
    ledger: &mut Ledger,
) -> Vec<Section<'a>> {
    let mut found: Vec<(usize, Section<'a>)> = Vec::new();
    for directive in blocks.iter().flat_map(|block| block.iter()) {
        if is(directive, "<Directory") && directive.arg(0) != "~" {
            let path = directive.arg(0).trim_end_matches("/*").trim_end_matches('/');
            let guards = folders.guards(path);
            if guards.is_empty() {
                mark(directive, "no path of the site leads to this folder", ledger);
                continue;
            }
            ledger.translated(directive);
            for (guard, base) in guards {
                found.push((path.len(), Section { guard, block: directive.children(), base }));
            }
        } else if is(directive, "<DirectoryMatch") || is(directive, "<Directory") {
            let expression = directive.args.last().map(String::as_str).unwrap_or_default();
            let root = folders.root.as_deref().unwrap_or_default();
            let expression = expression
                .strip_prefix(&format!("^{root}"))
                .map_or(expression.to_owned(), |rest| format!("^{rest}"));
            match path_pattern(&expression, false) {
                Ok(pattern) => {
                    ledger.translated(directive);
                    let guard = Guard::paths([pattern]);
                    found.push((
                        usize::MAX,
                        Section { guard, block: directive.children(), base: "/".to_owned() },
                    ));
                }
                Err(why) => ledger.unprotected(directive, format!("{why}: write its route")),
            }
        }
    }
    found.sort_by_key(|(length, _)| *length);
    let mut sections: Vec<Section<'a>> = found.into_iter().map(|(_, section)| section).collect();
    let everything = Guard::default();
    let mut files = Vec::new();
    for block in blocks {
        files.extend(names(block, &everything, ledger));
    }
    for section in &sections {
        files.extend(names(section.block, &section.guard, ledger));
    }
    sections.extend(files);
    sections
}

impl Folders {
    /// The paths that lead to a folder, with the path of the folder itself.
    fn guards(&self, path: &str) -> Vec<(Guard, String)> {
        let mut guards = Vec::new();
        let roots = self.root.iter().map(|root| (String::new(), root.clone()));
        for (prefix, folder) in roots.chain(self.aliases.iter().cloned()) {
            let folder = folder.trim_end_matches('/');
            let is_around =
                folder == path || folder.strip_prefix(path).is_some_and(|rest| rest.starts_with('/'));
            if is_around {
                let guard =
                    if prefix.is_empty() { Guard::default() } else { Guard::paths(folder_patterns(&prefix)) };
                guards.push((guard, format!("{prefix}/")));
            } else if let Some(rest) = path.strip_prefix(folder).filter(|rest| rest.starts_with('/')) {
                let inner = format!("{prefix}{rest}");
                guards.push((Guard::paths(folder_patterns(&inner)), format!("{inner}/")));
            }
        }
        guards
    }
}

/// `<Files>` and `<FilesMatch>`: the last part of a path.
fn names<'a>(block: &'a [Directive], outer: &Guard, ledger: &mut Ledger) -> Vec<Section<'a>> {
    let mut sections = Vec::new();
    for directive in block {
        let is_regex = is(directive, "<FilesMatch") || is(directive, "<Files") && directive.arg(0) == "~";
        if !is_regex && !is(directive, "<Files") {
            continue;
        }
        let name = directive.args.last().map(String::as_str).unwrap_or_default();
        let pattern = if is_regex { of_name(name) } else { of_glob(name) };
        match pattern {
            Ok(pattern) => {
                ledger.translated(directive);
                let guard = outer.and(&Guard::paths([pattern]));
                sections.push(Section { guard, block: directive.children(), base: "/".to_owned() });
            }
            Err(why) => ledger.unprotected(directive, format!("{why}: write its route")),
        }
    }
    sections
}

/// The pattern of a path whose last part an expression finds. A path can follow the name of a script.
fn of_name(expression: &str) -> Result<String, String> {
    let (flags, bare) = expression.strip_prefix("(?i)").map_or(("", expression), |bare| ("(?i)", bare));
    let (bare, end) = match bare.strip_suffix('$').filter(|bare| !bare.ends_with('\\')) {
        Some(bare) => (bare, "(/|$)"),
        None => (bare, "[^/]*(/|$)"),
    };
    // The alternatives of `^a|b$` are bound on both sides here, if the first one is.
    match bare.strip_prefix('^') {
        Some(rest) => path_pattern(&format!("{flags}/(?:{rest}){end}"), false),
        None => path_pattern(&format!("{flags}(?:{bare}){end}"), false),
    }
}

/// The pattern of a path whose last part is a name, in which `*` and `?` match other characters.
fn of_glob(name: &str) -> Result<String, String> {
    let letter = |letter: char| match letter {
        '*' => "[^/]*".to_owned(),
        '?' => "[^/]".to_owned(),
        letter => crate::regexes::escaped(letter.encode_utf8(&mut [0; 4])),
    };
    path_pattern(&format!("/{}(/|$)", name.chars().map(letter).collect::<String>()), false)
}

/// `<Location>` and `<LocationMatch>`.
pub(super) fn of_paths<'a>(blocks: &[&'a [Directive]], ledger: &mut Ledger) -> Vec<Section<'a>> {
    let mut sections = Vec::new();
    for block in blocks {
        for directive in named(block, "<Location").chain(named(block, "<LocationMatch")) {
            let path = directive.args.last().map(String::as_str).unwrap_or_default();
            let is_regex = is(directive, "<LocationMatch") || directive.arg(0) == "~";
            let patterns = if is_regex {
                path_pattern(path, false).map(|pattern| vec![pattern])
            } else {
                Ok(folder_patterns(path))
            };
            match patterns {
                Ok(patterns) => {
                    ledger.translated(directive);
                    let guard = Guard::paths(patterns);
                    sections.push(Section { guard, block: directive.children(), base: path.to_owned() });
                }
                Err(why) => ledger.unprotected(directive, format!("{why}: write its route")),
            }
        }
    }
    sections
}

fn mark(directive: &Directive, why: &str, ledger: &mut Ledger) {
    ledger.different(directive, why);
    directive.children().iter().for_each(|inner| mark(inner, why, ledger));
}
