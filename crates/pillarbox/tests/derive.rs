//! The derives against the real traits.

use std::borrow::Cow;

use pillarbox::{AggregateType, Event, EventType};

#[derive(Clone, Copy, EventType)]
#[event_type(rename_all = "snake_case")]
enum AccountEvent {
    AccountOpened,
    #[event_type(rename = "account.closed")]
    AccountClosed,
}

#[derive(EventType, AggregateType)]
#[aggregate_type(rename = "account")]
struct Account;

#[derive(AggregateType)]
#[aggregate_type(rename_all = "SCREAMING_SNAKE_CASE")]
enum Kind {
    BankAccount,
}

/// EVT-013, EVT-014
#[test]
fn derived_types_name_events_and_aggregates() {
    let event = |kind: AccountEvent| Event::text(kind, "{}").aggregate(Account, 1).build().unwrap();
    assert_eq!(event(AccountEvent::AccountOpened).event_type(), "account_opened");
    assert_eq!(event(AccountEvent::AccountClosed).event_type(), "account.closed");
    assert_eq!(event(AccountEvent::AccountOpened).aggregate_type(), "account");
    assert_eq!(EventType::name(&Account), "Account");
    assert_eq!(Kind::BankAccount.name(), "BANK_ACCOUNT");
}

/// EVT-013
#[test]
fn a_trait_of_ones_own_making_does_too() {
    struct Versioned(u32);
    impl EventType for Versioned {
        fn name(&self) -> Cow<'static, str> {
            format!("order.v{}", self.0).into()
        }
    }
    assert_eq!(Event::text(Versioned(2), "{}").build().unwrap().event_type(), "order.v2");
}
