//! Joins the files of a configuration: what `include` names takes its place. The output of `nginx -T` has all files in one.

use std::sync::Arc;

use crate::report::Ledger;
use crate::syntax::{Directive, SyntaxError, parse};
use crate::{File, ReadFiles};

/// The deepest nesting of included files: a file that includes itself ends there.
const DEPTH_MAX: usize = 20;

/// The most directives of all files. More are the sign of files that include each other.
const DIRECTIVES_MAX: usize = 200_000;

/// The beginning of a file in the output of `nginx -T`.
const DUMPED: &str = "# configuration file ";

/// Files that nginx ships, and what Rudy has instead. Their content is that of every server.
const SHIPPED: [(&str, &str); 6] = [
    ("mime.types", "Rudy knows the media types of common extensions"),
    ("fastcgi_params", "the variables of CGI are set without it"),
    ("fastcgi.conf", "the variables of CGI are set without it"),
    ("fastcgi-php.conf", "PHP scripts are split and found without it"),
    ("proxy_params", "Host, X-Forwarded-For and X-Forwarded-Proto are set without it"),
    ("uwsgi_params", "the variables of CGI are set without it"),
];

/// Reads a file with all that it includes.
pub(crate) fn read_all(
    main: &File,
    read: ReadFiles<'_>,
    ledger: &mut Ledger,
) -> Result<Vec<Directive>, SyntaxError> {
    let dumped = split_dump(&main.text);
    let mut read_dumped = |pattern: &str| {
        let matching = dumped.iter().filter(|file| matches(pattern, &file.name));
        matching.cloned().collect()
    };
    let (main, read): (&File, ReadFiles<'_>) = match dumped.first() {
        Some(first) => (first, &mut read_dumped),
        None => (main, read),
    };
    let mut joined = Joined { read, ledger, count: 0 };
    joined.file(main, 0)
}

/// Splits the output of `nginx -T` into its files; empty for any other text.
fn split_dump(text: &str) -> Vec<File> {
    let mut files: Vec<File> = Vec::new();
    for line in text.lines() {
        if let Some(name) = line.strip_prefix(DUMPED) {
            let name = name.trim_end().trim_end_matches(':').to_owned();
            files.push(File { name, text: String::new() });
        } else if let Some(file) = files.last_mut() {
            file.text.push_str(line);
            file.text.push('\n');
        }
    }
    files
}

/// Whether a path matches a pattern, in which `*` matches anything except a slash. A relative pattern matches the end of the path.
fn matches(pattern: &str, path: &str) -> bool {
    let mut segments = path.rsplit('/');
    let matched = pattern.rsplit('/').all(|part| {
        segments.next().is_some_and(|segment| {
            let mut pieces = part.split('*');
            let first = pieces.next().unwrap_or_default();
            let Some(mut rest) = segment.strip_prefix(first) else { return false };
            let mut pieces: Vec<_> = pieces.collect();
            let Some(last) = pieces.pop() else { return rest.is_empty() };
            for piece in pieces {
                let Some(at) = rest.find(piece) else { return false };
                rest = &rest[at + piece.len()..];
            }
            rest.ends_with(last)
        })
    });
    matched && (!pattern.starts_with('/') || segments.next().is_none())
}

struct Joined<'a> {
    read: ReadFiles<'a>,
    ledger: &'a mut Ledger,
    count: usize,
}

impl Joined<'_> {
    fn file(&mut self, file: &File, depth: usize) -> Result<Vec<Directive>, SyntaxError> {
        let directives = parse(&Arc::from(file.name.as_str()), &file.text)?;
        self.join(directives, depth)
    }

    fn join(&mut self, directives: Vec<Directive>, depth: usize) -> Result<Vec<Directive>, SyntaxError> {
        let mut joined = Vec::new();
        for mut directive in directives {
            self.count += 1;
            if self.count > DIRECTIVES_MAX {
                let problem = format!("there are more than {DIRECTIVES_MAX} directives");
                return Err(SyntaxError { place: directive.place, problem });
            }
            if let Some(block) = directive.block.take() {
                directive.block = Some(self.join(block, depth)?);
            }
            if directive.name == "include" {
                joined.extend(self.included(&directive, depth)?);
            } else {
                joined.push(directive);
            }
        }
        Ok(joined)
    }

    fn included(&mut self, include: &Directive, depth: usize) -> Result<Vec<Directive>, SyntaxError> {
        let pattern = include.arg(0);
        let name = pattern.rsplit('/').next().unwrap_or_default();
        if let Some((_, reason)) = SHIPPED.iter().find(|(shipped, _)| *shipped == name) {
            self.ledger.different(include, *reason);
            return Ok(Vec::new());
        }
        if depth == DEPTH_MAX {
            let problem = format!("files include each other more than {DEPTH_MAX} times");
            return Err(SyntaxError { place: include.place.clone(), problem });
        }
        let files = (self.read)(pattern);
        if files.is_empty() && !pattern.contains(['*', '?', '[']) {
            self.ledger.unprotected(
                include,
                "the file is not here: import where it is, or the output of `nginx -T`",
            );
        } else {
            self.ledger.translated(include);
        }
        let mut directives = Vec::new();
        for file in files {
            directives.extend(self.file(&file, depth + 1)?);
        }
        Ok(directives)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_the_files_of_a_dump() {
        for (pattern, path, expected) in [
            ("/etc/nginx/conf.d/*.conf", "/etc/nginx/conf.d/a.conf", true),
            ("/etc/nginx/conf.d/*.conf", "/etc/nginx/conf.d/x/a.conf", false),
            ("conf.d/*.conf", "/etc/nginx/conf.d/a.conf", true),
            ("/etc/nginx/sites-enabled/*", "/etc/nginx/sites-enabled/default", true),
            ("/nginx/a", "/etc/nginx/a", false),
            ("a*b*c", "/aXbYc", true),
            ("a*b", "/ab/c", false),
        ] {
            assert_eq!(matches(pattern, path), expected, "{pattern} {path}");
        }
    }
}
