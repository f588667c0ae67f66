//! The command line of http_load: options with one dash, and a file of URLs.

use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rudy_units::Time;

/// The options of http_load.
pub(super) const USAGE: &str = "\
Usage: rudy http_load -parallel N | -rate N [-jitter]
                      -fetches N | -seconds N
                      [-sip FILE] [-checksum | -anybytes] [-timeout SECONDS] [-verbose] [-insecure] URLFILE

Measure a server with the options and the output of http_load. Each fetch opens a new connection.

  -parallel N      number of concurrent fetches
  -rate N          number of fetches to start per second
  -jitter          with -rate: vary each start by up to a tenth of the interval
  -fetches N       stop after N fetches
  -seconds N       stop after N seconds
  -sip FILE        file of local addresses to connect from in turn, one per line
  -checksum        compare the checksum of each body with the first of its URL
  -anybytes        do not compare the length of each body with the first of its URL
  -timeout SECONDS timeout of a fetch (60)
  -verbose         print progress every minute
  -insecure        skip certificate verification for https

URLFILE has a URL per line, all on one server, which are fetched in turn. A line may also have a weight, a method and
a body, as in `rudy bench --urls`.

Examples:
  rudy http_load -parallel 20 -fetches 1000 urls
  rudy http_load -rate 100 -seconds 60 urls
";

/// The start of fetches: a number in parallel, or a rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Start {
    Parallel(u32),
    Rate { per_second: f64, jitter: bool },
}

/// The end of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Fetches(u64),
    Seconds(Duration),
}

/// The property in which all bodies of a URL must be equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Check {
    Bytes,
    Checksum,
    Nothing,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Options {
    pub(super) start: Start,
    pub(super) end: End,
    pub(super) sources: Vec<IpAddr>,
    pub(super) check: Check,
    pub(super) timeout: Duration,
    pub(super) is_verbose: bool,
    pub(super) is_insecure: bool,
    pub(super) urls: PathBuf,
}

/// The arguments parsed so far.
#[derive(Default)]
struct Arguments {
    parallel: Option<u32>,
    rate: Option<f64>,
    fetches: Option<u64>,
    seconds: Option<Duration>,
    sources: Option<PathBuf>,
    timeout: Option<Duration>,
    jitter: bool,
    checksum: bool,
    any_bytes: bool,
    is_verbose: bool,
    is_insecure: bool,
    urls: Option<PathBuf>,
}

impl Options {
    /// Parses the arguments after the command's name. `Ok(None)` requests the help.
    pub(super) fn parse(given: &[String]) -> Result<Option<Self>, String> {
        let mut arguments = Arguments::default();
        let mut rest = given.iter();
        while let Some(argument) = rest.next() {
            let Some(name) = argument.strip_prefix('-') else {
                if arguments.urls.replace(argument.into()).is_some() {
                    return Err(format!("{argument:?}: expected a single file of URLs"));
                }
                continue;
            };
            if ["h", "help", "-help"].contains(&name) {
                return Ok(None);
            }
            if !arguments.switch(name) {
                let mut value = || rest.next().ok_or_else(|| format!("-{name} needs a value"));
                arguments.value(name, &mut value)?;
            }
        }
        arguments.options().map(Some)
    }
}

impl Arguments {
    /// Parses an option without a value. Like http_load, accepts any unambiguous prefix.
    fn switch(&mut self, name: &str) -> bool {
        let switch = match name {
            "jitter" => &mut self.jitter,
            "checksum" => &mut self.checksum,
            "anybytes" => &mut self.any_bytes,
            "verbose" => &mut self.is_verbose,
            "insecure" | "k" => &mut self.is_insecure,
            _ => return false,
        };
        *switch = true;
        true
    }

    fn value<'a>(
        &mut self,
        name: &str,
        value: &mut dyn FnMut() -> Result<&'a String, String>,
    ) -> Result<(), String> {
        match name {
            "parallel" => self.parallel = Some(parse_number(name, value()?)?),
            "rate" => self.rate = Some(f64::from(parse_number::<u32>(name, value()?)?)),
            "fetches" => self.fetches = Some(parse_number(name, value()?)?),
            "seconds" => self.seconds = Some(parse_time(name, value()?)?),
            "timeout" => self.timeout = Some(parse_time(name, value()?)?),
            "sip" => self.sources = Some(value()?.into()),
            "throttle" | "throttle_kbps" | "cipher" | "proxy" => {
                return Err(format!(
                    "-{name} of the original http_load is not supported; see rudy http_load -help"
                ));
            }
            _ => return Err(format!("-{name} is unknown; see rudy http_load -help")),
        }
        Ok(())
    }

    fn options(self) -> Result<Options, String> {
        let start = match (self.parallel, self.rate) {
            (Some(parallel), None) if self.jitter => {
                return Err(format!("-jitter needs -rate instead of -parallel {parallel}"));
            }
            (Some(parallel), None) => Start::Parallel(parallel),
            (None, Some(per_second)) => Start::Rate { per_second, jitter: self.jitter },
            _ => return Err("expected either -parallel or -rate".into()),
        };
        let end = match (self.fetches, self.seconds) {
            (Some(fetches), None) => End::Fetches(fetches),
            (None, Some(seconds)) => End::Seconds(seconds),
            _ => return Err("expected either -fetches or -seconds".into()),
        };
        let check = match (self.checksum, self.any_bytes) {
            (true, true) => {
                return Err("-checksum and -anybytes exclude each other: remove one of them".into());
            }
            (true, false) => Check::Checksum,
            (false, true) => Check::Nothing,
            (false, false) => Check::Bytes,
        };
        Ok(Options {
            start,
            end,
            sources: self.sources.as_deref().map(read_sources).transpose()?.unwrap_or_default(),
            check,
            timeout: self.timeout.unwrap_or(Duration::from_mins(1)),
            is_verbose: self.is_verbose,
            is_insecure: self.is_insecure,
            urls: self.urls.ok_or("expected a file of URLs")?,
        })
    }
}

/// Parses an integer from 1.
fn parse_number<T: std::str::FromStr + PartialOrd + From<u8>>(name: &str, value: &str) -> Result<T, String> {
    let number = value.parse().ok().filter(|number| *number >= T::from(1));
    number.ok_or_else(|| format!("-{name} {value}: expected an integer from 1"))
}

/// A duration in seconds, greater than 0.
fn parse_time(name: &str, value: &str) -> Result<Duration, String> {
    match value.parse::<Time>() {
        Ok(Time(time)) if !time.is_zero() => Ok(time),
        _ => Err(format!("-{name} {value}: expected a number of seconds")),
    }
}

/// Reads a file with an IP address per line.
fn read_sources(path: &Path) -> Result<Vec<IpAddr>, String> {
    let text =
        fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    let mut sources = Vec::new();
    for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()) {
        let address = line.trim().parse();
        sources.push(
            address.map_err(|_| format!("{}:{number}: {line:?} is not an IP address", path.display()))?,
        );
    }
    if sources.is_empty() { Err(format!("{}: contains no address", path.display())) } else { Ok(sources) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Option<Options>, String> {
        Options::parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn the_command_lines_of_the_field_report_are_parsed() {
        let options = parse("-parallel 20 -fetches 1000 urls").unwrap().unwrap();
        assert_eq!((options.start, options.end), (Start::Parallel(20), End::Fetches(1000)));
        assert_eq!((options.check, options.timeout), (Check::Bytes, Duration::from_mins(1)));
        let options = parse("-rate 100 -jitter -seconds 60 -checksum urls").unwrap().unwrap();
        assert_eq!(options.start, Start::Rate { per_second: 100.0, jitter: true });
        assert_eq!((options.end, options.check), (End::Seconds(Duration::from_mins(1)), Check::Checksum));
    }

    #[test]
    fn rejects_conflicting_and_missing_options() {
        for (line, expected) in [
            ("", "either -parallel or -rate"),
            ("-parallel 1 -rate 2 -fetches 1 u", "either -parallel or -rate"),
            ("-parallel 1 u", "either -fetches or -seconds"),
            ("-parallel 1 -fetches 1", "a file of URLs"),
            ("-parallel 1 -fetches 1 a b", "a single file of URLs"),
            ("-parallel 0 -fetches 1 u", "-parallel 0: expected an integer"),
            ("-parallel", "-parallel needs a value"),
            ("-parallel 1 -jitter -fetches 1 u", "-jitter needs -rate"),
            ("-parallel 1 -seconds 0 u", "-seconds 0: expected a number of seconds"),
            ("-checksum -anybytes -parallel 1 -fetches 1 u", "remove one"),
            ("-throttle 1", "is not supported"),
            ("-x", "-x is unknown"),
        ] {
            let error = parse(line).unwrap_err();
            assert!(error.contains(expected), "{line}: {error}");
        }
        assert_eq!(parse("-help"), Ok(None));
        assert_eq!(parse("-parallel 1 --help"), Ok(None));
    }

    #[test]
    fn addresses_come_from_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sip");
        fs::write(&path, "127.0.0.2\n\n127.0.0.3\n").unwrap();
        assert_eq!(read_sources(&path).unwrap().len(), 2);
        fs::write(&path, "127.0.0.2\nx\n").unwrap();
        assert!(read_sources(&path).unwrap_err().ends_with("2: \"x\" is not an IP address"));
    }
}
