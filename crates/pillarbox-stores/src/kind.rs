//! The list: one line for each kind of store.

/// A kind of store, and whether this build has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreKind {
    /// The word of [`Facts::kind`](pillarbox::port::Facts::kind).
    pub name: &'static str,
    /// The schemes of its URLs, the usual one first.
    pub schemes: &'static [&'static str],
    /// How a URL looks.
    pub example: &'static str,
    /// Whether this build has it.
    pub built_in: bool,
}

const STORES: &[StoreKind] = &[
    StoreKind {
        name: "sqlite",
        schemes: &["sqlite"],
        example: "sqlite:FILE",
        built_in: cfg!(feature = "sqlite"),
    },
    StoreKind {
        name: "postgres",
        schemes: &["postgres", "postgresql"],
        example: "postgres://USER@HOST/DATABASE",
        built_in: cfg!(feature = "postgres"),
    },
    StoreKind {
        name: "mysql",
        schemes: &["mysql", "mariadb"],
        example: "mysql://USER@HOST/DATABASE",
        built_in: cfg!(feature = "mysql"),
    },
    StoreKind {
        name: "mongodb",
        schemes: &["mongodb", "mongodb+srv"],
        example: "mongodb://HOST/DATABASE",
        built_in: cfg!(feature = "mongodb"),
    },
    StoreKind {
        name: "sqlserver",
        schemes: &["sqlserver"],
        example: "sqlserver://USER@HOST/DATABASE",
        built_in: false,
    },
];

/// Every kind of store there is; those this build lacks too.
#[must_use]
pub const fn stores() -> &'static [StoreKind] {
    STORES
}

/// The kind that a scheme belongs to.
pub(crate) fn by_scheme(scheme: &str) -> Option<&'static StoreKind> {
    STORES.iter().find(|kind| kind.schemes.contains(&scheme))
}
