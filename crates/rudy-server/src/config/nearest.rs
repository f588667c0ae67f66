//! Names for which another was probably meant.

/// Keys that had another name, or were in another place, in earlier versions.
const REPLACED: [(&str, &str); 20] = [
    ("answer_time", "`response_timeout`"),
    ("app_root", "`upstream_root`"),
    ("connect_time", "`connect_timeout`"),
    ("head_time", "`head_timeout`"),
    ("hidden", "`serve_hidden`"),
    ("history_time", "`history_timeout`"),
    ("idle_time", "`idle_timeout`"),
    ("keep_time", "`idle_timeout`"),
    ("linger_time", "`linger_timeout`"),
    ("memory_bytes", "`cache_size`"),
    ("memory_file_bytes", "`cache_max_file_size`"),
    ("needs_length", "`buffer_chunked`"),
    ("queue_time", "`queue_timeout`"),
    ("retire_time", "`retire_timeout`"),
    ("send_stall_time", "`send_stall_timeout`"),
    ("shutdown", "`shutdown_timeout = \"30s\"`, at the top of the main file"),
    ("spill_bytes", "`buffer_total`, for the whole server, at the top of the main file"),
    ("spill_folder", "`buffer_dir`, for the whole server, at the top of the main file"),
    ("split", "`script_suffix`"),
    ("stop_time", "`stop_timeout`"),
];

/// What replaces a key of an earlier version.
pub(super) fn replacement(key: &str) -> Option<&'static str> {
    REPLACED.iter().find(|(old, _)| *old == key).map(|(_, new)| *new)
}

/// The candidate that `text` was probably meant to be: at most one slip in three letters.
pub(super) fn nearest<'a>(text: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let (distance, candidate) =
        candidates.map(|candidate| (edit_distance(text, candidate), candidate)).min()?;
    (distance <= text.chars().count().max(candidate.chars().count()).div_ceil(3)).then_some(candidate)
}

/// Letters to insert, drop, replace or swap with their neighbour (optimal string alignment).
fn edit_distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let replaced = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = replaced.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(before[j - 2] + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_key_is_found_within_one_slip_in_three_letters() {
        let known = ["head_timeout", "head_bytes", "idle_timeout", "path", "root"];
        for (text, near) in [
            ("hed_time", Some("head_timeout")),
            ("haed_time", Some("head_timeout")),
            ("head-bytes", Some("head_bytes")),
            ("idle_tiem", Some("idle_timeout")),
            ("rot", Some("root")),
            ("frobnicate", None),
            ("", None),
        ] {
            assert_eq!(nearest(text, known.into_iter()), near, "{text}");
        }
    }
}
