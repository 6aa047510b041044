//! What an explanation consists of.

use serde::Serialize;
use serde_json::{Value, json};

use crate::described::{Described, described};

macro_rules! reasons {
    ($($(#[doc = $doc:literal])* $name:ident = $code:literal,)*) => {
        /// Why an event is not delivered, as a code for programs.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
        #[non_exhaustive]
        pub enum Reason {
            $($(#[doc = $doc])* #[serde(rename = $code)] $name,)*
        }

        impl Reason {
            /// All reasons.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The code.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $code,)* }
            }
        }
    };
}

reasons! {
    /// It was delivered.
    Delivered = "delivered",
    /// It was given up.
    Dead = "dead",
    /// It was cancelled before it was delivered.
    Cancelled = "cancelled",
    /// It was dead, and was deleted by an operator.
    Discarded = "discarded",
    /// Its latest time of delivery has passed.
    Expired = "expired",
    /// It is not due yet.
    NotDue = "not_due",
    /// It failed, and its next attempt is later.
    Retry = "retry",
    /// No listener or handler takes its type.
    NoListener = "no_listener",
    /// An earlier event of its group comes first.
    BehindEvent = "behind_event",
    /// An operator paused its group.
    GroupPaused = "group_paused",
    /// Its group is blocked behind a dead event.
    GroupBlocked = "group_blocked",
    /// The circuit breaker of the sink is open.
    BreakerOpen = "breaker_open",
    /// The sink fails, and its circuit breaker is closed.
    SinkFailing = "sink_failing",
    /// The node that held it crashed, perhaps because of it.
    Quarantined = "quarantined",
    /// A living node has had it for a while.
    HeldByNode = "held_by_node",
    /// The node that held it died, and another takes over.
    NodeDied = "node_died",
    /// No node is alive that would deliver it.
    NoNode = "no_node",
    /// No node holds its slot yet.
    SlotFree = "slot_free",
    /// An owner works on it under a claim.
    Claimed = "claimed",
    /// The claim of an owner ran out.
    ClaimExpired = "claim_expired",
    /// No worker has claimed it for a while.
    Unclaimed = "unclaimed",
    /// A transaction is open that locks its row or began before it was written.
    TransactionOpen = "transaction_open",
    /// Its source is disabled.
    SourceDisabled = "source_disabled",
    /// The database of its source is away.
    SourceAway = "source_away",
    /// Nothing holds it.
    NextRead = "next_read",
}

impl Described for Reason {
    fn schema() -> Value {
        json!({"type": "string", "enum": Self::ALL.iter().map(|reason| reason.as_str()).collect::<Vec<_>>()})
    }
}

described! {
    /// A fact behind an explanation.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize)]
    pub struct Evidence {
        /// What it is about.
        pub name: &'static str,
        /// The fact.
        pub value: String,
    }
}

described! {
    /// Another reason, which would hold the event if the first one went away.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize)]
    pub struct FurtherReason {
        /// Its code.
        pub reason: Reason,
        /// The reason in words.
        pub sentence: String,
    }
}

described! {
    /// One event of the chain from an event to the root of its wait.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize)]
    pub struct ChainLink {
        /// The id of the event.
        pub event: String,
        /// The code of its reason.
        pub reason: Reason,
        /// The reason in words.
        pub sentence: String,
    }
}

described! {
    /// Why an event is not delivered, or that it was.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize)]
    pub struct Explanation {
        /// The id of the event.
        pub event: String,
        /// The code of the reason.
        pub reason: Reason,
        /// The reason in words.
        pub sentence: String,
        /// The facts behind it.
        pub evidence: Vec<Evidence>,
        /// What to do; empty if there is nothing to do.
        pub advice: Vec<String>,
        /// Reasons that would hold the event if this one went away.
        pub further: Vec<FurtherReason>,
        /// The events that wait for each other, from this one to the root.
        pub chain: Vec<ChainLink>,
    }
}
