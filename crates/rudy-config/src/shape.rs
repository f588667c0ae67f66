//! What the configuration accepts: the tables, their keys, and the shapes of values. The derives make these descriptions from the
//! structs that are read, so the schema, the reference and the advice in messages say what the reader does.

/// The shape of a value.
#[derive(Debug, Clone, Copy)]
pub enum Shape {
    /// `true` or `false`.
    Boolean,
    /// `false` alone.
    False,
    /// An integer within bounds.
    Integer {
        /// The smallest one.
        min: u64,
        /// The largest one; `u64::MAX` for no bound.
        max: u64,
    },
    /// One of these integers.
    Integers(&'static [u16]),
    /// Any text, which is not empty if so required.
    Text {
        /// Whether the empty text is an error.
        is_required: bool,
    },
    /// One of these words.
    Words(&'static [Word]),
    /// A text, or a number, with a notation of its own.
    Named(&'static Named),
    /// A list of at least this many values of a shape.
    List(&'static Self, usize),
    /// A table with any keys, or those that match a pattern (of ECMA 262), and values of one shape.
    Map(&'static Self, Option<&'static str>),
    /// A table with known keys. A function, because a table can be in itself.
    Table(fn() -> &'static TableInfo),
    /// One of several shapes.
    Either(&'static [&'static Self]),
}

/// A word of an enumeration.
#[derive(Debug, Clone, Copy)]
pub struct Word {
    /// The word.
    pub text: &'static str,
    /// Other spellings, as in other programs.
    pub aliases: &'static [&'static str],
    /// What it means.
    pub doc: &'static str,
}

impl Word {
    /// All spellings, its own first.
    pub(crate) fn spellings(&self) -> impl Iterator<Item = &'static str> {
        std::iter::once(self.text).chain(self.aliases.iter().copied())
    }
}

/// A notation that several keys have in common, such as that of a time.
#[derive(Debug)]
pub struct Named {
    /// The name of its type: `HostPattern`.
    pub name: &'static str,
    /// What it is.
    pub doc: &'static str,
    /// Whether it is a text, a number, or either.
    pub kinds: &'static [Kind],
    /// A pattern of the texts (ECMA 262).
    pub pattern: Option<&'static str>,
    /// Examples, as in TOML.
    pub examples: &'static [&'static str],
}

/// A kind of value that is not made of others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A text.
    Text,
    /// An integer.
    Integer,
    /// An integer or a decimal number.
    Number,
}

/// The description of a table.
#[derive(Debug)]
pub struct TableInfo {
    /// The name of its struct.
    pub name: &'static str,
    /// What it is.
    pub doc: &'static str,
    /// Examples, as in TOML.
    pub examples: &'static [&'static str],
    /// The shape of a value that is no table.
    pub short: Option<&'static Shape>,
    /// Its keys, in the order of the reference.
    pub members: &'static [Member],
}

/// A part of the description of a table.
#[derive(Debug)]
pub enum Member {
    /// A key.
    Key(Key),
    /// The keys of another struct.
    Part(fn() -> &'static TableInfo),
    /// Keys of which the table has exactly one.
    Choice(&'static [Key]),
}

/// The description of a key.
#[derive(Debug)]
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// What it is for.
    pub doc: &'static str,
    /// Examples, as in TOML.
    pub examples: &'static [&'static str],
    /// The shape of its values.
    pub shape: &'static Shape,
    /// Whether the table needs it.
    pub is_required: bool,
    /// Writes its value without the key, as in TOML. `None` if that is not a value.
    pub default: Option<fn() -> Option<String>>,
    /// Why this is the default.
    pub reason: Option<&'static str>,
}

impl TableInfo {
    /// Calls `visit` for each key, also of its parts and choices.
    pub fn each_key(&'static self, visit: &mut impl FnMut(&'static Key)) {
        for member in self.members {
            match member {
                Member::Key(key) => visit(key),
                Member::Part(part) => part().each_key(visit),
                Member::Choice(keys) => keys.iter().for_each(&mut *visit),
            }
        }
    }

    /// The names of all keys.
    #[must_use]
    pub fn names(&'static self) -> Vec<&'static str> {
        let mut names = Vec::new();
        self.each_key(&mut |key| names.push(key.name));
        names
    }

    /// Whether it has a key.
    #[must_use]
    pub fn has(&'static self, name: &str) -> bool {
        self.members.iter().any(|member| match member {
            Member::Key(key) => key.name == name,
            Member::Part(part) => part().has(name),
            Member::Choice(keys) => keys.iter().any(|key| key.name == name),
        })
    }
}

impl Key {
    /// Writes its value without the key, as in TOML. `None` if it is required, or if that is not a value.
    #[must_use]
    pub fn default(&self) -> Option<String> {
        self.default.and_then(|default| default())
    }
}
