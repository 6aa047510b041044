//! The derive of `EventPayload`: reads `#[event(…)]` and names the fields that are group and aggregate id.

use proc_macro2::TokenStream;
use quote::quote;
use syn::meta::ParseNestedMeta;
use syn::punctuated::Punctuated;
use syn::{
    Attribute, Data, DeriveInput, Error, Expr, ExprLit, Fields, Ident, Lit, LitStr, Member, Result, Token,
};

use crate::attributes::set_once;
use crate::kind::{AGGREGATE, EVENT, Kind};

/// What `#[event(…)]` says.
#[derive(Default)]
struct Said {
    event_type: Option<Expr>,
    group: Option<LitStr>,
    aggregate: Option<(Expr, LitStr)>,
}

/// Implements `EventPayload` for a struct or enum.
pub(crate) fn expand(input: &DeriveInput) -> Result<TokenStream> {
    let said = Said::read(&input.attrs)?;
    let Some(event_type) = &said.event_type else {
        let message = "a payload names its event type: add `#[event(type = \"order.placed\")]`";
        return Err(Error::new(input.ident.span(), message));
    };
    check_name(event_type, &EVENT)?;
    let group = said.group.as_ref().map(|field| {
        let field = member(input, field)?;
        Ok::<_, Error>(quote! {
            fn group(&self) -> ::std::option::Option<::std::string::String> {
                ::std::option::Option::Some(::std::string::ToString::to_string(&self.#field))
            }
        })
    });
    let aggregate = said.aggregate.as_ref().map(|(aggregate_type, field)| {
        check_name(aggregate_type, &AGGREGATE)?;
        let field = member(input, field)?;
        Ok::<_, Error>(quote! {
            fn aggregate(
                &self,
            ) -> ::std::option::Option<(::std::borrow::Cow<'static, str>, ::std::string::String)> {
                ::std::option::Option::Some((
                    ::pillarbox::AggregateType::name(&#aggregate_type),
                    ::std::string::ToString::to_string(&self.#field),
                ))
            }
        })
    });
    let (group, aggregate) = (group.transpose()?, aggregate.transpose()?);
    let name = &input.ident;
    let (impl_generics, type_generics, where_clause) = input.generics.split_for_impl();
    Ok(quote! {
        #[automatically_derived]
        impl #impl_generics ::pillarbox::EventPayload for #name #type_generics #where_clause {
            fn event_type() -> ::std::borrow::Cow<'static, str> {
                ::pillarbox::EventType::name(&#event_type)
            }
            #group
            #aggregate
        }
    })
}

impl Said {
    fn read(attributes: &[Attribute]) -> Result<Self> {
        let mut said = Self::default();
        for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("event")) {
            attribute.parse_nested_meta(|meta| said.read_key(&meta))?;
        }
        Ok(said)
    }

    fn read_key(&mut self, meta: &ParseNestedMeta<'_>) -> Result<()> {
        if meta.path.is_ident("type") {
            set_once(&mut self.event_type, meta.value()?.parse()?, meta)
        } else if meta.path.is_ident("group") {
            set_once(&mut self.group, meta.value()?.parse()?, meta)
        } else if meta.path.is_ident("aggregate") {
            set_once(&mut self.aggregate, aggregate(meta)?, meta)
        } else {
            Err(meta.error("unknown key: `type`, `group` and `aggregate` are known"))
        }
    }
}

fn aggregate(meta: &ParseNestedMeta<'_>) -> Result<(Expr, LitStr)> {
    let shape =
        || meta.error("an aggregate has a type and the field of its id: `aggregate(Order, \"order\")`");
    let content;
    syn::parenthesized!(content in meta.input);
    let mut parts = Punctuated::<Expr, Token![,]>::parse_terminated(&content)?.into_iter();
    match (parts.next(), parts.next(), parts.next()) {
        (Some(aggregate_type), Some(Expr::Lit(ExprLit { lit: Lit::Str(field), .. })), None) => {
            Ok((aggregate_type, field))
        }
        _ => Err(shape()),
    }
}

/// Checks a name that is written as text. Other expressions are names of their own, checked where they are derived.
fn check_name(name: &Expr, kind: &Kind) -> Result<()> {
    match name {
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => kind.check(&text.value(), text.span()),
        _ => Ok(()),
    }
}

/// The field of this name.
fn member(input: &DeriveInput, wanted: &LitStr) -> Result<Member> {
    let fields = match &input.data {
        Data::Struct(data) => &data.fields,
        _ => return Err(Error::new(wanted.span(), "only a struct has a field that every value has")),
    };
    let names: Vec<Member> = match fields {
        Fields::Named(fields) => {
            fields.named.iter().filter_map(|field| field.ident.clone()).map(Member::from).collect()
        }
        Fields::Unnamed(fields) => (0..fields.unnamed.len()).map(Member::from).collect(),
        Fields::Unit => Vec::new(),
    };
    let text = |member: &Member| match member {
        Member::Named(ident) => syn::ext::IdentExt::unraw(ident as &Ident).to_string(),
        Member::Unnamed(index) => index.index.to_string(),
    };
    if let Some(found) = names.iter().find(|member| text(member) == wanted.value()) {
        return Ok(found.clone());
    }
    let known: Vec<String> = names.iter().map(|member| format!("`{}`", text(member))).collect();
    let message = format!("`{}` has no field `{}`, it has {}", input.ident, wanted.value(), known.join(", "));
    Err(Error::new(wanted.span(), message))
}
