//! The imports between the top-level modules of a crate: none may be in a circle, because such modules cannot be read, built or removed
//! alone.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use super::File;

/// The modules that each module imports.
type Arrows = BTreeMap<String, BTreeSet<String>>;

/// Returns the crates whose modules import each other.
pub(super) fn circles(sources: &[File]) -> Vec<String> {
    let names: BTreeSet<_> = sources.iter().filter_map(|file| Some(split(&file.path)?.0)).collect();
    let violation = |name: &str| {
        let found = in_circles(&arrows(name, sources));
        let list = found.join(", ");
        (!found.is_empty()).then(|| {
            format!(
                "{name}: {} modules import each other; move what one needs of another below both: {list}",
                found.len()
            )
        })
    };
    names.into_iter().filter_map(violation).collect()
}

/// Splits the path of a file into its crate and the path below `src`.
fn split(path: &str) -> Option<(&str, &str)> {
    let folders = ["crates/", "libraries/"];
    folders.iter().find_map(|folder| path.strip_prefix(folder))?.split_once("/src/")
}

/// Returns the imports between the top-level modules of a crate, without those of tests. What the root of the crate exports again is
/// an import of its origin.
fn arrows(name: &str, sources: &[File]) -> Arrows {
    let files: Vec<_> = sources
        .iter()
        .filter_map(|file| {
            let (of, path) = split(&file.path)?;
            (of == name).then(|| (path, Scan::of(&file.text)))
        })
        .collect();
    let is_root = |path: &str| matches!(path, "lib.rs" | "main.rs");
    let mut origins = BTreeMap::new();
    let mut test_modules = BTreeSet::new();
    for (path, scan) in &files {
        let folder = match path.rsplit_once('/') {
            Some((folder, "mod.rs")) => format!("{folder}/"),
            _ if is_root(path) => String::new(),
            _ => format!("{}/", path.trim_end_matches(".rs")),
        };
        test_modules.extend(scan.test_modules.iter().map(|module| format!("{folder}{module}")));
        if is_root(path) {
            origins.extend(scan.exports.iter().cloned());
        }
    }
    let is_test = |path: &str| {
        test_modules.iter().any(|module| {
            path.strip_prefix(module.as_str()).is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
        })
    };
    let module_of = |path: &str| path.split('/').next().unwrap_or(path).trim_end_matches(".rs").to_owned();
    let modules: BTreeSet<_> =
        files.iter().filter(|(path, _)| !is_root(path)).map(|(path, _)| module_of(path)).collect();
    let mut arrows = Arrows::new();
    for (path, scan) in files.iter().filter(|(path, _)| !is_root(path) && !is_test(path)) {
        let module = module_of(path);
        let depth = path.trim_end_matches("/mod.rs").split('/').count();
        let of_root = scan.imports.iter().filter(|(ups, _)| ups.is_none_or(|ups| ups == depth));
        for (_, import) in of_root {
            let target = if modules.contains(import) { Some(import) } else { origins.get(import) };
            if let Some(target) = target.filter(|target| **target != module) {
                arrows.entry(module.clone()).or_default().insert(target.clone());
            }
        }
    }
    arrows
}

/// Returns the modules that import themselves through others.
fn in_circles(arrows: &Arrows) -> Vec<String> {
    let reaches_itself = |start: &String| {
        let (mut seen, mut next) = (BTreeSet::new(), vec![start]);
        while let Some(module) = next.pop() {
            for target in arrows.get(module).into_iter().flatten() {
                if target == start {
                    return true;
                }
                if seen.insert(target) {
                    next.push(target);
                }
            }
        }
        false
    };
    arrows.keys().filter(|module| reaches_itself(module)).cloned().collect()
}

/// What a file says about modules.
#[derive(Default)]
struct Scan {
    /// The first names of paths: of those that begin with `crate`, and with how many `super` the others begin.
    imports: BTreeSet<(Option<usize>, String)>,
    /// What `pub use` exports of which module.
    exports: Vec<(String, String)>,
    /// The modules that only tests have.
    test_modules: Vec<String>,
}

impl Scan {
    fn of(text: &str) -> Self {
        let mut scan = Self::default();
        // The compiler reports a file that cannot be parsed.
        if let Ok(tokens) = text.parse() {
            scan.visit(tokens);
        }
        scan
    }

    fn visit(&mut self, tokens: TokenStream) {
        let tokens: Vec<_> = tokens.into_iter().collect();
        let mut at = 0;
        while at < tokens.len() {
            if is_of_tests(&tokens[at..]) {
                let end =
                    tokens[at + 2..].iter().position(ends_item).map_or(tokens.len(), |end| at + 3 + end);
                if let [.., TokenTree::Ident(module), TokenTree::Punct(_)] = &tokens[at..end]
                    && tokens[at..end].iter().any(|token| token.to_string() == "mod")
                {
                    self.test_modules.push(module.to_string());
                }
                at = end;
                continue;
            }
            if let Some((ups, rest)) = root_of(&tokens[at..]) {
                self.imports.extend(names_at(rest).into_iter().map(|name| (ups, name)));
                at = tokens.len() - rest.len();
                continue;
            }
            if let (true, Some(TokenTree::Ident(module))) =
                (tokens[at].to_string() == "use", tokens.get(at + 1))
            {
                self.export(&module.to_string(), &tokens[at + 1..]);
            }
            if let TokenTree::Group(group) = &tokens[at] {
                self.visit(group.stream());
            }
            at += 1;
        }
    }

    /// Records what `use module::{A, B}` or `use module::A` exports, if it does.
    fn export(&mut self, module: &str, tokens: &[TokenTree]) {
        let tokens = if module == "self" { tokens.get(3..).unwrap_or_default() } else { tokens };
        let Some(TokenTree::Ident(module)) = tokens.first() else { return };
        let module = module.to_string();
        let names = path_after(tokens, &module).map(names_at).unwrap_or_default();
        self.exports.extend(names.into_iter().map(|name| (name, module.clone())));
    }
}

/// Returns how many `super` a path at the start begins with, or `None` if it begins with `crate`, and what follows.
fn root_of(tokens: &[TokenTree]) -> Option<(Option<usize>, &[TokenTree])> {
    if let Some(rest) = path_after(tokens, "crate") {
        return Some((None, rest));
    }
    let (mut ups, mut rest) = (0, tokens);
    while let Some(after) = path_after(rest, "super") {
        (ups, rest) = (ups + 1, after);
    }
    (ups > 0).then_some((Some(ups), rest))
}

/// Returns what follows `name::` at the start.
fn path_after<'t>(tokens: &'t [TokenTree], name: &str) -> Option<&'t [TokenTree]> {
    match tokens {
        [TokenTree::Ident(first), TokenTree::Punct(one), TokenTree::Punct(two), rest @ ..]
            if first == name && one.as_char() == ':' && two.as_char() == ':' =>
        {
            Some(rest)
        }
        _ => None,
    }
}

/// Returns the name at the start, or the first name of each path in a group.
fn names_at(tokens: &[TokenTree]) -> Vec<String> {
    let Some(TokenTree::Group(group)) = tokens.first() else {
        return tokens.first().map(ToString::to_string).into_iter().collect();
    };
    let tokens: Vec<_> = group.stream().into_iter().collect();
    let paths = tokens.split(|token| matches!(token, TokenTree::Punct(punct) if punct.as_char() == ','));
    paths.filter_map(|path| Some(path.first()?.to_string())).collect()
}

/// Returns whether an item that only tests have begins here.
fn is_of_tests(tokens: &[TokenTree]) -> bool {
    matches!(tokens, [TokenTree::Punct(hash), TokenTree::Group(group), ..]
        if hash.as_char() == '#' && group.stream().to_string().replace(' ', "") == "cfg(test)")
}

fn ends_item(token: &TokenTree) -> bool {
    match token {
        TokenTree::Punct(punct) => punct.as_char() == ';',
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::file;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<_> =
            files.iter().map(|(path, text)| file(&format!("crates/a/src/{path}"), text)).collect();
        in_circles(&arrows("a", &files))
    }

    #[test]
    fn modules_that_import_each_other_are_found_through_groups_paths_and_exports() {
        let lib = "mod x; mod y; mod z; pub use z::{Z, Other}; pub use self::y::Y;";
        for (y, z, expected) in [
            ("use crate::x::X;", "", &["x", "y"][..]),
            ("use crate::{z, x::{X, W}};", "", &["x", "y"]),
            ("fn f() { crate::x::g() }", "", &["x", "y"]),
            ("use super::{x, z};", "", &["x", "y"]),
            ("use super::z;", "use super::super::x;", &[]),
            ("use crate::Z;", "use crate::x;", &["x", "y", "z"]),
            ("use crate::y::Own;", "use crate::Y;", &[]),
            ("#[cfg(test)]\nuse crate::x;\n#[cfg(test)]\nmod tests { use crate::x; }", "", &[]),
            ("#[cfg(test)]\nmod tests;\nuse crate::z;", "", &[]),
            ("// crate::x\nfn f() { \"crate::x\"; }", "", &[]),
        ] {
            let files = [
                ("lib.rs", lib),
                ("x/mod.rs", "mod inner;"),
                ("x/inner.rs", "use super::super::y::Y; use super::z;"),
                ("y.rs", y),
                ("y/tests.rs", "use crate::x;"),
                ("z.rs", z),
            ];
            let mut files = files.to_vec();
            // Only a module that is declared for tests is none of the others.
            files.retain(|(path, _)| *path != "y/tests.rs" || y.contains("mod tests;"));
            assert_eq!(found(&files), expected, "{y} {z}");
        }
    }

    #[test]
    fn a_new_circle_is_a_violation() {
        let files = [file("crates/b/src/x.rs", "use crate::y;"), file("crates/b/src/y.rs", "use crate::x;")];
        let violations = circles(&files);
        assert!(violations[0].starts_with("b: 2 modules import each other"), "{violations:?}");
    }
}
