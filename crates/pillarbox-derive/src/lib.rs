//! Derives the names of event and aggregate types, and what a payload says of its event.

mod attributes;
mod case;
mod expand;
mod kind;
mod payload;

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

/// Derives `pillarbox::EventPayload`, which names the event that a payload is written as.
///
/// | in `#[event(…)]` | says |
/// |---|---|
/// | `type = "order.placed"` | the event type: text, or a value of a type that derives `EventType`; required |
/// | `group = "customer"` | the field whose value is the message group |
/// | `aggregate(Order, "order")` | the aggregate type, and the field whose value is the aggregate id |
///
/// ```
/// # extern crate self as pillarbox;
/// # use std::borrow::Cow;
/// # pub trait EventType { fn name(&self) -> Cow<'static, str>; }
/// # impl EventType for &'static str { fn name(&self) -> Cow<'static, str> { Cow::Borrowed(self) } }
/// # pub trait EventPayload {
/// #     fn event_type() -> Cow<'static, str>;
/// #     fn group(&self) -> Option<String> { None }
/// # }
/// use pillarbox_derive::EventPayload;
///
/// #[derive(EventPayload)]
/// #[event(type = "order.placed", group = "customer")]
/// struct Placed {
///     order: i64,
///     customer: String,
/// }
///
/// # fn main() {
/// let placed = Placed { order: 7, customer: "ann".to_owned() };
/// assert_eq!(Placed::event_type(), "order.placed");
/// assert_eq!(placed.group().as_deref(), Some("ann"));
/// # let _ = placed.order;
/// # }
/// ```
#[proc_macro_derive(EventPayload, attributes(event))]
pub fn derive_event_payload(input: TokenStream) -> TokenStream {
    syn::parse(input)
        .and_then(|input| payload::expand(&input))
        .unwrap_or_else(|error| error.into_compile_error())
        .into()
}

fn derive(input: TokenStream, kind: &Kind) -> TokenStream {
    syn::parse(input)
        .and_then(|input| expand::expand(&input, kind))
        .unwrap_or_else(|error| error.into_compile_error())
        .into()
}
