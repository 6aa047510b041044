//! The admin API of outboxes: one axum router for health, metrics, inspection and operation.
//!
//! [`AdminApi`] makes the router from [`AdminSources`]. [`AdminServer`] serves it on an address of its own,
//! with limits for connections. A service mounts it beside its own routes:
//!
//! ```no_run
//! use pillarbox_admin::{AccessTokens, AdminApi, AdminTokens, TableSources};
//! # fn mount(table: pillarbox::port::AnyTable) -> Result<axum::Router, Box<dyn std::error::Error>> {
//! let operator = AccessTokens::parse(&std::env::var("OUTBOX_TOKEN")?)?;
//! let tokens = AdminTokens { operator, ..AdminTokens::default() };
//! let sources = TableSources::new([("orders".to_owned(), "outbox_event".to_owned(), table)]);
//! let outbox = AdminApi::new(sources).tokens(tokens);
//! let service: axum::Router = axum::Router::new().nest("/outbox", outbox.router());
//! # Ok(service) }
//! ```
//!
//! `ROUTES` in `routes.rs` is the one list of routes: the router, the roles and the OpenAPI document are made from it.

mod api;
mod call;
mod connections;
mod described;
mod guard;
mod openapi;

mod refusal;
mod roles;
mod routes;
mod server;
mod sources;
mod state;
pub mod why;

pub use openapi::document;
pub use roles::{AccessTokens, AdminCaller, AdminRole, AdminTokens, BadToken};
pub use routes::{AdminApi, RouteRole, matrix};
pub use server::AdminServer;
pub use sources::{
    AdminSource, AdminSources, AdminTable, EngineView, LastFailure, SourceCounts, SourceStatus, TableSources,
};
