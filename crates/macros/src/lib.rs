//! Attributes of types that are written as JSON, and a `Debug` for types whose fields are not shown.
#![warn(missing_docs)]

use proc_macro::TokenStream;
use quote::quote;
use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::{Data, DeriveInput, Field, Fields, Ident, Token, Type, parse_macro_input, parse_quote};

/// Omits fields that are `None` from the JSON of a type. Place it above `derive`.
///
/// A field with a condition of its own in `serde(skip_serializing_if = …)` is not changed.
#[proc_macro_attribute]
pub fn omit_none(_: TokenStream, item: TokenStream) -> TokenStream {
    let mut item = parse_macro_input!(item as DeriveInput);
    omit_none_fields(&mut item);
    quote!(#item).into()
}

/// A type of the Runtime API: derives the traits that all of them have, the named further ones, and with the feature `openapi` its
/// schema. `#[wire(Default, omit_none)]` also derives `Default`, and does what [`macro@omit_none`] does.
#[proc_macro_attribute]
pub fn wire(words: TokenStream, item: TokenStream) -> TokenStream {
    let words = match Punctuated::<Ident, Token![,]>::parse_terminated.parse(words) {
        Ok(words) => words,
        Err(error) => return error.into_compile_error().into(),
    };
    let mut item = parse_macro_input!(item as DeriveInput);
    if words.iter().any(|word| word == "omit_none") {
        omit_none_fields(&mut item);
    }
    let derived = words.iter().filter(|word| *word != "omit_none");
    quote! {
        #[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize, #(#derived),*)]
        #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
        #item
    }
    .into()
}

/// Implements `Debug` for a type whose fields are secrets, or have no `Debug`: it prints only the name.
#[proc_macro_derive(OpaqueDebug)]
pub fn opaque_debug(item: TokenStream) -> TokenStream {
    let item = parse_macro_input!(item as DeriveInput);
    let (name, (generics, arguments, bounds)) = (&item.ident, item.generics.split_for_impl());
    quote! {
        impl #generics std::fmt::Debug for #name #arguments #bounds {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!(#name)).finish_non_exhaustive()
            }
        }
    }
    .into()
}

fn omit_none_fields(item: &mut DeriveInput) {
    match &mut item.data {
        Data::Struct(data) => omit_none_in(&mut data.fields),
        Data::Enum(data) => {
            let variants = data.variants.iter_mut();
            variants.for_each(|variant| omit_none_in(&mut variant.fields));
        }
        Data::Union(_) => {}
    }
}

fn omit_none_in(fields: &mut Fields) {
    let options = fields.iter_mut().filter(|field| is_option(&field.ty));
    for field in options.filter(|field| !has_condition(field)) {
        let condition = parse_quote!(#[serde(skip_serializing_if = "Option::is_none")]);
        field.attrs.push(condition);
    }
}

fn is_option(ty: &Type) -> bool {
    match ty {
        // A type that another macro passed on.
        Type::Group(group) => is_option(&group.elem),
        Type::Path(ty) => {
            let last = ty.path.segments.last();
            last.is_some_and(|segment| segment.ident == "Option")
        }
        _ => false,
    }
}

fn has_condition(field: &Field) -> bool {
    let serde = field.attrs.iter();
    let serde = serde.filter(|it| it.path().is_ident("serde"));
    let mut texts = serde.map(|attribute| quote!(#attribute).to_string());
    texts.any(|text| text.contains("skip_serializing"))
}
