//! Types of events and aggregates: enums by derive, or plain strings.

use std::borrow::Cow;

/// The aggregate type of events that name none.
pub const GLOBAL: &str = "__GLOBAL__";

/// What kind of event it is; listeners are found by it.
///
/// Derive it on an enum or unit struct, or use a string.
pub trait EventType {
    /// The name that is stored.
    fn name(&self) -> Cow<'static, str>;
}

/// What kind of thing an event is about.
pub trait AggregateType {
    /// The name that is stored.
    fn name(&self) -> Cow<'static, str>;
}

/// The aggregate type of events that name none, `__GLOBAL__`.
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
