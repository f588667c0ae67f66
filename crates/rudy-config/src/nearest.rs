//! Words that were probably meant.

/// Returns the most similar candidate, with at most one typo per three letters, or one in a short word.
pub(crate) fn nearest<'a>(text: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let with_distance = candidates.map(|candidate| (strsim::osa_distance(text, candidate), candidate));
    let (distance, candidate) = with_distance.min()?;
    (distance <= (text.chars().count().max(candidate.chars().count()) / 3).max(1)).then_some(candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_similar_key_is_found() {
        let known = ["head_timeout", "head_bytes", "idle_timeout", "path", "root"];
        for (text, near) in [
            ("hed_timeout", Some("head_timeout")),
            ("haed_timeout", Some("head_timeout")),
            ("head-bytes", Some("head_bytes")),
            ("idle_tiemout", Some("idle_timeout")),
            ("rot", Some("root")),
            ("frobnicate", None),
            ("auth", None),
            ("", None),
        ] {
            assert_eq!(nearest(text, known.into_iter()), near, "{text}");
        }
    }
}
