//! Fields of answers, as they are written in tables.

use std::collections::BTreeMap;

use http::{HeaderMap, HeaderName, HeaderValue};

use super::{Place, Problem};

/// Reads a table of fields; what is wrong in it goes to `problems`.
pub(crate) fn read(
    table: &BTreeMap<String, String>,
    place: &Place,
    problems: &mut Vec<Problem>,
) -> HeaderMap {
    let mut fields = HeaderMap::new();
    for (name, value) in table {
        let place = place.key(name);
        let Ok(field) = HeaderName::try_from(name) else {
            let problem = Problem::key(&place, format!("\"{name}\" is not a field name"));
            problems.push(problem.label("expected letters, digits and hyphens"));
            continue;
        };
        let Ok(value) = HeaderValue::try_from(value) else {
            problems.push(bad_value(&place));
            continue;
        };
        if fields.insert(field, value).is_some() {
            let problem = Problem::key(&place, format!("{name} is given twice"));
            problems.push(problem.label("upper and lower case are the same here"));
        }
    }
    fields
}

/// A value that would end its line, and with it the field.
pub(crate) fn bad_value(place: &Place) -> Problem {
    Problem::value(place, "a field's value has no line feeds or control characters")
}
