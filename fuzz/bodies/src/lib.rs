//! The bodies of the fuzz targets. `cargo fuzz` runs them on generated input, and a test over the committed seeds.

#[cfg(feature = "server")]
mod access_log;
mod cache;
mod client;
#[cfg(feature = "server")]
mod config;
mod driver;
mod fastcgi;
mod h1;
mod h2;
mod h2_client;
mod h2_differential;
mod h3;
mod h3_client;
mod hpack;
mod imports;
mod nginx;
#[cfg(feature = "server")]
mod proxy_header;
mod qpack;
mod replay;
#[cfg(feature = "server")]
mod router;
mod semantics;
mod small;
mod tls;
mod trace;

/// Runs with one input.
type Target = fn(&[u8]);

/// The targets by name. Each panics if the code under test is wrong.
const TARGETS: &[(&str, Target)] = &[
    #[cfg(feature = "server")]
    ("access_log", access_log::run),
    ("apache", imports::apache),
    ("cache", cache::run),
    ("caddy", imports::caddy),
    ("cgi", small::cgi),
    ("chunked", small::chunked),
    ("client", small::client),
    #[cfg(feature = "server")]
    ("config", config::run),
    ("connection", small::connection),
    ("driver", driver::run),
    ("fastcgi", small::fastcgi),
    ("forwarded", small::forwarded),
    ("h2_client", h2_client::at_splits),
    ("h2_client_differential", h2_differential::run_clients),
    ("h2_differential", h2_differential::run_servers),
    ("h2_server", h2::at_splits),
    ("h3_client", h3_client::at_splits),
    ("h3_server", h3::at_splits),
    ("haproxy", imports::haproxy),
    ("head", small::head),
    ("hpack", hpack::run),
    ("nginx", nginx::run),
    #[cfg(feature = "server")]
    ("proxy_header", proxy_header::run),
    ("qpack", qpack::run),
    #[cfg(feature = "server")]
    ("router", router::run),
    ("replay", replay::run),
    ("semantics", semantics::run),
    ("tls", tls::run),
    ("trace", trace::run),
];

/// Runs a target with one input.
///
/// # Panics
///
/// If there is no target with this name, or if the code under test is wrong.
pub fn run(name: &str, input: &[u8]) {
    let (_, target) = TARGETS.iter().find(|(target, _)| *target == name).expect("a target has this name");
    target(input);
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    /// Runs all targets over their seeds, without a sanitizer.
    #[test]
    fn every_seed_passes() {
        let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../seeds");
        for folder in fs::read_dir(&seeds).expect("the folder exists") {
            let folder = folder.expect("the folder can be read").path();
            let name = folder.file_name().expect("it has a name").to_string_lossy().into_owned();
            let mut count = 0;
            for seed in fs::read_dir(&folder).expect("the seeds of a target are in a folder") {
                let seed = seed.expect("the folder can be read").path();
                println!("{}", seed.display());
                run(&name, &fs::read(&seed).expect("a seed is a file"));
                count += 1;
            }
            assert!(count > 0, "{name} has no seeds");
        }
    }

    #[test]
    fn every_target_has_seeds_and_a_program() {
        let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        for (name, _) in TARGETS {
            assert!(fuzz.join("seeds").join(name).is_dir(), "{name}");
            let program =
                fs::read_to_string(fuzz.join(format!("fuzz_targets/{name}.rs"))).expect("a program");
            assert!(program.contains(&format!("run(\"{name}\", ")), "{name}");
        }
    }
}
