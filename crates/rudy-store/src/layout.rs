//! The names of the files in the folder of a store.
//!
//! ```text
//! lock                  held by the process that stores
//! state                 seed, number of the run, purges (purge/list.rs)
//! snapshot              the index, from the end of a process to the next start (snapshot.rs)
//! temporary/N           objects in transfer
//! objects/a/bc/abc…     an object: 32 hex digits of its id, in folders of their first digits
//! ```

use std::fmt::Write;

use http::HeaderMap;
use rudy_cache::index::{ObjectId, Seed};
use rudy_cache::{Key, Variant};

pub(crate) const LOCK: &str = "lock";
pub(crate) const STATE: &str = "state";
pub(crate) const SNAPSHOT: &str = "snapshot";
pub(crate) const OBJECTS: &str = "objects";
pub(crate) const TEMPORARY: &str = "temporary";

/// Computes ids. All objects of a key have the half of the id in common that begins the name of the file: they are in one folder.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ids(pub(crate) Seed);

impl Ids {
    /// Returns the id of the response without `Vary`, which also names the fields that the other responses of the key depend on.
    pub(crate) fn base(&self, key: &Key) -> ObjectId {
        ObjectId::new(&self.0, key, &Variant::default())
    }

    pub(crate) fn variant(&self, key: &Key, variant: &Variant) -> ObjectId {
        let mut id = ObjectId::new(&self.0, key, variant).to_bytes();
        id[8..].copy_from_slice(&self.base(key).to_bytes()[8..]);
        ObjectId::from_bytes(id)
    }

    pub(crate) fn select(&self, key: &Key, names: &[http::HeaderName], request: &HeaderMap) -> ObjectId {
        self.variant(key, &Variant::of_request(names, request))
    }
}

/// Returns the half of an id that all objects of a key have in common.
pub(crate) fn key_half(id: ObjectId) -> u64 {
    let bytes = id.to_bytes();
    u64::from_be_bytes(std::array::from_fn(|at| bytes[8 + at]))
}

/// The folder levels.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    levels: Vec<u8>,
}

const NAME_LENGTH: usize = 32;

impl Layout {
    /// `None` if the levels are outside of the limits.
    pub(crate) fn new(levels: &[u8]) -> Option<Self> {
        let is_valid = levels.len() <= 3 && levels.iter().all(|digits| (1..=2).contains(digits));
        is_valid.then(|| Self { levels: levels.to_vec() })
    }

    pub(crate) fn depth(&self) -> usize {
        self.levels.len()
    }

    /// Returns the path of an object.
    pub(crate) fn path(&self, id: ObjectId) -> String {
        let name = name(id);
        let mut path = self.folder(&name);
        path.push('/');
        path.push_str(&name);
        path
    }

    /// Returns the digits that begin the names of all objects in a folder. `None` if it is not a folder of objects.
    pub(crate) fn digits(&self, folder: &str) -> Option<String> {
        let digits = folder.strip_prefix(OBJECTS)?.replace('/', "");
        let is_own = digits.len() == self.levels.iter().map(|level| usize::from(*level)).sum::<usize>()
            && self.folder(&digits) == folder;
        is_own.then_some(digits)
    }

    /// Returns the folder of all objects with the key half of the id.
    pub(crate) fn folder_of(&self, id: ObjectId) -> String {
        self.folder(&name(id))
    }

    fn folder(&self, name: &str) -> String {
        let mut path = String::with_capacity(OBJECTS.len() + 10 + NAME_LENGTH);
        path.push_str(OBJECTS);
        let mut rest = name;
        for digits in &self.levels {
            let (level, after) = rest.split_at(usize::from(*digits));
            path.push('/');
            path.push_str(level);
            rest = after;
        }
        path
    }
}

fn name(id: ObjectId) -> String {
    let bytes = id.to_bytes();
    let mut name = String::with_capacity(NAME_LENGTH);
    for byte in bytes[8..].iter().chain(&bytes[..8]) {
        write!(name, "{byte:02x}").expect("a string grows");
    }
    name
}

/// Returns the id in the name of a file.
pub(crate) fn parse_name(name: &str) -> Option<ObjectId> {
    let is_name =
        name.len() == NAME_LENGTH && name.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    if !is_name {
        return None;
    }
    let number = u128::from_str_radix(name, 16).ok()?.to_be_bytes();
    let mut id = [0; 16];
    id[8..].copy_from_slice(&number[..8]);
    id[..8].copy_from_slice(&number[8..]);
    Some(ObjectId::from_bytes(id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_file_has_its_id() {
        let ids = Ids([7; 16]);
        let key = Key::new(true, b"a", b"/b");
        let id = ids.base(&key);
        let layout = Layout::new(&[1, 2]).unwrap();
        let path = layout.path(id);
        let name = path.rsplit('/').next().unwrap();
        assert_eq!(path, format!("objects/{}/{}/{name}", &name[..1], &name[1..3]));
        assert_eq!(parse_name(name), Some(id));
        assert_eq!(Layout::new(&[]).unwrap().path(id), format!("objects/{name}"));
        for foreign in ["", "x", &name[1..], &name.to_uppercase(), &format!("+{}", &name[1..])] {
            assert_eq!(parse_name(foreign), None, "{foreign}");
        }
    }

    #[test]
    fn variants_of_a_key_are_in_its_folder() {
        let ids = Ids([7; 16]);
        let key = Key::new(true, b"a", b"/b");
        let names = [http::header::ACCEPT_LANGUAGE];
        let request = HeaderMap::from_iter([(http::header::ACCEPT_LANGUAGE, "de".parse().unwrap())]);
        let (base, german) = (ids.base(&key), ids.select(&key, &names, &request));
        assert_ne!(base, german);
        assert_eq!(key_half(base), key_half(german));
        assert_ne!(german, ids.select(&key, &names, &HeaderMap::new()));
        let layout = Layout::new(&[2, 2, 2]).unwrap();
        assert_eq!(layout.folder_of(base), layout.folder_of(german));
        assert_eq!(ids.variant(&key, &Variant::default()), base);
    }

    #[test]
    fn levels_have_one_or_two_digits() {
        assert!([vec![0], vec![3], vec![1; 4]].iter().all(|levels| Layout::new(levels).is_none()));
    }
}
