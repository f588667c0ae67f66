//! Compares the result of a run with the expectations of its case.

use super::case::lines;
use super::wire::{WireResponse, read_responses};
use super::{Case, End, Expected, ExpectedResponse, Transcript};

/// Checks the result of a run. The error describes the first difference.
pub fn check(case: &Case, transcript: &Transcript) -> Result<(), String> {
    if transcript.end != case.end {
        return Err(format!("the connection is {:?}, expected {:?}", transcript.end, case.end));
    }
    if let Some(saw) = &case.saw
        && *saw != transcript.saw
    {
        return Err(format!("the service saw {:#?}, expected {saw:#?}", transcript.saw));
    }
    let mut methods: Vec<&str> = transcript.saw.iter().filter_map(|line| requested_method(line)).collect();
    if let Expected::Responses(expected) = &case.expected
        && expected.last().is_some_and(|last| last.to_head)
    {
        methods.push("HEAD");
    }
    let responses = read_responses(&transcript.output, &methods)?;
    match &case.expected {
        Expected::Bytes(bytes) if *bytes == transcript.output => {}
        Expected::Bytes(bytes) => return Err(format!("expected:\n{}\n{transcript}", lines(bytes))),
        Expected::Responses(expected) => {
            check_responses(expected, &responses).map_err(|wrong| format!("{wrong}\n{transcript}"))?;
        }
    }
    let is_broken = responses.last().is_some_and(|response| !response.complete);
    if is_broken && transcript.end != End::Cut {
        return Err("the last response is incomplete, but the connection was not cut".into());
    }
    Ok(())
}

/// Returns the method of a `saw` line, such as `GET /hello`. `None` for `body …` and `trailer …`.
fn requested_method(line: &str) -> Option<&str> {
    line.split_once(' ').map(|(method, _)| method).filter(|word| *word != "body" && *word != "trailer")
}

pub(super) fn check_responses(
    expected: &[ExpectedResponse],
    responses: &[WireResponse],
) -> Result<(), String> {
    let statuses = |of: Vec<u16>| of.iter().map(u16::to_string).collect::<Vec<_>>().join(" ");
    let wanted = statuses(expected.iter().map(|response| response.status).collect());
    let received = statuses(responses.iter().map(|response| response.status).collect());
    if wanted != received {
        return Err(format!("the statuses are `{received}`, expected `{wanted}`"));
    }
    for (expected, response) in expected.iter().zip(responses) {
        check_response(expected, response).map_err(|wrong| format!("the {} {wrong}", response.status))?;
    }
    Ok(())
}

fn check_response(expected: &ExpectedResponse, response: &WireResponse) -> Result<(), String> {
    for (name, value) in &expected.fields {
        let mut fields = response.fields.iter().chain(&response.trailers);
        if !fields.any(|field| field.0 == *name && field.1 == *value) {
            return Err(format!("lacks `{name}: {value}`"));
        }
    }
    if let Some(name) = expected.absent.iter().find(|name| response.values(name).next().is_some()) {
        return Err(format!("has `{name}`"));
    }
    if expected.body.as_ref().is_some_and(|body| *body != response.body) {
        return Err(format!("has the body `{}`", response.body.escape_ascii()));
    }
    let body = String::from_utf8_lossy(&response.body);
    match &expected.contains {
        Some(text) if !body.contains(text.as_str()) => Err(format!("has the body `{body}` without `{text}`")),
        _ => Ok(()),
    }
}
