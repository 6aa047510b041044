//! The model: events, their ids and limits, and their rows in a store.

mod column;
mod decode;
mod event;
mod event_payload;
mod field_names;
pub mod flowcatalyst;
mod group;
mod headers;
mod id;
mod into_event;
mod invalid;
mod join;
mod layout;
pub(crate) mod limits;
mod names;
mod new_columns;
mod payload;
mod place;
mod read_json;
mod row;
mod status;
mod trace;
mod tsid;
mod when;

pub use column::{COLUMNS, Column, HEAVY_COLUMNS, HEAVY_ITEM_COLUMNS, ITEM_COLUMNS};
pub use decode::{RowDecoder, Values, WithClaim};
pub use event::{Event, EventBuilder};
pub use event_payload::EventPayload;
pub use group::GroupKey;
pub use headers::Headers;
pub use id::{EventId, NodeId, OwnerId};
pub use into_event::{IntoEvent, IntoEvents, ManyEvents, OneEvent};
pub use invalid::Invalid;
pub use join::{
    Continuation, Counted, FailedSteps, GROUPING_KEY_MAX, JOIN_STEPS_MAX, JoinId, JoinMember, JoinRecord,
    JoinStatus, JoinWait, StepState,
};
pub use layout::Layout;
pub use limits::{
    AGGREGATE_ID_MAX, AGGREGATE_TYPE_MAX, CORRELATION_ID_MAX, ERROR_MAX_CHARS, EVENT_ID_MAX, EVENT_TYPE_MAX,
    HEADER_KEY_MAX, HEADERS_MAX, Limits, MESSAGE_GROUP_MAX, MESSAGE_ID_MAX, PAYLOAD_MAX, ROW_BYTES_MAX,
    TENANT_ID_MAX, TableName, held_reason, stored_error,
};
pub use names::{AggregateType, EventType, GLOBAL, Global};
pub use new_columns::NewColumns;
pub use payload::Payload;
pub use place::{Lane, Seq, Slot, SlotSet, Token};
pub use row::{Attempt, Decoded, Malformed, NewRow, Placement, Record, Row, Written};
pub use status::Status;
pub use trace::TraceContext;
pub use tsid::{Tsid, TsidGenerator};
pub use when::When;
