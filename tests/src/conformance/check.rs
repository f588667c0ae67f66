//! Compares what a run yielded with what its case expects.

use super::case::lines;
use super::wire::{WireAnswer, read_answers};
use super::{Case, End, Expected, ExpectedAnswer, Seen};

/// What is wrong with a run, in words; nothing if all is as the case expects.
pub fn check(case: &Case, seen: &Seen) -> Result<(), String> {
    if seen.end != case.end {
        return Err(format!("the connection should be {:?} and is {:?}", case.end, seen.end));
    }
    if let Some(saw) = &case.saw
        && *saw != seen.saw
    {
        return Err(format!("the service should have seen {saw:#?} and saw {:#?}", seen.saw));
    }
    let mut methods: Vec<&str> = seen.saw.iter().filter_map(|line| requested_method(line)).collect();
    if let Expected::Answers(expected) = &case.expected
        && expected.last().is_some_and(|last| last.to_head)
    {
        methods.push("HEAD");
    }
    let answers = read_answers(&seen.output, &methods)?;
    match &case.expected {
        Expected::Bytes(bytes) if *bytes == seen.output => {}
        Expected::Bytes(bytes) => return Err(format!("should have come:\n{}\n{seen}", lines(bytes))),
        Expected::Answers(expected) => {
            check_answers(expected, &answers).map_err(|wrong| format!("{wrong}\n{seen}"))?;
        }
    }
    let is_broken = answers.last().is_some_and(|answer| !answer.complete);
    if is_broken && seen.end != End::Cut {
        return Err("the last answer is broken off, and the connection was not cut".into());
    }
    Ok(())
}

/// `GET` of `GET /hello`, but nothing of `body …` and `trailer …`.
fn requested_method(line: &str) -> Option<&str> {
    line.split_once(' ').map(|(method, _)| method).filter(|word| *word != "body" && *word != "trailer")
}

fn check_answers(expected: &[ExpectedAnswer], answers: &[WireAnswer]) -> Result<(), String> {
    let statuses = |of: Vec<u16>| of.iter().map(u16::to_string).collect::<Vec<_>>().join(" ");
    let wanted = statuses(expected.iter().map(|answer| answer.status).collect());
    let came = statuses(answers.iter().map(|answer| answer.status).collect());
    if wanted != came {
        return Err(format!("the statuses should be `{wanted}` and are `{came}`"));
    }
    for (expected, answer) in expected.iter().zip(answers) {
        check_answer(expected, answer).map_err(|wrong| format!("the {} {wrong}", answer.status))?;
    }
    Ok(())
}

fn check_answer(expected: &ExpectedAnswer, answer: &WireAnswer) -> Result<(), String> {
    for (name, value) in &expected.fields {
        let mut fields = answer.fields.iter().chain(&answer.trailers);
        if !fields.any(|field| field.0 == *name && field.1 == *value) {
            return Err(format!("lacks `{name}: {value}`"));
        }
    }
    if let Some(name) = expected.absent.iter().find(|name| answer.values(name).next().is_some()) {
        return Err(format!("has `{name}`"));
    }
    if expected.body.as_ref().is_some_and(|body| *body != answer.body) {
        return Err(format!("has the body `{}`", answer.body.escape_ascii()));
    }
    let said = String::from_utf8_lossy(&answer.body);
    match &expected.says {
        Some(words) if !said.contains(words.as_str()) => Err(format!("does not say `{words}`, but `{said}`")),
        _ => Ok(()),
    }
}
