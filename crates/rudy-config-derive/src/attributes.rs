//! The attributes `#[setting(...)]`, and doc comments.

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use syn::meta::ParseNestedMeta;
use syn::{Attribute, Expr, Ident, Lit, LitStr, Meta, Type};

/// What the attributes of a struct, a field or a variant say.
#[derive(Default)]
pub(crate) struct Attributes {
    /// The doc comment, on one line.
    pub(crate) doc: String,
    pub(crate) default: Option<DefaultValue>,
    pub(crate) reason: Option<LitStr>,
    /// What a field is read as.
    pub(crate) read: Option<Type>,
    /// As in TOML.
    pub(crate) examples: Vec<String>,
    pub(crate) name: Option<LitStr>,
    /// Other spellings of a word.
    pub(crate) aliases: Vec<LitStr>,
    pub(crate) short: Option<Short>,
    pub(crate) what: Option<LitStr>,
    pub(crate) role: Role,
}

/// The value of a field without its key.
pub(crate) enum DefaultValue {
    /// The default of its type.
    OfType,
    Expression(Box<Expr>),
}

/// What a value that is no table is read as.
pub(crate) enum Short {
    Field(Ident),
    Type(Box<Type>),
}

/// What a field is in its table.
#[derive(Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    #[default]
    Key,
    Part,
    Choice,
    Location,
    Skipped,
}

impl Attributes {
    pub(crate) fn of(attributes: &[Attribute]) -> syn::Result<Self> {
        let mut found = Self::default();
        for attribute in attributes {
            if attribute.path().is_ident("doc") {
                found.add_doc(attribute);
            } else if attribute.path().is_ident("setting") {
                attribute.parse_nested_meta(|meta| found.add(&meta))?;
            }
        }
        Ok(found)
    }

    fn add_doc(&mut self, attribute: &Attribute) {
        let Meta::NameValue(doc) = &attribute.meta else { return };
        if let Expr::Lit(line) = &doc.value
            && let Lit::Str(line) = &line.lit
        {
            let line = line.value();
            let space = if self.doc.is_empty() || line.trim().is_empty() { "" } else { " " };
            self.doc.push_str(space);
            self.doc.push_str(line.trim());
        }
    }

    fn add(&mut self, meta: &ParseNestedMeta<'_>) -> syn::Result<()> {
        let Some(name) = meta.path.get_ident() else { return Err(meta.error("expected a word")) };
        match name.to_string().as_str() {
            "default" if meta.input.peek(syn::Token![=]) => {
                self.default = Some(DefaultValue::Expression(meta.value()?.parse()?));
            }
            "default" => self.default = Some(DefaultValue::OfType),
            "read" => self.read = Some(meta.value()?.parse()?),
            "reason" => self.reason = Some(meta.value()?.parse()?),
            "example" => self.examples.push(toml_of(&meta.value()?.parse()?)),
            "name" => self.name = Some(meta.value()?.parse()?),
            "alias" => self.aliases.push(meta.value()?.parse()?),
            "short" if meta.input.peek(syn::Token![=]) => {
                self.short = Some(Short::Type(meta.value()?.parse()?));
            }
            "short" => {
                let field;
                syn::parenthesized!(field in meta.input);
                self.short = Some(Short::Field(field.parse()?));
            }
            "what" => self.what = Some(meta.value()?.parse()?),
            "part" => self.role = Role::Part,
            "choice" => self.role = Role::Choice,
            "location" => self.role = Role::Location,
            "skip" => self.role = Role::Skipped,
            _ => return Err(meta.error("unknown attribute: see the documentation of rudy-config-derive")),
        }
        Ok(())
    }
}

/// Writes an example as in TOML.
fn toml_of(token: &TokenTree) -> String {
    match token {
        TokenTree::Group(group) => {
            let items = items_of(group);
            match group.delimiter() {
                Delimiter::Brace => format!("{{ {} }}", items.join(", ")),
                _ => format!("[{}]", items.join(", ")),
            }
        }
        TokenTree::Literal(literal) => {
            let text = literal.to_string();
            // `10_000` is for readers of the source.
            if text.starts_with('"') { text } else { text.replace('_', "") }
        }
        other => other.to_string(),
    }
}

/// The items of a list, or the entries of a table.
fn items_of(group: &Group) -> Vec<String> {
    let mut items = Vec::new();
    let mut item: Vec<String> = Vec::new();
    for token in group.stream() {
        match &token {
            TokenTree::Punct(mark) if mark.as_char() == ',' => {
                items.push(std::mem::take(&mut item).join(" "));
            }
            _ => item.push(toml_of(&token)),
        }
    }
    if !item.is_empty() {
        items.push(item.join(" "));
    }
    items
}

/// The type within an `Option`.
pub(crate) fn within_option(kind: &Type) -> Option<&Type> {
    let Type::Path(path) = kind else { return None };
    let last = path.path.segments.last().filter(|last| last.ident == "Option")?;
    let syn::PathArguments::AngleBracketed(arguments) = &last.arguments else { return None };
    match arguments.args.first() {
        Some(syn::GenericArgument::Type(inner)) => Some(inner),
        _ => None,
    }
}

/// An error at these tokens.
pub(crate) fn error<T>(at: impl quote::ToTokens, what: &str) -> syn::Result<T> {
    Err(syn::Error::new_spanned(at, what))
}

/// `Some(tokens)`, or `None`.
pub(crate) fn option(tokens: Option<TokenStream>) -> TokenStream {
    tokens.map_or_else(|| quote::quote!(None), |tokens| quote::quote!(Some(#tokens)))
}
