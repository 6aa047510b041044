//! What the handles and builders of several stores have in common.

/// Implements `Clone` and `Debug` for the handle of a store's tables: a struct of shared state and a marker.
/// The handle has a method `name`.
#[macro_export]
macro_rules! handle {
    ($Table:ident) => {
        impl<K> Clone for $Table<K> {
            fn clone(&self) -> Self {
                Self(::std::sync::Arc::clone(&self.0), ::std::marker::PhantomData)
            }
        }

        impl<K> ::std::fmt::Debug for $Table<K> {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                write!(f, concat!(stringify!($Table), "({})"), self.name())
            }
        }
    };
}

/// Implements the ways to open a store of native tables over a pool of sqlx.
#[macro_export]
macro_rules! constructors {
    ($Store:ident, $Builder:ident, $Pool:ty, $url:literal) => {
        impl $Store {
            /// Opens a store beside an application's own pool, with the default settings.
            ///
            /// Transactions begin on that pool. All other work uses the store's own connections, opened with
            /// the pool's options.
            #[must_use]
            pub fn new(pool: $Pool) -> Self {
                Self::builder(pool).open()
            }

            #[doc = concat!("Opens a store with its own pool, from a URL `", $url, "`.")]
            pub fn open_url(url: &str) -> Result<Self, ::pillarbox::port::StoreError> {
                Ok(Self::builder_from_url(url)?.open())
            }

            /// Returns a builder for a store beside an application's own pool.
            pub fn builder(pool: $Pool) -> $Builder {
                $Builder::new(pool)
            }

            #[doc = concat!("Returns a builder for a store with its own pool, from a URL `", $url, "`.")]
            pub fn builder_from_url(url: &str) -> Result<$Builder, ::pillarbox::port::StoreError> {
                $Builder::from_url(url)
            }
        }
    };
}
