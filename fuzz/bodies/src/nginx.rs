//! Configurations of nginx: any text is translated or rejected. What is written is TOML without secrets of the environment.

use rudy_import::{File, nginx};

pub(crate) fn run(text: &[u8]) {
    let Ok(text) = std::str::from_utf8(text) else { return };
    let main = File { name: "nginx.conf".to_owned(), text: text.to_owned() };
    let included = File { name: "included.conf".to_owned(), text: text.chars().rev().collect() };
    match nginx(&main, &mut |pattern| if pattern.len() > 8 { vec![included.clone()] } else { Vec::new() }) {
        Ok(import) => {
            assert!(
                !import.toml.replace("$${", "").contains("${"),
                "a variable of the environment: {}",
                import.toml
            );
            let open = import.report.not_translated.len();
            assert!(!import.report.unprotected || open > 0, "a protection is missing in the list");
        }
        Err(error) => assert!(error.place.line > 0 && !error.problem.is_empty()),
    }
}
