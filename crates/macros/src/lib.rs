//! Attributes of types that are written as JSON, and implementations of `Debug` and `Default`.
#![warn(missing_docs)]

use proc_macro::TokenStream;
use quote::quote;
use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::{
    Data, DeriveInput, Error, Field, Fields, Ident, Meta, Token, Type, parse_macro_input,
    parse_quote,
};

/// Omits fields that are `None` from the JSON of a type. Place it above `derive`.
///
/// A field with `#[null]`, or with a condition of its own in `serde(skip_serializing_if = …)`, is not changed.
#[proc_macro_attribute]
pub fn omit_none(_: TokenStream, item: TokenStream) -> TokenStream {
    let mut item = parse_macro_input!(item as DeriveInput);
    omit_none_fields(&mut item);
    quote!(#item).into()
}

/// A type of the Runtime API: derives the traits that all of them have, the named further ones, and with the feature `openapi` its
/// schema. `#[wire(Default, omit_none)]` also derives `Default`, and does what [`macro@omit_none`] does. With `snake_case`, the names of
/// variants are written so.
#[proc_macro_attribute]
pub fn wire(words: TokenStream, item: TokenStream) -> TokenStream {
    let words = match Punctuated::<Ident, Token![,]>::parse_terminated.parse(words) {
        Ok(words) => words,
        Err(error) => return error.into_compile_error().into(),
    };
    let mut item = parse_macro_input!(item as DeriveInput);
    let has = |flag: &str| words.iter().any(|word| word == flag);
    if has("omit_none") {
        omit_none_fields(&mut item);
    }
    let case = has("snake_case").then(|| quote!(#[serde(rename_all = "snake_case")]));
    let derived = words.iter();
    let derived = derived.filter(|word| *word != "omit_none" && *word != "snake_case");
    quote! {
        #[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize, #(#derived),*)]
        #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
        #case
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

/// Implements `Default` for a struct: a field has the value of its `#[default(…)]`, or else the default of its type.
#[proc_macro_derive(Defaults, attributes(default))]
pub fn defaults(item: TokenStream) -> TokenStream {
    let item = parse_macro_input!(item as DeriveInput);
    let (name, (generics, arguments, bounds)) = (&item.ident, item.generics.split_for_impl());
    let fields = match &item.data {
        Data::Struct(data) => data.fields.iter(),
        _ => {
            return Error::new_spanned(name, "only a struct has default values")
                .into_compile_error()
                .into();
        }
    };
    let values = fields.map(|field| {
        let name = &field.ident;
        match field
            .attrs
            .iter()
            .map(|attribute| &attribute.meta)
            .find(|it| it.path().is_ident("default"))
        {
            Some(Meta::List(value)) => {
                let value = &value.tokens;
                quote!(#name: #value)
            }
            _ => quote!(#name: Default::default()),
        }
    });
    quote! {
        impl #generics Default for #name #arguments #bounds {
            fn default() -> Self {
                Self { #(#values),* }
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
        let attributes = field.attrs.len();
        field
            .attrs
            .retain(|attribute| !attribute.path().is_ident("null"));
        if field.attrs.len() < attributes {
            continue;
        }
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
