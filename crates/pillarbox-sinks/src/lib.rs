//! Where events go: HTTP batch endpoints, webhooks, brokers, standard output. A feature each.
//!
//! Every one is a [`pillarbox::port::Sink`], for the relay and for an outbox in process alike.
