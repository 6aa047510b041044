//! Types of events and aggregates: derived enums or plain strings.

use std::borrow::Cow;

/// The aggregate type of events without one.
pub const GLOBAL: &str = "__GLOBAL__";

/// The type of an event, by which listeners are selected.
///
/// Derive it on an enum or unit struct, or use a string.
pub trait EventType {
    /// The stored name.
    fn name(&self) -> Cow<'static, str>;
}

/// The type of the aggregate that an event is about.
pub trait AggregateType {
    /// The stored name.
    fn name(&self) -> Cow<'static, str>;
}

/// The aggregate type of events without one, `__GLOBAL__`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Global;

impl AggregateType for Global {
    fn name(&self) -> Cow<'static, str> {
        Cow::Borrowed(GLOBAL)
    }
}

macro_rules! strings_are {
    ($($kind:ident),*) => {$(
        impl $kind for &str {
            fn name(&self) -> Cow<'static, str> {
                Cow::Owned((*self).to_owned())
            }
        }
        impl $kind for String {
            fn name(&self) -> Cow<'static, str> {
                Cow::Owned(self.clone())
            }
        }
        impl $kind for Cow<'static, str> {
            fn name(&self) -> Cow<'static, str> {
                self.clone()
            }
        }
    )*};
}
strings_are!(EventType, AggregateType);
