//! The parameters of a query, as they are in a key.

use crate::variable::{VariableName, variable_name};

/// The parameters of a query that are part of the key. By default all, in their order.
///
/// The origin receives the whole query: a rule that ignores a parameter on which a response depends lets one client choose the response
/// of another. Some applications separate parameters by `;` too, so one that is ignored contains no other.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueryRules {
    /// Which parameters are part of the key.
    pub parameters: Parameters,
    /// Whether the order of parameters with different names is irrelevant.
    pub sorted: bool,
}

/// A choice of parameters. What is not certain to be ignored is part of the key, so the two kinds compare names in different ways.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Parameters {
    /// All except these: `fbclid`, or `utm_*` for all that begin with `utm_`. Names are compared as the client sent them, not decoded.
    Except(Vec<String>),
    /// Only these, in every spelling that an application may read as their names.
    Only(Vec<VariableName>),
}

impl Default for Parameters {
    fn default() -> Self {
        Self::Except(Vec::new())
    }
}

impl Parameters {
    fn has(&self, name: &[u8]) -> bool {
        match self {
            Self::Except(ignored) => !ignored.iter().any(|ignored| match ignored.strip_suffix('*') {
                Some(start) => name.starts_with(start.as_bytes()),
                None => name == ignored.as_bytes(),
            }),
            Self::Only(names) => names.iter().any(|listed| listed.matches(name)),
        }
    }
}

impl QueryRules {
    /// Returns the target as it is in a key.
    #[must_use]
    pub fn apply(&self, target: &[u8]) -> Vec<u8> {
        let Some(mark) = target.iter().position(|byte| *byte == b'?').filter(|_| *self != Self::default())
        else {
            return target.to_vec();
        };
        let (path, query) = (&target[..mark], &target[mark + 1..]);
        let parameters = query.split(|byte| *byte == b'&').filter(|parameter| !parameter.is_empty());
        let mut kept: Vec<_> = parameters.filter(|parameter| !self.ignores(parameter)).collect();
        // With `;`, a parameter may contain others, whose order counts.
        if self.sorted && !query.contains(&b';') {
            // Values of one name keep their order, in whatever spelling: it often has a meaning.
            kept.sort_by_cached_key(|parameter| variable_name(name(parameter)));
        }
        let separator: &[u8] = if kept.is_empty() { b"" } else { b"?" };
        [path, separator, &kept.join(&b'&')].concat()
    }

    fn ignores(&self, parameter: &[u8]) -> bool {
        let mut parts = parameter.split(|byte| *byte == b';').filter(|part| !part.is_empty());
        parts.all(|part| !self.parameters.has(name(part)))
    }
}

/// Returns the name of a parameter, `name=value` or `name`.
fn name(parameter: &[u8]) -> &[u8] {
    parameter.split(|byte| *byte == b'=').next().unwrap_or_default()
}
