//! The derives as a user's crate compiles them, against traits of the shape that `pillarbox` has.

// The generated code names `::pillarbox`; this crate stands in for it, which spares a cyclic dependency.
extern crate self as pillarbox;

use std::borrow::Cow;

/// Stands in for the library's trait.
pub trait EventType {
    /// The name that is stored.
    fn name(&self) -> Cow<'static, str>;
}

/// Stands in for the library's trait.
pub trait AggregateType {
    /// The name that is stored.
    fn name(&self) -> Cow<'static, str>;
}

#[derive(pillarbox_derive::EventType)]
#[event_type(rename_all = "kebab-case")]
enum AccountEvent {
    AccountOpened,
    #[event_type(rename = "closed")]
    AccountClosed,
}

#[derive(pillarbox_derive::EventType, pillarbox_derive::AggregateType)]
#[aggregate_type(rename = "account")]
struct Account;

#[derive(pillarbox_derive::AggregateType)]
enum Ledger {
    Main,
    Empty {},
}

/// EVT-013
#[test]
fn event_types_are_named_by_variant_or_struct() {
    assert_eq!(AccountEvent::AccountOpened.name(), "account-opened");
    assert_eq!(AccountEvent::AccountClosed.name(), "closed");
    assert_eq!(EventType::name(&Account), "Account");
}

/// EVT-014
#[test]
fn aggregate_types_are_named_by_variant_or_struct() {
    assert_eq!(AggregateType::name(&Account), "account");
    assert_eq!(Ledger::Main.name(), "Main");
    assert_eq!(Ledger::Empty {}.name(), "Empty");
}

/// EVT-013: a derived name costs no allocation, whatever the event rate.
#[test]
fn derived_names_are_borrowed() {
    assert!(matches!(AccountEvent::AccountOpened.name(), Cow::Borrowed(_)));
}
