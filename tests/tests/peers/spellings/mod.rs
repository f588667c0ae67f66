//! Thousands of spellings of one request, compared between Rudy, nginx, lighttpd and Apache.

mod servers;

use rudy_tests::prelude::*;
use rudy_tests::spellings::{Comparison, ResponseSummary, Spelling, all, send_all};

use self::servers::Servers;

/// Simultaneous connections to each server.
const CONNECTIONS: usize = 32;

/// The seed that selects the compositions.
const SEED: u64 = 1;

#[test]
fn every_difference_from_nginx_lighttpd_and_apache_is_explained() {
    needs!(long());
    let Some(servers) = Servers::start() else { return };
    let spellings = all(SEED);
    let seen = servers.addresses().map(|(name, address)| (name, send_all(address, &spellings, CONNECTIONS)));
    for (name, seen) in &seen {
        let hangs = spellings.iter().zip(seen).find(|(_, seen)| !seen.is_closed);
        assert!(hangs.is_none(), "{name} neither responds nor closes: {hangs:?}");
    }
    let violations: Vec<_> = seen.iter().map(|(name, seen)| (*name, violations(&spellings, seen))).collect();
    println!("{violations:#?}");
    assert!(violations[0].1.is_empty(), "Rudy violates a rule for all servers: {:#?}", violations[0].1);
    let wrong = spellings.iter().zip(&seen[0].1).filter_map(|(spelling, seen)| seen.wrong_variable(spelling));
    let wrong: Vec<_> = wrong.collect();
    assert!(wrong.is_empty(), "Rudy passes a wrong variable to an application: {wrong:#?}");
    let comparison = Comparison { spellings: &spellings, servers: seen.into() };
    let differences = comparison.differences();
    println!("{}", comparison.describe_rules(&differences));
    let unexplained: Vec<_> = differences.iter().filter(|it| it.rule.is_none()).collect();
    let from_all = unexplained.iter().filter(|it| it.is_from_all()).count();
    assert!(
        unexplained.is_empty(),
        "{} of {} differences in {} spellings are unexplained, {from_all} of them from all other servers:\n{}",
        unexplained.len(),
        differences.len(),
        spellings.len(),
        comparison.describe(&unexplained)
    );
    let unused = Comparison::unused_rules(&differences);
    assert!(unused.is_empty(), "these rules explain no difference; correct or remove them: {unused:#?}");
}

/// Returns spellings that open a denied folder, smuggle a request, or make the server fail.
fn violations(spellings: &[Spelling], seen: &[ResponseSummary]) -> Vec<String> {
    let of_one = |(spelling, seen): (&Spelling, &ResponseSummary)| {
        Some(format!("{}: {}", seen.violation()?, spelling.bytes.escape_ascii()))
    };
    spellings.iter().zip(seen).filter_map(of_one).collect()
}
