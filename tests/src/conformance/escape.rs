//! Bytes as text: `\r`, `\n`, `\t`, `\\`, `\{`, `\xHH`, and `{text*count}` for repetitions.

/// Decodes the escapes in `text`.
pub(super) fn unescape(text: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        rest = &rest[character.len_utf8()..];
        match character {
            '\\' => rest = escape(rest, &mut bytes)?,
            '{' => {
                let (inner, after) = rest.split_once('}').ok_or("`{` without `}`; a plain one is `\\{`")?;
                let (piece, count) = inner.rsplit_once('*').ok_or("`{text*count}` without `*`")?;
                let count: usize = count.parse().map_err(|_| format!("`{count}` is not a count"))?;
                bytes.extend(unescape(piece)?.repeat(count));
                rest = after;
            }
            _ => bytes.extend(character.encode_utf8(&mut [0; 4]).bytes()),
        }
    }
    Ok(bytes)
}

/// Decodes the escape at the start of `rest`, after its backslash. Returns the text after it.
fn escape<'a>(rest: &'a str, bytes: &mut Vec<u8>) -> Result<&'a str, String> {
    let kind = rest.chars().next().ok_or("a backslash at the end")?;
    let after = &rest[kind.len_utf8()..];
    bytes.push(match kind {
        'r' => b'\r',
        'n' => b'\n',
        't' => b'\t',
        '\\' => b'\\',
        '{' => b'{',
        'x' => {
            let digits = after.get(..2).ok_or("`\\x` needs two digits")?;
            bytes.push(u8::from_str_radix(digits, 16).map_err(|_| format!("`{digits}` is not hexadecimal"))?);
            return Ok(&after[2..]);
        }
        _ => return Err(format!("`\\{kind}` is not an escape")),
    });
    Ok(after)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_decoded() {
        assert_eq!(unescape(r"a\r\n\x00\xff\\\{{ab*2}é").unwrap(), b"a\r\n\0\xff\\{abab\xc3\xa9");
        for wrong in [r"\q", r"\x1", r"\xgg", "{a", "{a}", "{a*b}", "\\"] {
            assert!(unescape(wrong).is_err(), "{wrong}");
        }
    }
}
