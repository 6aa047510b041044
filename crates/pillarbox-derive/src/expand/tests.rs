//! What the derives generate, and what they refuse, without a compiler run per case.

use proc_macro2::TokenStream;
use quote::quote;

use super::expand;
use crate::kind::{AGGREGATE, EVENT, Kind};

fn expanded(item: TokenStream, kind: &Kind) -> String {
    expand(&syn::parse2(item).unwrap(), kind).unwrap().to_string()
}

/// The messages of all errors, in order.
fn refusals(item: TokenStream, kind: &Kind) -> Vec<String> {
    let error = expand(&syn::parse2(item).unwrap(), kind).unwrap_err();
    error.into_iter().map(|error| error.to_string()).collect()
}

fn event_refusal(item: TokenStream) -> String {
    let refusals = refusals(item, &EVENT);
    assert_eq!(refusals.len(), 1, "{refusals:?}");
    refusals.concat()
}

/// EVT-013
#[test]
fn enum_variants_are_named_as_written() {
    let expected = quote! {
        #[automatically_derived]
        impl ::pillarbox::EventType for OrderEvent {
            fn name(&self) -> ::std::borrow::Cow<'static, str> {
                ::std::borrow::Cow::Borrowed(match self {
                    Self::OrderPlaced { .. } => "OrderPlaced",
                    Self::OrderPaid { .. } => "OrderPaid",
                })
            }
        }
    };
    assert_eq!(
        expanded(
            quote!(
                enum OrderEvent {
                    OrderPlaced,
                    OrderPaid,
                }
            ),
            &EVENT
        ),
        expected.to_string()
    );
}

/// EVT-014
#[test]
fn unit_struct_is_named_as_written() {
    let expected = quote! {
        #[automatically_derived]
        impl ::pillarbox::AggregateType for Order {
            fn name(&self) -> ::std::borrow::Cow<'static, str> {
                ::std::borrow::Cow::Borrowed("Order")
            }
        }
    };
    assert_eq!(
        expanded(
            quote!(
                struct Order;
            ),
            &AGGREGATE
        ),
        expected.to_string()
    );
}

/// EVT-013
#[test]
fn rename_wins_over_rename_all() {
    let code = expanded(
        quote! {
            #[event_type(rename_all = "snake_case")]
            enum OrderEvent { OrderPlaced, #[event_type(rename = "gone")] OrderCancelled }
        },
        &EVENT,
    );
    assert!(code.contains(r#""order_placed""#), "{code}");
    assert!(code.contains(r#""gone""#), "{code}");
}

/// EVT-013, EVT-014
#[test]
fn attributes_of_the_other_derive_are_left_alone() {
    let item = quote! {
        #[event_type(rename = "order.event")]
        #[aggregate_type(rename = "order.aggregate")]
        struct Order;
    };
    assert!(expanded(item.clone(), &EVENT).contains(r#"Borrowed ("order.event")"#));
    assert!(expanded(item, &AGGREGATE).contains(r#"Borrowed ("order.aggregate")"#));
}

#[test]
fn raw_identifiers_lose_their_prefix() {
    assert!(
        expanded(
            quote!(
                enum Keyword {
                    r#Match,
                }
            ),
            &EVENT
        )
        .contains(r#""Match""#)
    );
    assert!(
        expanded(
            quote!(
                struct r#type;
            ),
            &EVENT
        )
        .contains(r#""type""#)
    );
}

#[test]
fn data_is_refused_by_the_name_of_what_carries_it() {
    let sentence = "an event type is a name and carries no data: `Placed` has fields";
    assert_eq!(
        event_refusal(quote!(
            enum OrderEvent {
                Placed(u64),
            }
        )),
        sentence
    );
    assert_eq!(
        event_refusal(quote!(
            enum OrderEvent {
                Placed { id: u64 },
                Paid,
            }
        )),
        sentence
    );
    assert_eq!(
        event_refusal(quote!(
            struct Placed {
                id: u64,
            }
        )),
        sentence
    );
    assert_eq!(
        event_refusal(quote!(
            struct Placed(u64);
        )),
        sentence
    );
}

#[test]
fn unions_and_empty_enums_are_refused() {
    let union = quote!(union Bits { whole: u64, part: u32 });
    assert_eq!(event_refusal(union), "an event type is an enum or a unit struct, not a union");
    assert_eq!(
        event_refusal(quote!(
            enum Never {}
        )),
        "an event type needs at least one variant to be named by"
    );
}

#[test]
fn names_that_no_store_could_hold_are_refused() {
    assert_eq!(
        event_refusal(quote!(
            #[event_type(rename = "")]
            struct A;
        )),
        "the name of an event type is empty"
    );
    assert_eq!(
        event_refusal(quote!(
            #[event_type(rename = "a\0b")]
            struct A;
        )),
        "the name of an event type has a NUL character, which not every store can hold"
    );
}

/// EVT-013, EVT-014: the bound is in bytes, and a name of exactly that length passes.
#[test]
fn names_are_bounded_by_their_kind() {
    for kind in [EVENT, AGGREGATE] {
        let attribute = syn::Ident::new(kind.attribute, proc_macro2::Span::call_site());
        let (fits, too_long) = ("é".repeat(kind.max_bytes / 2), "é".repeat(kind.max_bytes / 2 + 1));
        expanded(quote!(#[#attribute(rename = #fits)] struct A;), &kind);
        let refusals = refusals(quote!(#[#attribute(rename = #too_long)] struct A;), &kind);
        let (noun, max, length) = (kind.noun, kind.max_bytes, too_long.len());
        assert_eq!(refusals, [format!("the name of {noun} has at most {max} bytes, this one has {length}")]);
    }
}

#[test]
fn two_variants_of_one_name_are_refused() {
    let renamed = quote!(
        enum E {
            Placed,
            #[event_type(rename = "Placed")]
            Booked,
        }
    );
    assert_eq!(event_refusal(renamed), r#"`Booked` and `Placed` are both named "Placed""#);
    let folded = quote!(
        #[event_type(rename_all = "snake_case")]
        enum E {
            HttpSent,
            HTTPSent,
        }
    );
    assert_eq!(event_refusal(folded), r#"`HTTPSent` and `HttpSent` are both named "http_sent""#);
}

#[test]
fn unknown_keys_and_cases_are_refused() {
    let key = quote!(
        #[event_type(renamed = "a")]
        struct A;
    );
    assert_eq!(event_refusal(key), "unknown key: `rename` and `rename_all` are known");
    let case = event_refusal(quote!(
        #[event_type(rename_all = "UPPER")]
        enum E {
            A,
        }
    ));
    assert!(case.starts_with(r#"unknown case "UPPER": one of `snake_case`, "#), "{case}");
}

#[test]
fn keys_in_the_wrong_place_or_twice_are_refused() {
    let on_enum = quote!(
        #[event_type(rename = "a")]
        enum E {
            A,
        }
    );
    assert!(event_refusal(on_enum).contains("an enum takes `rename_all`"));
    let on_variant = quote!(
        enum E {
            #[event_type(rename_all = "camelCase")]
            A,
        }
    );
    assert!(event_refusal(on_variant).contains("use `rename` here"));
    let twice = quote!(
        #[event_type(rename = "a")]
        #[event_type(rename = "b")]
        struct A;
    );
    assert_eq!(event_refusal(twice), "this key is given twice");
}

#[test]
fn all_problems_of_an_enum_are_reported_at_once() {
    let item = quote!(
        enum E {
            A(u8),
            #[event_type(rename = "")]
            B,
            #[event_type(name = "c")]
            C,
        }
    );
    assert_eq!(refusals(item, &EVENT).len(), 3);
}
