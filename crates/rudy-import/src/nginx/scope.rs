//! The directives that apply in a block: its own, and those of the blocks around it.

use crate::syntax::Directive;

/// A block with the blocks around it, from the outside to the inside.
#[derive(Debug, Clone, Default)]
pub(super) struct Scope<'a> {
    levels: Vec<&'a [Directive]>,
}

impl<'a> Scope<'a> {
    /// The scope of a block inside of this one.
    pub(super) fn inner(&self, block: &'a [Directive]) -> Self {
        let mut levels = self.levels.clone();
        levels.push(block);
        Self { levels }
    }

    /// The directive that applies: of the innermost block that has it, the last one.
    pub(super) fn find(&self, name: &str) -> Option<&'a Directive> {
        self.all(name).pop()
    }

    /// All directives with this name of the innermost block that has any: those of outer blocks no longer apply.
    pub(super) fn all(&self, name: &str) -> Vec<&'a Directive> {
        let of = |level: &&'a [Directive]| named(level, name).collect::<Vec<_>>();
        self.levels.iter().rev().map(of).find(|found| !found.is_empty()).unwrap_or_default()
    }

    /// All directives with one of two names of the innermost block that has any of them, in order.
    pub(super) fn all_of(&self, names: [&str; 2]) -> Vec<&'a Directive> {
        let is_one = |directive: &&'a Directive| names.contains(&directive.name.as_str());
        let of = |level: &&'a [Directive]| level.iter().filter(is_one).collect::<Vec<_>>();
        self.levels.iter().rev().map(of).find(|found| !found.is_empty()).unwrap_or_default()
    }

    /// The directives of the innermost block.
    pub(super) fn own(&self) -> &'a [Directive] {
        self.levels.last().copied().unwrap_or_default()
    }

    /// The directives with this name of all blocks, from the outside to the inside.
    pub(super) fn everywhere(&self, name: &str) -> impl Iterator<Item = &'a Directive> {
        self.levels.iter().flat_map(move |level| named(level, name))
    }
}

/// The directives of a block with a name.
pub(super) fn named<'a>(block: &'a [Directive], name: &str) -> impl Iterator<Item = &'a Directive> {
    block.iter().filter(move |directive| directive.name == name)
}
