//! The derive `Words`.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Data, DeriveInput, Fields, Ident};

use crate::attributes::{Attributes, error};

pub(crate) fn implement(input: &DeriveInput) -> syn::Result<TokenStream> {
    let Data::Enum(of) = &input.data else { return error(input, "only an enum has words") };
    let name = &input.ident;
    let (mut variants, mut words) = (Vec::new(), Vec::new());
    for variant in &of.variants {
        if !matches!(variant.fields, Fields::Unit) {
            return error(variant, "a word has no fields");
        }
        let Attributes { doc, name, aliases, .. } = Attributes::of(&variant.attrs)?;
        let text = name.map_or_else(|| kebab_case(&variant.ident), |name| name.value());
        variants.push(&variant.ident);
        words.push(quote!(::rudy_config::Word { text: #text, aliases: &[#(#aliases),*], doc: #doc }));
    }
    Ok(quote! {
        impl ::rudy_config::Words for #name {
            const WORDS: &'static [::rudy_config::Word] = &[#(#words),*];
            const VALUES: &'static [Self] = &[#(Self::#variants),*];
        }

        impl ::rudy_config::Setting for #name {
            const SHAPE: ::rudy_config::Shape = ::rudy_config::Shape::Words(<Self as ::rudy_config::Words>::WORDS);

            fn read(value: &::rudy_config::Value<'_>) -> Result<Self, ::rudy_config::Invalid> {
                value.word()
            }

            fn written(&self) -> Option<String> {
                Some(format!("\"{}\"", ::rudy_config::Words::word(self)))
            }
        }
    })
}

/// Converts `LeastBusy` to `least-busy`.
fn kebab_case(name: &Ident) -> String {
    let mut words = String::new();
    for letter in name.to_string().chars() {
        if letter.is_uppercase() && !words.is_empty() {
            words.push('-');
        }
        words.extend(letter.to_lowercase());
    }
    words
}
