//! Turns the definition of a type into the implementation that names it.

use std::collections::HashMap;

use proc_macro2::{Ident, Span, TokenStream};
use quote::quote;
use syn::ext::IdentExt;
use syn::{Data, DataEnum, DeriveInput, Error, Fields, Result, Variant};

use crate::attributes::{Options, Target};
use crate::case::Case;
use crate::kind::Kind;

/// A name, and where it was written, for errors found later.
struct Name {
    text: String,
    span: Span,
}

/// Implements the trait of this kind, or says what is wrong, all of it at once.
pub(crate) fn expand(input: &DeriveInput, kind: &Kind) -> Result<TokenStream> {
    let name = match &input.data {
        Data::Enum(data) => enum_body(input, data, kind)?,
        Data::Struct(data) => struct_body(input, &data.fields, kind)?,
        Data::Union(data) => {
            let message = format!("{} is an enum or a unit struct, not a union", kind.noun);
            return Err(Error::new(data.union_token.span, message));
        }
    };
    let trait_name = Ident::new(kind.trait_name, Span::call_site());
    let type_name = &input.ident;
    let (impl_generics, type_generics, where_clause) = input.generics.split_for_impl();
    Ok(quote! {
        #[automatically_derived]
        impl #impl_generics ::pillarbox::#trait_name for #type_name #type_generics #where_clause {
            fn name(&self) -> ::std::borrow::Cow<'static, str> {
                ::std::borrow::Cow::Borrowed(#name)
            }
        }
    })
}

fn struct_body(input: &DeriveInput, fields: &Fields, kind: &Kind) -> Result<TokenStream> {
    refuse_data(&input.ident, fields, kind)?;
    let options = Options::read(&input.attrs, Target::Struct, kind)?;
    let Name { text, .. } = name(&input.ident, &options, None, kind)?;
    Ok(quote!(#text))
}

fn enum_body(input: &DeriveInput, data: &DataEnum, kind: &Kind) -> Result<TokenStream> {
    if data.variants.is_empty() {
        let message = format!("{} needs at least one variant to be named by", kind.noun);
        return Err(Error::new(input.ident.span(), message));
    }
    let case = Options::read(&input.attrs, Target::Enum, kind)?.rename_all;
    let mut problems = Problems::default();
    let mut owners: HashMap<String, &Ident> = HashMap::new();
    let mut arms = TokenStream::new();
    for variant in &data.variants {
        let Some(Name { text, span }) = problems.note(variant_name(variant, case, kind)) else { continue };
        let ident = &variant.ident;
        if let Some(first) = owners.get(&text) {
            problems.add(Error::new(span, format!("`{ident}` and `{first}` are both named {text:?}")));
        }
        arms.extend(quote!(Self::#ident { .. } => #text,));
        owners.insert(text, ident);
    }
    problems.none_or_all()?;
    Ok(quote!(match self { #arms }))
}

fn variant_name(variant: &Variant, case: Option<Case>, kind: &Kind) -> Result<Name> {
    refuse_data(&variant.ident, &variant.fields, kind)?;
    let options = Options::read(&variant.attrs, Target::Variant, kind)?;
    name(&variant.ident, &options, case, kind)
}

fn refuse_data(ident: &Ident, fields: &Fields, kind: &Kind) -> Result<()> {
    if fields.is_empty() {
        return Ok(());
    }
    let message = format!("{} is a name and carries no data: `{ident}` has fields", kind.noun);
    Err(Error::new(ident.span(), message))
}

fn name(ident: &Ident, options: &Options, case: Option<Case>, kind: &Kind) -> Result<Name> {
    let name = match (&options.rename, case) {
        (Some(rename), _) => Name { text: rename.value(), span: rename.span() },
        (None, Some(case)) => Name { text: case.apply(&ident.unraw().to_string()), span: ident.span() },
        (None, None) => Name { text: ident.unraw().to_string(), span: ident.span() },
    };
    kind.check(&name.text, name.span)?;
    Ok(name)
}

/// Collects errors, so that a user sees them all after one compilation.
#[derive(Default)]
struct Problems(Option<Error>);

impl Problems {
    fn add(&mut self, error: Error) {
        match &mut self.0 {
            Some(earlier) => earlier.combine(error),
            none => *none = Some(error),
        }
    }

    fn note<T>(&mut self, result: Result<T>) -> Option<T> {
        result.map_err(|error| self.add(error)).ok()
    }

    fn none_or_all(self) -> Result<()> {
        self.0.map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests;
