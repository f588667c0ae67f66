//! The bills of materials, and the list of crates in each program.

use flate2::read::ZlibDecoder;
use rudy_tests::prelude::*;

use crate::system::release;

/// Returns the crates that the section `.dep-v0` of a program lists, each a name and a version: what `cargo audit bin` reads.
fn crates_in(program: &Path) -> BTreeSet<(String, String)> {
    let mut readelf = Command::new("readelf");
    let sections = Output::of(readelf.args(["--wide", "--section-headers"]).arg(program)).succeeded();
    let line = sections.lines().find_map(|line| line.split_once(" .dep-v0 "));
    let line = line.unwrap_or_else(|| panic!("{} lists no crates:\n{sections}", program.display())).1;
    // The type, the address, the offset, the size.
    let numbers: Vec<_> = line.split_whitespace().collect();
    let number = |column: usize| {
        usize::from_str_radix(numbers[column], 16).expect("readelf prints hexadecimal numbers")
    };
    let section = &fs::read(program).expect("the program can be read")[number(2)..][..number(3)];
    let list: Value =
        serde_json::from_reader(ZlibDecoder::new(section)).expect("the section is compressed JSON");
    names(&list["packages"], |package| package["kind"] != "build")
}

fn names(packages: &Value, is_included: impl Fn(&Value) -> bool) -> BTreeSet<(String, String)> {
    let packages = packages.as_array().expect("it is a list").iter().filter(|package| is_included(package));
    let text = |value: &Value| value.as_str().expect("it is text").to_owned();
    packages.map(|package| (text(&package["name"]), text(&package["version"]))).collect()
}

#[test]
fn the_bill_of_a_program_lists_the_crates_that_it_contains() {
    let (Some(release), Some(_)) = (release(), program("readelf")) else { return };
    for processor in ["x86_64", "aarch64"] {
        let file = release.join(format!("rudy-{}-{processor}.cdx.json", env!("CARGO_PKG_VERSION")));
        let bill = fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let bill: Value = serde_json::from_slice(&bill).expect("the bill is JSON");
        assert_eq!((&bill["bomFormat"], &bill["specVersion"]), (&json!("CycloneDX"), &json!("1.5")));
        let mut listed = names(&bill["components"], |_| true);
        listed.extend(names(&json!([bill["metadata"]["component"]]), |_| true));
        let contained = crates_in(&release.join("programs").join(processor).join("rudy"));
        assert!(contained.len() > 100, "{contained:?}");
        let missing: Vec<_> = contained.difference(&listed).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }
}
