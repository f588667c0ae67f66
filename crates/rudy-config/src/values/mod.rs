//! Types of values, which are checked when they are read.

/// Implements a schema that is inlined wherever the type is used.
#[macro_export]
macro_rules! inline_schema {
    ([$($generics:tt)*] $type:ty, |$generator:ident| $schema:expr) => {
        impl<$($generics)*> schemars::JsonSchema for $type {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema($generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                $schema
            }
        }
    };
}

mod int;
mod list;
mod path;
mod short;
mod text;

pub use int::Int;
pub use int::count;
pub use list::{Located, OneOrMany};
pub use path::Command;
pub use path::FilePath;
pub use short::add_short_form;
pub use text::TextVisitor;
