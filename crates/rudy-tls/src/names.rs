//! The names in a certificate.

use std::sync::Arc;

/// The names that a certificate is valid for: `example.org`, `*.example.org`, `192.0.2.1`, `::1`. In lower case. Clones share them: a
/// certificate may have hundreds, for as many sites.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Names(Arc<[String]>);

impl<S: Into<String>> FromIterator<S> for Names {
    fn from_iter<I: IntoIterator<Item = S>>(names: I) -> Self {
        Self(names.into_iter().map(|name| name.into().to_ascii_lowercase()).collect())
    }
}

impl Names {
    /// Whether the names include `name`, in lower case. `*` matches exactly one label (RFC 9525 §6.3), so
    /// `*.example.org` includes `www.example.org`, but neither `example.org` nor `a.b.example.org`. It includes itself.
    #[must_use]
    pub fn include(&self, name: &str) -> bool {
        let parent = name.split_once('.').map(|(_, parent)| parent);
        self.0.iter().any(|known| known == name || parent.is_some() && known.strip_prefix("*.") == parent)
    }

    /// Returns the names that `other` also includes.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        self.0
            .iter()
            .filter(|name| other.include(name))
            .chain(other.0.iter().filter(|name| self.include(name)))
            .collect()
    }

    /// Returns the names.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_matches_one_label() {
        let names: Names = ["example.org", "*.Example.net", "192.0.2.1", "::1"].into_iter().collect();
        for (name, is_included) in [
            ("example.org", true),
            ("www.example.org", false),
            ("www.example.net", true),
            ("*.example.net", true),
            ("example.net", false),
            ("a.b.example.net", false),
            ("192.0.2.1", true),
            ("::1", true),
            ("::2", false),
            ("", false),
            ("org", false),
        ] {
            assert_eq!(names.include(name), is_included, "{name}");
        }
        let other: Names = ["www.example.net", "::1"].into_iter().collect();
        let both = names.intersection(&other);
        assert!(both.include("www.example.net") && both.include("::1") && !both.include("b.example.net"));
    }
}
