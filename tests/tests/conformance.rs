//! Every case of `tests/conformance`, run against the protocol machine.

use std::collections::HashSet;
use std::path::Path;

use rudy_tests::conformance::{Case, Step, check, load_all, pure};

/// Every position of a shorter input is a split; of a longer one some are, because the cost grows with the square.
const ALL_SPLITS_BYTES: usize = 2048;

#[test]
fn cases_hold_in_one_piece_and_at_every_split() {
    let cases = cases();
    let failures: Vec<String> = cases.iter().filter_map(failures).collect();
    assert!(
        failures.is_empty(),
        "{} of {} cases fail:\n{}",
        failures.len(),
        cases.len(),
        failures.join("\n")
    );
}

#[test]
fn names_of_cases_are_unique() {
    let mut names = HashSet::new();
    for case in cases() {
        assert!(names.insert(case.name.clone()), "{}: `{}` is a name already taken", case.place, case.name);
    }
}

fn cases() -> Vec<Case> {
    load_all(&Path::new(env!("CARGO_MANIFEST_DIR")).join("conformance"))
}

/// What is wrong with a case: as a whole, or at the first split that makes a difference.
fn failures(case: &Case) -> Option<String> {
    let failure = |how: &str, wrong: &str| Some(format!("{}: {}, {how}: {wrong}", case.place, case.name));
    let whole = pure::run(case, usize::MAX, usize::MAX);
    if let Err(wrong) = check(case, &whole) {
        return failure("in one piece", &wrong);
    }
    let bytewise = pure::run(case, usize::MAX, 1);
    if bytewise != whole {
        return failure("byte by byte", &format!("{bytewise}\nin one piece {whole}"));
    }
    let bytes =
        case.steps.iter().map(|step| if let Step::Send(bytes) = step { bytes.len() } else { 0 }).sum();
    let stride = if bytes <= ALL_SPLITS_BYTES { 1 } else { 97 };
    (1..bytes).step_by(stride).find_map(|split| {
        let seen = pure::run(case, split, usize::MAX);
        (seen != whole)
            .then(|| failure(&format!("split at {split}"), &format!("{seen}\nin one piece {whole}")))?
    })
}
