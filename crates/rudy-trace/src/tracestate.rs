//! The field `tracestate`, in which tracing systems keep what they need besides `traceparent` (W3C Trace Context §3.3). Rudy has no member
//! of its own, and passes the others on unchanged.

/// The maximum number of members (§3.3.1.1).
const MEMBERS_MAX: usize = 32;

/// The maximum size of a key, and of a value (§3.3.1.3).
const PART_BYTES_MAX: usize = 256;

/// The size up to which the field is passed on. The recommendation asks for at least 512 (§3.3.1.5); members above it are left out, the
/// long ones first.
pub const BYTES_MAX: usize = 512;

/// The size of a member that is left out before shorter ones (§3.3.1.5).
const LONG_MEMBER_BYTES: usize = 128;

/// Joins the lines of the field. `None` if it is empty or invalid: then it is not passed on, but `traceparent` is (§3.3.1).
pub fn join<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Option<String> {
    let mut members: Vec<&str> = Vec::new();
    for member in lines.flat_map(|line| line.split(|byte| *byte == b',')) {
        let member = std::str::from_utf8(member.trim_ascii()).ok()?;
        // §3.3.1.1: empty members are allowed.
        if member.is_empty() {
            continue;
        }
        let (key, value) = member.split_once('=')?;
        let is_repeated = members.iter().any(|known| known.split('=').next() == Some(key));
        if !is_key(key) || !is_value(value) || is_repeated || members.len() == MEMBERS_MAX {
            return None;
        }
        members.push(member);
    }
    shorten(&mut members);
    (!members.is_empty()).then(|| members.join(","))
}

/// Leaves out members until the others fit: first those above 128 bytes, then from the end (§3.3.1.5).
fn shorten(members: &mut Vec<&str>) {
    let is_too_long =
        |members: &[&str]| members.iter().map(|member| member.len() + 1).sum::<usize>() > BYTES_MAX + 1;
    while is_too_long(members) {
        let long = members.iter().rposition(|member| member.len() > LONG_MEMBER_BYTES);
        members.remove(long.unwrap_or(members.len() - 1));
    }
}

/// Whether a text is a key (§3.3.1.3.1): a name, or one with the name of a tenant in front (`fw529a3039@dt`).
fn is_key(key: &str) -> bool {
    let is_inner = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'*' | b'/');
    let is_name = |name: &str, max: usize, starts_with_digit: bool| {
        let first = name.bytes().next();
        first.is_some_and(|first| first.is_ascii_lowercase() || starts_with_digit && first.is_ascii_digit())
            && name.len() <= max
            && name.bytes().all(is_inner)
    };
    match key.split_once('@') {
        Some((tenant, system)) => is_name(tenant, 241, true) && is_name(system, 14, false),
        None => is_name(key, PART_BYTES_MAX, true),
    }
}

/// Whether a text is a value (§3.3.1.3.2): visible characters and spaces, without those that separate members.
fn is_value(value: &str) -> bool {
    let is_allowed = |byte: u8| matches!(byte, b' '..=b'~') && byte != b'=';
    (1..=PART_BYTES_MAX).contains(&value.len()) && value.bytes().all(is_allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(lines: &[&str]) -> Option<String> {
        join(lines.iter().map(|line| line.as_bytes()))
    }

    #[test]
    fn section_3_3_1_members_of_several_lines_are_one_list() {
        for (lines, expected) in [
            (&["congo=t61rcWkgMzE"][..], Some("congo=t61rcWkgMzE")),
            (&["rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"], Some("rojo=00f067aa0ba902b7,congo=t61rcWkgMzE")),
            (&["rojo=1", "congo=2"], Some("rojo=1,congo=2")),
            (&[" rojo=1 \t,,\tcongo=2", ""], Some("rojo=1,congo=2")),
            (&["fw529a3039@dt=FfkAQEA,0a/_-*=~ !"], Some("fw529a3039@dt=FfkAQEA,0a/_-*=~ !")),
            (&[""], None),
            (&[], None),
        ] {
            assert_eq!(joined(lines).as_deref(), expected, "{lines:?}");
        }
    }

    #[test]
    fn section_3_3_1_3_an_invalid_member_makes_the_field_invalid() {
        for invalid in [
            "rojo",
            "rojo=",
            "=1",
            "Rojo=1",
            "ro jo=1",
            "rojo=1=2",
            "rojo=\u{e9}",
            "rojo=\t1\t2",
            "_a=1",
            "a@=1",
            "@a=1",
            "a@1b=1",
            "a@b@c=1",
            "rojo=1,rojo=2",
            "a=1;b=2=",
        ] {
            assert_eq!(joined(&["ok=1", invalid]), None, "{invalid}");
        }
        for (key, value, is_valid) in [(256, 256, true), (257, 1, false), (1, 257, false)] {
            let member = format!("{}={}", "k".repeat(key), "v".repeat(value));
            let members = member.split_once('=').map(|(key, value)| is_key(key) && is_value(value));
            assert_eq!(members, Some(is_valid), "{key} {value}");
        }
    }

    #[test]
    fn section_3_3_1_1_more_than_32_members_are_invalid() {
        let members =
            |count: usize| (0..count).map(|number| format!("k{number}=v")).collect::<Vec<_>>().join(",");
        assert_eq!(joined(&[&members(32)]), Some(members(32)));
        assert_eq!(joined(&[&members(33)]), None);
    }

    #[test]
    fn section_3_3_1_5_members_above_512_bytes_are_left_out_the_long_ones_first() {
        let long = |key: &str| format!("{key}={}", "v".repeat(200));
        let short = |key: &str| format!("{key}={}", "v".repeat(60));
        let all = [long("a"), short("b"), long("c"), short("d"), short("e")];
        assert_eq!(joined(&[&all.join(",")]), Some([&all[0][..], &all[1], &all[3], &all[4]].join(",")));
        let shorts: Vec<_> = (0..10).map(|number| short(&format!("k{number}"))).collect();
        assert_eq!(joined(&[&shorts.join(",")]), Some(shorts[..8].join(",")));
        let exact = format!("a={},b={}", "v".repeat(253), "v".repeat(254));
        assert_eq!((exact.len(), joined(&[&exact])), (512, Some(exact.clone())));
        let longer = exact.clone() + "v";
        assert_eq!(joined(&[&longer]).as_deref(), exact.split(',').next(), "513 bytes");
    }
}
