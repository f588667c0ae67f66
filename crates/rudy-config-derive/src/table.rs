//! The derive `Table`.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::{Data, DeriveInput, Fields, Ident, Type};

use crate::attributes::{Attributes, DefaultValue, Role, Short, error, option, within_option};

/// A field, and what its attributes say.
struct Field<'a> {
    name: &'a Ident,
    kind: &'a Type,
    attributes: Attributes,
    /// Its value without the key. `None` if it is required.
    default: Option<TokenStream>,
}

pub(crate) fn implement(input: &DeriveInput) -> syn::Result<TokenStream> {
    let Data::Struct(of) = &input.data else { return error(input, "only a struct is a table") };
    let Fields::Named(fields) = &of.fields else { return error(input, "a table has names") };
    let table = Attributes::of(&input.attrs)?;
    let has_defaults = table.default.is_some();
    let fields = fields.named.iter().map(|field| Field::new(field, has_defaults));
    let fields = fields.collect::<syn::Result<Vec<_>>>()?;
    let name = &input.ident;
    let implementation = table_of(name, &table, &fields)?;
    let setting = setting_of(name, &table, &fields)?;
    let default = has_defaults.then(|| default_of(name, &fields)).transpose()?;
    Ok(quote!(#implementation #setting #default))
}

impl<'a> Field<'a> {
    fn new(field: &'a syn::Field, table_has_defaults: bool) -> syn::Result<Self> {
        let Some(name) = &field.ident else { return error(field, "a key has a name") };
        let attributes = Attributes::of(&field.attrs)?;
        let of_type = || quote!(::core::default::Default::default());
        let default = match &attributes.default {
            Some(DefaultValue::Expression(expression)) => Some(match (&attributes.read, &field.ty) {
                (Some(read), kind) => quote!(<#kind as ::core::convert::From<#read>>::from(#expression)),
                (None, _) => expression.to_token_stream(),
            }),
            Some(DefaultValue::OfType) => Some(of_type()),
            None if attributes.role == Role::Location => Some(quote!(::rudy_config::Location::none())),
            None if attributes.role == Role::Skipped || table_has_defaults => Some(of_type()),
            None => within_option(&field.ty).map(|_| quote!(None)),
        };
        Ok(Self { name, kind: &field.ty, attributes, default })
    }

    fn key(&self) -> String {
        self.attributes.name.as_ref().map_or_else(|| self.name.to_string(), syn::LitStr::value)
    }

    /// Its part of the description of the table.
    fn member(&self) -> syn::Result<Option<TokenStream>> {
        let kind = self.kind;
        Ok(Some(match self.attributes.role {
            Role::Skipped | Role::Location => return Ok(None),
            Role::Part => {
                quote!(::rudy_config::Member::Part(|| <#kind as ::rudy_config::Table>::TABLE))
            }
            Role::Choice => {
                quote!(::rudy_config::Member::Choice(<#kind as ::rudy_config::Choice>::KEYS))
            }
            Role::Key => {
                let Attributes { doc, examples, reason, .. } = &self.attributes;
                if doc.is_empty() {
                    return error(self.name, "a key needs a doc comment");
                }
                let (key, reason) = (self.key(), option(reason.as_ref().map(|reason| quote!(#reason))));
                let is_required = self.default.is_none();
                let default = option(self.written_default());
                let kind = self.read_as();
                quote!(::rudy_config::Member::Key(::rudy_config::Key {
                    name: #key,
                    doc: #doc,
                    examples: &[#(#examples),*],
                    shape: &<#kind as ::rudy_config::Setting>::SHAPE,
                    is_required: #is_required,
                    default: #default,
                    reason: #reason,
                }))
            }
        }))
    }

    /// The type that has its shape.
    fn read_as(&self) -> &Type {
        self.attributes.read.as_ref().unwrap_or(self.kind)
    }

    /// Writes its default.
    fn written_default(&self) -> Option<TokenStream> {
        let (kind, value) = match (&self.attributes.read, &self.attributes.default) {
            (Some(read), Some(DefaultValue::Expression(expression))) => (read, expression.to_token_stream()),
            // What the type of the field has as its default may be no value of the file.
            (Some(_), _) => return None,
            (None, _) => (self.kind, self.default.clone()?),
        };
        Some(quote!(|| {
            let value: #kind = #value;
            ::rudy_config::Setting::written(&value)
        }))
    }

    /// Reads it, into a `Result` if it is required.
    fn read(&self) -> TokenStream {
        let (kind, key) = (self.kind, self.key());
        match (self.attributes.role, &self.default) {
            (Role::Part, _) => quote!(<#kind as ::rudy_config::Table>::read_keys(table)),
            (Role::Choice, _) => quote!(table.choice()),
            (Role::Location, _) => quote!(table.location().clone()),
            (Role::Skipped, Some(default)) => quote!(#default),
            (_, Some(default)) => {
                let read = self.read_as();
                let convert =
                    self.attributes.read.as_ref().map(|_| quote!(.map(::core::convert::Into::into)));
                quote!(table.optional::<#read>(#key)#convert.unwrap_or_else(|| #default))
            }
            (_, None) => {
                let read = self.read_as();
                let convert =
                    self.attributes.read.as_ref().map(|_| quote!(.map(::core::convert::Into::into)));
                quote!(table.required::<#read>(#key)#convert)
            }
        }
    }

    /// Its value, after [`Self::read`].
    fn value(&self) -> TokenStream {
        let name = self.name;
        let is_result = match self.attributes.role {
            Role::Part | Role::Choice => true,
            Role::Key => self.default.is_none(),
            Role::Location | Role::Skipped => false,
        };
        if is_result { quote!(#name: #name?) } else { quote!(#name) }
    }
}

fn table_of(name: &Ident, table: &Attributes, fields: &[Field<'_>]) -> syn::Result<TokenStream> {
    let Attributes { doc, examples, .. } = table;
    let members = fields.iter().map(Field::member).collect::<syn::Result<Vec<_>>>()?;
    let members = members.into_iter().flatten();
    let short =
        option(short_type(table, fields)?.map(|kind| quote!(&<#kind as ::rudy_config::Setting>::SHAPE)));
    let text = name.to_string();
    let names: Vec<_> = fields.iter().map(|field| field.name).collect();
    let reads = fields.iter().map(Field::read);
    let values = fields.iter().map(Field::value);
    Ok(quote! {
        impl ::rudy_config::Table for #name {
            const TABLE: &'static ::rudy_config::TableInfo = &::rudy_config::TableInfo {
                name: #text,
                doc: #doc,
                examples: &[#(#examples),*],
                short: #short,
                members: &[#(#members),*],
            };

            fn read_keys(table: &::rudy_config::TableReader<'_>) -> Result<Self, ::rudy_config::Invalid> {
                #(let #names = #reads;)*
                Ok(Self { #(#values),* })
            }
        }
    })
}

/// The type of the short form.
fn short_type<'a>(table: &'a Attributes, fields: &'a [Field<'_>]) -> syn::Result<Option<&'a Type>> {
    Ok(match &table.short {
        None => None,
        Some(Short::Type(kind)) => Some(kind),
        Some(Short::Field(name)) => {
            let Some(field) = fields.iter().find(|field| field.name == name) else {
                return error(name, "there is no such field");
            };
            Some(within_option(field.kind).unwrap_or(field.kind))
        }
    })
}

fn setting_of(name: &Ident, table: &Attributes, fields: &[Field<'_>]) -> syn::Result<TokenStream> {
    let short = short_type(table, fields)?;
    let read = match (short, &table.what) {
        (None, _) => quote!(value.table()),
        (Some(short), Some(what)) => quote!(value.table_or::<Self, #short>(#what)),
        (Some(_), None) => return error(name, "a short form needs `what`"),
    };
    let from = match &table.short {
        Some(Short::Field(field)) => Some(from_of(name, field, short, fields)?),
        _ => None,
    };
    Ok(quote! {
        impl ::rudy_config::Setting for #name {
            const SHAPE: ::rudy_config::Shape = ::rudy_config::Shape::Table(|| <#name as ::rudy_config::Table>::TABLE);

            fn read(value: &::rudy_config::Value<'_>) -> Result<Self, ::rudy_config::Invalid> {
                #read
            }
        }

        #from
    })
}

/// Makes a table of its short form.
fn from_of(
    name: &Ident,
    field: &Ident,
    short: Option<&Type>,
    fields: &[Field<'_>],
) -> syn::Result<TokenStream> {
    let values = fields.iter().map(|other| {
        let (name, default) = (other.name, &other.default);
        if name == field {
            let is_option = within_option(other.kind).is_some();
            return Ok(if is_option { quote!(#name: Some(short)) } else { quote!(#name: short) });
        }
        let Some(default) = default.clone().or_else(|| {
            (other.attributes.role == Role::Part).then(|| quote!(::core::default::Default::default()))
        }) else {
            return error(name, "a table with a short form needs a default for each other key");
        };
        Ok(quote!(#name: #default))
    });
    let values = values.collect::<syn::Result<Vec<_>>>()?;
    Ok(quote! {
        impl From<#short> for #name {
            fn from(short: #short) -> Self {
                Self { #(#values),* }
            }
        }
    })
}

fn default_of(name: &Ident, fields: &[Field<'_>]) -> syn::Result<TokenStream> {
    let values = fields.iter().map(|field| match &field.default {
        Some(default) => {
            let name = field.name;
            Ok(quote!(#name: #default))
        }
        None => error(field.name, "each key needs a default"),
    });
    let values = values.collect::<syn::Result<Vec<_>>>()?;
    Ok(quote! {
        impl ::core::default::Default for #name {
            fn default() -> Self {
                Self { #(#values),* }
            }
        }
    })
}
