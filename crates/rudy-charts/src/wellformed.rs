//! A simple check for well-formed XML, for tests.

/// Returns the first error.
pub(crate) fn check(document: &str) -> Result<(), String> {
    if let Some(character) = document.chars().find(|character| !is_allowed(*character)) {
        return Err(format!("{character:?} cannot be in XML"));
    }
    let mut open: Vec<&str> = Vec::new();
    let mut rest = document;
    let mut roots = 0;
    while let Some(start) = rest.find('<') {
        text(&rest[..start], open.is_empty())?;
        let end = tag_end(&rest[start..])? + start;
        let tag = &rest[start + 1..end];
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            match open.pop() {
                Some(opened) if opened == name => {}
                opened => return Err(format!("</{name}> ends {opened:?}")),
            }
            continue;
        }
        let (tag, is_whole) = tag.strip_suffix('/').map_or((tag, false), |tag| (tag, true));
        let (name, attributes_of) = tag.split_once(' ').unwrap_or((tag, ""));
        roots += usize::from(open.is_empty());
        attributes(attributes_of)?;
        if !is_whole {
            open.push(name);
        }
    }
    text(rest, true)?;
    if open.is_empty() && roots == 1 {
        Ok(())
    } else {
        Err(format!("{roots} roots, and left open: {open:?}"))
    }
}

fn is_allowed(character: char) -> bool {
    !matches!(character, '\0'..='\u{8}' | '\u{b}' | '\u{c}' | '\u{e}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}')
}

/// An end that is not in an attribute's value.
fn tag_end(tag: &str) -> Result<usize, String> {
    let mut is_quoted = false;
    for (index, byte) in tag.bytes().enumerate() {
        match byte {
            b'"' => is_quoted = !is_quoted,
            b'>' if !is_quoted => return Ok(index),
            _ => {}
        }
    }
    Err(format!("a tag without an end: {tag}"))
}

fn attributes(mut rest: &str) -> Result<(), String> {
    let mut seen = Vec::new();
    while !rest.trim().is_empty() {
        let (name, after) = rest.trim_start().split_once("=\"").ok_or(format!("no attribute: {rest}"))?;
        let (value, after) = after.split_once('"').ok_or(format!("a value without an end: {rest}"))?;
        if seen.contains(&name) || name.contains(char::is_whitespace) {
            return Err(format!("{name:?} is not an attribute's name, or there twice"));
        }
        if value.contains('<') {
            return Err(format!("< in {name}=\"{value}\""));
        }
        seen.push(name);
        references(value)?;
        rest = after;
    }
    Ok(())
}

fn text(text: &str, is_outside: bool) -> Result<(), String> {
    if is_outside && !text.trim().is_empty() {
        return Err(format!("text outside: {text}"));
    }
    references(text)
}

fn references(text: &str) -> Result<(), String> {
    let known = ["amp;", "lt;", "gt;", "quot;", "#39;"];
    match text.split('&').skip(1).find(|after| !known.iter().any(|known| after.starts_with(known))) {
        Some(after) => Err(format!("no reference: &{after}")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn invalid_xml_is_found() {
        assert_eq!(check("<a x=\"1 &gt; &quot;\"><b/>t &amp; u</a>\n"), Ok(()));
        for wrong in [
            "",
            "<a>",
            "<a></b>",
            "<a/><b/>",
            "<a>&</a>",
            "<a x=\"&nbsp;\"/>",
            "<a x=\"<\"/>",
            "<a x=\"1\" x=\"2\"/>",
            "t<a/>",
            "<a>\u{1}</a>",
            "<a x=1/>",
        ] {
            assert!(check(wrong).is_err(), "{wrong}");
        }
    }
}
