//! Derives the name of an event or aggregate type from the name of its enum variant or unit struct.

mod attributes;
mod case;
mod expand;
mod kind;

use kind::Kind;
use proc_macro::TokenStream;

/// Derives `pillarbox::EventType` for an enum of unit variants or a unit struct.
///
/// A variant is named as it is written, unless `rename_all` on the enum or `rename` on the variant says otherwise.
/// `rename_all` takes `snake_case`, `kebab-case`, `dot.case`, `SCREAMING_SNAKE_CASE`, `camelCase` and `PascalCase`.
/// Names have 1 to 255 bytes, and no two variants share one.
///
/// ```
/// # extern crate self as pillarbox;
/// # pub trait EventType { fn name(&self) -> std::borrow::Cow<'static, str>; }
/// use pillarbox_derive::EventType;
///
/// #[derive(EventType)]
/// #[event_type(rename_all = "dot.case")]
/// enum OrderEvent {
///     OrderPlaced,
///     #[event_type(rename = "order.gone")]
///     OrderCancelled,
/// }
///
/// # fn main() {
/// assert_eq!(OrderEvent::OrderPlaced.name(), "order.placed");
/// assert_eq!(OrderEvent::OrderCancelled.name(), "order.gone");
/// # }
/// ```
#[proc_macro_derive(EventType, attributes(event_type))]
pub fn derive_event_type(input: TokenStream) -> TokenStream {
    derive(input, &kind::EVENT)
}

/// Derives `pillarbox::AggregateType` for an enum of unit variants or a unit struct.
///
/// It takes the options of `EventType`, in `#[aggregate_type(…)]`. Names have 1 to 64 bytes.
///
/// ```
/// # extern crate self as pillarbox;
/// # pub trait AggregateType { fn name(&self) -> std::borrow::Cow<'static, str>; }
/// use pillarbox_derive::AggregateType;
///
/// #[derive(AggregateType)]
/// struct Order;
///
/// # fn main() {
/// assert_eq!(Order.name(), "Order");
/// # }
/// ```
#[proc_macro_derive(AggregateType, attributes(aggregate_type))]
pub fn derive_aggregate_type(input: TokenStream) -> TokenStream {
    derive(input, &kind::AGGREGATE)
}

fn derive(input: TokenStream, kind: &Kind) -> TokenStream {
    syn::parse(input)
        .and_then(|input| expand::expand(&input, kind))
        .unwrap_or_else(|error| error.into_compile_error())
        .into()
}
