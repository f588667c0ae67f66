//! Redirects of single paths, from a file with a line for each: a path, a target, and optionally a status (301 by default).

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use http::{HeaderValue, StatusCode};
use rudy_config::{Location, Problem};
use rudy_message::semantics::path::RequestPath;
use rudy_pipeline::methods::reject_unknown_method;
use rudy_pipeline::routing::ExactPaths;
use rudy_pipeline::routing::Maps;
use rudy_pipeline::routing::template::Scope;
use rudy_pipeline::routing::template::Template;
use rudy_pipeline::{Call, Handler};
use rudy_service::{Reply, Request};

use super::redirect::{RedirectStatus, redirection};

/// The maximum size of the file: hundreds of thousands of lines.
const FILE_BYTES_MAX: u64 = 32 * 1024 * 1024;

/// The maximum number of wrong lines to report.
const FAULTS_MAX: usize = 10;

/// The targets by canonical path.
#[derive(Debug, Default)]
pub struct RedirectMap(HashMap<Box<[u8]>, Target>);

#[derive(Debug)]
struct Target {
    location: HeaderValue,
    status: StatusCode,
}

impl RedirectMap {
    /// Reads the file of a site.
    pub fn read(file: &Path, location: &Location, problems: &mut Vec<Problem>) -> Self {
        let text = match read_text(file) {
            Ok(text) => text,
            Err(why) => {
                let title = format!("cannot read the redirects in {}", file.display());
                problems.push(Problem::value(location, title).label(why));
                return Self::default();
            }
        };
        let (mut map, mut faults) = (Self::default(), Vec::new());
        for (number, line) in text.lines().enumerate() {
            if let Err(why) = map.add(line) {
                faults.push(format!("line {}: {why}", number + 1));
            }
        }
        faults.extend(map.loops());
        for why in faults.into_iter().take(FAULTS_MAX) {
            let title = format!("invalid redirect in {}", file.display());
            problems.push(Problem::value(location, title).label(why));
        }
        map
    }

    /// Adds a line.
    fn add(&mut self, line: &str) -> Result<(), String> {
        let line = line.split(" #").next().unwrap_or_default().trim();
        if line.is_empty() || line.starts_with('#') {
            return Ok(());
        }
        let parts: Vec<_> = line.split_whitespace().collect();
        let (from, to, status) = match parts[..] {
            [from, to] => (from, to, StatusCode::MOVED_PERMANENTLY),
            [from, to, status] => (from, to, RedirectStatus::parse(status)?.code()),
            _ => return Err("expected a path, a target and optionally a status".to_owned()),
        };
        let path = RequestPath::parse(from).map_err(|error| error.to_string())?;
        if !from.starts_with('/') {
            return Err(format!("\"{from}\" is not a path"));
        }
        let template = Template::literal(to);
        template
            .check_target(Scope { paths: &[], hosts: &[], maps: Maps::none() })
            .map_err(|(title, expected)| format!("{title}: {expected}"))?;
        let location = HeaderValue::from_str(to).map_err(|error| error.to_string())?;
        match self.0.insert(path.as_bytes().into(), Target { location, status }) {
            Some(_) => Err(format!("\"{from}\" has another line")),
            None => Ok(()),
        }
    }

    /// Reports paths that lead back to themselves.
    fn loops(&self) -> Vec<String> {
        let next = |target: &Target| {
            let location = target.location.to_str().ok().filter(|location| location.starts_with('/'))?;
            let path = RequestPath::parse(location.split(['?', '#']).next()?).ok()?.into_owned();
            self.0.get_key_value(path.as_bytes())
        };
        let is_loop = |start: &[u8]| {
            let mut at = self.0.get_key_value(start);
            // A longer chain is found from one of its other paths.
            for _ in 0..10 {
                at = at.and_then(|(_, target)| next(target));
                if at.is_some_and(|(path, _)| **path == *start) {
                    return true;
                }
            }
            false
        };
        let in_loops = self.0.keys().filter(|path| is_loop(path));
        in_loops.map(|path| format!("{} leads back to itself", String::from_utf8_lossy(path))).collect()
    }
}

impl ExactPaths for RedirectMap {
    fn contains(&self, path: &RequestPath<'_>) -> bool {
        self.0.contains_key(path.as_bytes())
    }
}

fn read_text(file: &Path) -> Result<String, String> {
    let metadata = fs::metadata(file).map_err(|error| error.to_string())?;
    if !metadata.is_file() || metadata.len() > FILE_BYTES_MAX {
        return Err("expected a file of at most 32 MiB".to_owned());
    }
    let text = fs::read_to_string(file).map_err(|error| error.to_string())?;
    Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))
}

/// Redirects the paths of a map.
#[derive(Debug)]
pub struct MappedRedirect(pub std::sync::Arc<RedirectMap>);

impl Handler for MappedRedirect {
    fn call(&self, request: Request<'_>, call: Call<'_>) -> Reply {
        if let Some(rejection) = reject_unknown_method(&request) {
            return rejection.into();
        }
        let target = self.0.0.get(call.path.as_bytes());
        let (Some(Target { location, status }), query) = (target, request.uri().query()) else {
            return rudy_pipeline::pages::error(
                StatusCode::NOT_FOUND,
                request.headers(),
                "There is no redirect.",
            )
            .into();
        };
        let with_query = query
            .filter(|_| !location.as_bytes().contains(&b'?'))
            .and_then(|query| HeaderValue::from_str(&format!("{}?{query}", location.to_str().ok()?)).ok());
        redirection(*status, with_query.unwrap_or_else(|| location.clone())).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<RedirectMap, Vec<String>> {
        let mut map = RedirectMap::default();
        let mut faults: Vec<_> = text.lines().filter_map(|line| map.add(line).err()).collect();
        faults.extend(map.loops());
        if faults.is_empty() { Ok(map) } else { Err(faults) }
    }

    #[test]
    fn lines_have_a_path_a_target_and_perhaps_a_status() {
        let map = read("# old pages\n\n/a /b\n/caf%C3%A9  https://example.org/x 308 # moved\n").unwrap();
        let target = |path: &str| map.0.get(RequestPath::parse(path).unwrap().as_bytes());
        assert_eq!(target("/%61").unwrap().location, "/b");
        assert_eq!(target("/café").unwrap().status, 308);
        assert!(target("/b").is_none());
    }

    #[test]
    fn wrong_lines_are_reported() {
        for (text, fault) in [
            ("/a", "expected a path, a target"),
            ("/a /b 200", "expected one of 301"),
            ("a /b", "\"a\" is not a path"),
            ("/a b", "invalid target"),
            ("/a //b", "invalid target"),
            ("/../a /b", "above the root"),
            ("/a /b\n/%61 /c", "has another line"),
            ("/a /b\n/b /c\n/c /a?x", "/a leads back to itself"),
            ("/a /a", "/a leads back to itself"),
        ] {
            let faults = read(text).unwrap_err().join("\n");
            assert!(faults.contains(fault), "{text}: {faults}");
        }
    }

    #[test]
    fn ten_thousand_lines_are_read() {
        let lines: Vec<_> = (0..10_000).map(|number| format!("/old/{number} /new/{number}")).collect();
        let map = read(&lines.join("\n")).unwrap();
        assert_eq!(map.0.len(), 10_000);
        assert!(map.contains(&RequestPath::parse("/old/9999").unwrap()));
    }
}
