//! Derives for the configuration: one struct with doc comments is all that a table needs. [`Table`](macro@Table) makes from it the
//! reader, the description of its keys and its defaults; [`Words`](macro@Words) does the same for an enumeration of words.
//!
//! Attributes, all within `#[setting(...)]`. Of a struct:
//!
//! - `default`: a key without a default of its own has that of its type; the struct gets `Default`.
//! - `short(field)`: a value that is no table is read as this field; the struct gets `From` for it.
//! - `short = Type`: a value that is no table is read as this type, from which the struct has a `From`.
//! - `what = "a rate (\"10/s\") or a table"`: what messages expect instead of a table. Required with `short`.
//! - `example = ...`: an example of the table.
//!
//! Of a field:
//!
//! - `default`, `default = expression`: its value if the key is missing. An `Option` is `None` then. Other keys are required.
//! - `reason = "..."`: why this is the default.
//! - `example = "10/s"`: an example, as a literal, a list in brackets, or a table in braces, as in TOML. Several are allowed.
//! - `read = Type`: a type that it is read as, of which the field has a `From`. A `default` is of this type, too.
//! - `part`: a struct whose keys are in the same table.
//! - `choice`: an enum, of whose keys the table has one.
//! - `location`: where the table is.
//! - `skip`: no key.
//! - `name = "..."`: the key or the word, if it is not that of the field or of the variant in kebab case.
//! - `alias = "..."`: another spelling of the word. Several are allowed.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]
#![forbid(unsafe_code)]

mod attributes;
mod table;
mod words;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

/// Implements `Setting` and `Table` for a struct.
#[proc_macro_derive(Table, attributes(setting))]
pub fn derive_table(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    table::implement(&input).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Implements `Setting` and `Words` for an enum whose variants have no fields.
#[proc_macro_derive(Words, attributes(setting))]
pub fn derive_words(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    words::implement(&input).unwrap_or_else(syn::Error::into_compile_error).into()
}
