//! Checksums of the metadata of Maven, such as `maven-metadata.xml.sha1`. The mirror computes them from the metadata that it sends: those
//! of the repository could belong to another version, which was stored at another time.

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, SHA256, SHA512, digest};
use md5::{Digest as _, Md5};

use super::Resource;

/// An algorithm, by the ending of a file with its checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Algorithm {
    Md5,
    Sha1,
    Sha256,
    Sha512,
}

const ENDINGS: [(&str, Algorithm); 4] = [
    (".md5", Algorithm::Md5),
    (".sha1", Algorithm::Sha1),
    (".sha256", Algorithm::Sha256),
    (".sha512", Algorithm::Sha512),
];

impl Algorithm {
    /// Returns the checksum of a content in hexadecimal digits.
    pub(super) fn checksum(self, content: &[u8]) -> String {
        let of = |algorithm| digest(algorithm, content).as_ref().to_vec();
        let hash = match self {
            Self::Md5 => Md5::digest(content).to_vec(),
            Self::Sha1 => of(&SHA1_FOR_LEGACY_USE_ONLY),
            Self::Sha256 => of(&SHA256),
            Self::Sha512 => of(&SHA512),
        };
        hash.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
    }
}

/// Returns the metadata that a resource is the checksum of, and the algorithm.
pub(super) fn metadata_of(resource: &Resource) -> Option<(Resource, Algorithm)> {
    let (ending, algorithm) = ENDINGS.into_iter().find(|(ending, _)| resource.path.ends_with(ending))?;
    let path = resource.path.strip_suffix(ending)?;
    let file = path.rsplit('/').next().unwrap_or_default();
    if !file.starts_with("maven-metadata") || file.strip_suffix(".xml").is_none() {
        return None;
    }
    let (target, query) =
        resource.target.split_at(resource.target.find('?').unwrap_or(resource.target.len()));
    let target = format!("{}{query}", target.strip_suffix(ending)?);
    Some((Resource { target, path: path.to_owned(), ..resource.clone() }, algorithm))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_metadata_that_changes_has_computed_checksums() {
        for (path, expected) in [
            ("/a/maven-metadata.xml.sha1", Some(("/m/a/maven-metadata.xml?x", Algorithm::Sha1))),
            (
                "/a/1-SNAPSHOT/maven-metadata.xml.md5",
                Some(("/m/a/1-SNAPSHOT/maven-metadata.xml?x", Algorithm::Md5)),
            ),
            ("/maven-metadata-x.xml.sha512", Some(("/m/maven-metadata-x.xml?x", Algorithm::Sha512))),
            ("/a/maven-metadata.xml", None),
            ("/a/maven-metadata.xml.asc", None),
            ("/a/maven-metadata.xml.sha1.sha1", None),
            ("/a/1/a-1.jar.sha1", None),
        ] {
            let (target, origin) = (format!("/m{path}?x"), String::new());
            let resource = Resource { origin, target, path: path.to_owned(), is_of_index: true };
            let found = metadata_of(&resource);
            let found = found.as_ref().map(|(metadata, algorithm)| (metadata.target.as_str(), *algorithm));
            assert_eq!(found, expected, "{path}");
        }
    }

    #[test]
    fn checksums_are_hexadecimal() {
        for (ending, algorithm, expected) in [
            (".md5", Algorithm::Md5, "d41d8cd98f00b204e9800998ecf8427e"),
            (".sha1", Algorithm::Sha1, "da39a3ee5e6b4b0d3255bfef95601890afd80709"),
            (
                ".sha256",
                Algorithm::Sha256,
                "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
            ),
        ] {
            assert_eq!(algorithm.checksum(b""), expected, "{ending}");
        }
        assert_eq!(Algorithm::Sha512.checksum(b"").len(), 128);
    }
}
