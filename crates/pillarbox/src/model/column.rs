//! The columns of rows and items in every SQL store, by name.

/// The columns that a read of native rows selects. [`HEAVY_COLUMNS`] may be left out if a row is too large.
pub const COLUMNS: &str = "seq, event_id, slot, status, attempts, created_at, available_at, expires_at, \
    event_type, aggregate_type, aggregate_id, tenant_id, message_group, message_id, correlation_id, occurred_at, \
    due_at, headers, payload, payload_bytes, lock_token";

/// The columns whose size is limited only by the writer's limits.
pub const HEAVY_COLUMNS: [&str; 3] = ["headers", "payload", "payload_bytes"];

/// The columns that a read of items selects.
pub const ITEM_COLUMNS: &str =
    "id, type, message_group, payload, status, retry_count, created_at, processed_at, error_message";

/// The columns of items whose size is limited only by the writer's limits.
pub const HEAVY_ITEM_COLUMNS: [&str; 2] = ["payload", "error_message"];

macro_rules! columns {
    ($($column:ident = $name:literal),+ $(,)?) => {
        /// A column that a statement may return, by name.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[expect(missing_docs, reason = "each is called what its column is")]
        pub enum Column {
            $($column,)+
        }

        impl Column {
            /// Every column, each at the place of its discriminant.
            pub const ALL: &[Self] = &[$(Self::$column,)+];

            /// The column of this name.
            #[must_use]
            pub fn named(name: &str) -> Option<Self> {
                match name {
                    $($name => Some(Self::$column),)+
                    _ => None,
                }
            }

            /// The name of the column.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$column => $name,)+
                }
            }
        }
    };
}

columns! {
    Seq = "seq",
    EventId = "event_id",
    Slot = "slot",
    Status = "status",
    Attempts = "attempts",
    CreatedAt = "created_at",
    AvailableAt = "available_at",
    ExpiresAt = "expires_at",
    EventType = "event_type",
    AggregateType = "aggregate_type",
    AggregateId = "aggregate_id",
    TenantId = "tenant_id",
    MessageGroup = "message_group",
    MessageId = "message_id",
    CorrelationId = "correlation_id",
    OccurredAt = "occurred_at",
    DueAt = "due_at",
    Headers = "headers",
    Payload = "payload",
    PayloadBytes = "payload_bytes",
    LockToken = "lock_token",
    LastError = "last_error",
    DoneAt = "done_at",
    LockedBy = "locked_by",
    LockedUntil = "locked_until",
    ProcessedBy = "processed_by",
    Id = "id",
    Type = "type",
    RetryCount = "retry_count",
    ProcessedAt = "processed_at",
    ErrorMessage = "error_message",
    // Computed by statements: the database's time, the size of contents that were left out or of the whole
    // row, whether the previous claim expired, whether the node is the leader.
    Now = "now",
    LeftOut = "left_out",
    Bytes = "bytes",
    Lapsed = "lapsed",
    Leads = "leads",
}
