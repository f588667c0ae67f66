//! A set of networks, and one that is read from a file.

use std::cmp::Reverse;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use rudy_system::line_file::{each_line, read_text};
use rudy_system::watched_files::{Seen, Watched, stamp};
use rudy_units::counted;

use crate::network::Network;

/// Networks as ranges of addresses, in order and without overlaps: a lookup is a binary search.
#[derive(Debug, Default)]
pub(super) struct Networks(Vec<(IpAddr, IpAddr)>);

impl FromIterator<Network> for Networks {
    fn from_iter<I: IntoIterator<Item = Network>>(networks: I) -> Self {
        let mut ranges: Vec<_> = networks.into_iter().map(|network| network.range()).collect();
        ranges.sort_by_key(|(first, last)| (*first, Reverse(*last)));
        // Of two networks that overlap, one contains the other.
        ranges.dedup_by(|later, earlier| later.1 <= earlier.1);
        Self(ranges)
    }
}

impl Networks {
    /// Whether one of the networks contains an address.
    pub(super) fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        let begun = self.0.partition_point(|(first, _)| *first <= address);
        begun.checked_sub(1).and_then(|at| self.0.get(at)).is_some_and(|(_, last)| address <= *last)
    }
}

/// A file with a network in each line. It is read again when it changes.
#[derive(Debug)]
pub(super) struct NetworkFile {
    path: PathBuf,
    networks: ArcSwap<Networks>,
    seen: Mutex<Seen>,
}

impl NetworkFile {
    /// Reads a file. The error is each line that is wrong.
    pub(super) fn read(path: &Path) -> Result<Self, Vec<String>> {
        let seen = Mutex::new(Seen::new(vec![stamp(path)]));
        let networks = ArcSwap::from_pointee(read(path)?.into_iter().collect());
        Ok(Self { path: path.to_owned(), networks, seen })
    }

    /// Whether one of the networks contains an address.
    pub(super) fn contains(&self, address: IpAddr) -> bool {
        self.networks.load().contains(address)
    }
}

impl Watched for NetworkFile {
    fn update(&self) -> Option<Result<String, String>> {
        let (path, mut seen) = (&self.path, self.seen.lock());
        let networks = seen.update(vec![stamp(path)], || read(path).map_err(|faults| faults.join("; ")))?;
        let file = path.display();
        Some(match networks {
            Ok(networks) => {
                let count = counted(networks.len(), "network");
                self.networks.store(networks.into_iter().collect::<Networks>().into());
                Ok(format!("{file} has changed: it has {count} of trusted proxies now"))
            }
            Err(why) => Err(format!("cannot use {file}: {why}; its old networks stay trusted")),
        })
    }
}

fn read(path: &Path) -> Result<Vec<Network>, Vec<String>> {
    parse(&read_text(path).map_err(|why| vec![why])?)
}

fn parse(text: &str) -> Result<Vec<Network>, Vec<String>> {
    let mut networks = Vec::new();
    each_line(text, |line| {
        let network = line.split('#').next().unwrap_or_default().trim();
        networks.push(network.parse().map_err(|expected| format!("is no network: {expected}"))?);
        Ok(())
    })?;
    // A download that failed leaves such a file.
    if networks.is_empty() { Err(vec!["it has no networks".to_owned()]) } else { Ok(networks) }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_file_has_a_network_in_each_line() {
        let networks =
            |text: &str| parse(text).map(|list| list.iter().map(ToString::to_string).collect::<Vec<_>>());
        let text = "# Cloudflare\n\n103.21.244.0/22\r\n  2400:cb00::/32 # IPv6\n192.0.2.1";
        assert_eq!(networks(text).unwrap(), ["103.21.244.0/22", "2400:cb00::/32", "192.0.2.1"]);
        for text in ["", "\n", "# none\n"] {
            assert_eq!(networks(text).unwrap_err(), ["it has no networks"], "{text:?}");
        }
        let faults = networks("10.0.0.0/8\n<html>\n10.0.0.0/33\nunix\n").unwrap_err();
        let expected = "is no network: expected an address, or a network such as \"10.0.0.0/8\"";
        let prefix = "line 3 is no network: expected a number from 0 to 32 behind the slash";
        assert_eq!(faults, [format!("line 2 {expected}"), prefix.to_owned(), format!("line 4 {expected}")]);
    }

    #[test]
    fn a_file_that_breaks_keeps_its_networks() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cdn.txt");
        let replace = |text: &str| {
            let new = folder.path().join("new");
            fs::write(&new, text).unwrap();
            fs::rename(&new, &path).unwrap();
        };
        assert!(NetworkFile::read(&path).is_err());
        replace("10.0.0.0/8\n");
        let file = NetworkFile::read(&path).unwrap();
        let contains = |address: &str| file.contains(address.parse().unwrap());
        assert_eq!(file.update(), None);
        replace("10.0.0.0/8\n192.0.2.0/24\n");
        assert!(file.update().unwrap().unwrap().ends_with("has 2 networks of trusted proxies now"));
        assert!(contains("10.1.2.3") && contains("192.0.2.7"));
        replace("<html>\n");
        let why = file.update().unwrap().unwrap_err();
        assert!(
            why.contains("line 1 is no network") && why.ends_with("its old networks stay trusted"),
            "{why}"
        );
        fs::remove_file(&path).unwrap();
        assert!(file.update().unwrap().is_err());
        assert!(contains("10.1.2.3") && contains("192.0.2.7") && !contains("192.0.3.7"));
    }

    /// Networks and addresses with few different bits, so that many overlap.
    fn network() -> impl Strategy<Value = Network> {
        let v4 = (0..4_u32, 28..=32_u8).prop_map(|(low, prefix)| format!("10.0.0.{}/{prefix}", low * 5));
        let v6 = (0..16_u32, 120..=128_u8).prop_map(|(low, prefix)| format!("::{low}/{prefix}"));
        prop_oneof![v4, v6].prop_map(|text| text.parse().unwrap())
    }

    proptest! {
        #[test]
        fn a_set_contains_what_one_of_its_networks_contains(list in prop::collection::vec(network(), 0..8)) {
            let set: Networks = list.iter().copied().collect();
            for low in 0..40 {
                for address in [format!("10.0.0.{low}"), format!("::{low}"), format!("::ffff:10.0.0.{low}")] {
                    let address = address.parse().unwrap();
                    let expected = list.iter().any(|network| network.contains(address));
                    prop_assert_eq!(set.contains(address), expected, "{}", address);
                }
            }
        }
    }
}
