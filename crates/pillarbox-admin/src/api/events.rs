//! Lists, shows and cancels events.

use std::collections::BTreeMap;

use axum::http::StatusCode;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use pillarbox::model::{Event, EventId, Payload, Record, Seq, Status};
use pillarbox::port::{Cancel, Contents, List, PageOrder, Select, Shown};
use pillarbox::redact;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::call::Call;
use crate::described::{Described, described};
use crate::refusal::{Refusal, bad, missing, refusal, store_failed};
use crate::roles::AdminRole;
use crate::state::{AdminState, Place};

/// Default number of events in a page.
const LIMIT: usize = 50;
/// Maximum number of events in a page.
const LIMIT_MAX: usize = 200;
/// Rows that are read at a time: each has its payload, of up to 1 MiB, which the page leaves out.
pub(crate) const AT_A_TIME: usize = 10;

described! {
    /// An event in a list.
    #[derive(Serialize)]
    pub(crate) struct EventView {
        /// Its source.
        source: String,
        /// Its table.
        table: String,
        /// Its id.
        id: String,
        /// Its sequence number.
        seq: i64,
        /// new, retry, done or dead.
        status: String,
        /// Its type; null if the row can't be decoded.
        r#type: Option<String>,
        /// Its aggregate type.
        aggregate_type: Option<String>,
        /// The id of its aggregate.
        aggregate_id: Option<String>,
        /// Its group.
        group: Option<String>,
        /// Its tenant.
        tenant: Option<String>,
        /// Its correlation id.
        correlation_id: Option<String>,
        /// Its slot or lane.
        slot: i16,
        /// Failed attempts.
        attempts: u32,
        /// When it was written.
        created_at: Timestamp,
        /// The earliest time of delivery.
        available_at: Timestamp,
        /// The latest time of delivery.
        expires_at: Option<Timestamp>,
        /// When it became done or dead.
        ended_at: Option<Timestamp>,
        /// The last error; viewers see its first line, which quotes no answer of an endpoint.
        last_error: Option<String>,
        /// The owner of its claim.
        locked_by: Option<String>,
        /// When that claim expires.
        locked_until: Option<Timestamp>,
        /// Bytes of its payload.
        payload_size: Option<usize>,
        /// Why the row can't be decoded.
        malformed: Option<String>,
    }
}

described! {
    /// A page of events.
    #[derive(Serialize)]
    pub(crate) struct EventPage {
        /// The events.
        events: Vec<EventView>,
        /// `after` of the next page; null on the last.
        next: Option<String>,
    }
}

described! {
    /// A failed attempt.
    #[derive(Serialize)]
    pub(crate) struct AttemptView {
        /// Its number, from 1.
        number: u32,
        /// When it failed.
        at: Timestamp,
        /// Who made it.
        by: String,
        /// Its error.
        error: String,
    }
}

/// The headers of an event.
#[derive(Serialize)]
#[serde(transparent)]
pub(crate) struct HeaderMapView(BTreeMap<String, String>);

impl Described for HeaderMapView {
    fn schema() -> Value {
        json!({"type": "object", "additionalProperties": {"type": "string"}})
    }
}

described! {
    /// The contents of an event, for operators.
    #[derive(Serialize)]
    pub(crate) struct ContentsView {
        /// Its headers.
        headers: HeaderMapView,
        /// The payload, if it is text.
        text: Option<String>,
        /// The payload in base64, if it is bytes.
        base64: Option<String>,
    }
}

described! {
    /// One event.
    #[derive(Serialize)]
    pub(crate) struct EventDetail {
        /// The event.
        event: EventView,
        /// Its contents; null for viewers, and if the row can't be decoded.
        contents: Option<ContentsView>,
        /// Whether the contents are left out because the caller is no operator.
        contents_hidden: bool,
        /// Its failed attempts, the oldest first.
        failures: Vec<AttemptView>,
    }
}

described! {
    /// The body of a cancellation; it has no fields.
    #[derive(Default, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub(crate) struct CancelBody {
    }
}

described! {
    /// A cancelled event.
    #[derive(Serialize)]
    pub(crate) struct CancelledEvent {
        /// Its id.
        cancelled: String,
    }
}

/// The selection of a query.
fn select(call: &Call) -> Result<Select, Refusal> {
    let statuses = match call.text("status").as_deref() {
        None => Vec::new(),
        Some("pending") => vec![Status::New, Status::Retry],
        Some(name) => match Status::ALL.into_iter().find(|status| status.to_string() == name) {
            Some(status) => vec![status],
            None => return Err(bad("`status` is new, retry, pending, done or dead")),
        },
    };
    Ok(Select {
        statuses,
        event_type: call.text("type"),
        aggregate_type: call.text("aggregate_type"),
        group: call.group("group"),
        ..Select::default()
    })
}

pub(crate) async fn list(state: &AdminState, call: &Call) -> Result<EventPage, Refusal> {
    let limit = call.limit(LIMIT, LIMIT_MAX)?;
    let select = select(call)?;
    let order = match call.text("order").as_deref() {
        None | Some("newest") => PageOrder::NewestFirst,
        Some("oldest") => PageOrder::OldestFirst,
        Some(_) => return Err(bad("`order` is newest or oldest")),
    };
    let (mut after, mut after_id) = match call.text("after") {
        None => (None, None),
        Some(cursor) => {
            let cursor = cursor.split_once('.').and_then(|(seq, id)| Some((seq.parse().ok()?, id)));
            let (seq, id) = cursor.ok_or_else(|| bad("`after` is `next` of the page before"))?;
            (Some(Seq(seq)), Some(EventId::from_row(id)))
        }
    };
    let place = state.place(call)?;
    let mut events: Vec<EventView> = Vec::new();
    // Reads one event more than it shows, to know whether there is a next page.
    while events.len() <= limit {
        let wanted = (limit + 1 - events.len()).min(AT_A_TIME);
        let list = List {
            select: select.clone(),
            order,
            after: after.take(),
            after_id: after_id.take(),
            limit: wanted,
            contents: Contents::Whole,
        };
        let page = match place.table.store.admin().list(list).await {
            Ok(page) => page,
            Err(error) => return Err(store_failed(&place.table.store, error).await),
        };
        events.extend(page.iter().map(|record| EventView::new(&place, record, call.role)));
        if page.len() < wanted {
            break;
        }
        (after, after_id) = page.last().map(|last| (last.seq, last.id.clone())).unzip();
    }
    let more = events.len() > limit;
    events.truncate(limit);
    let next = events.last().filter(|_| more).map(|last| format!("{}.{}", last.seq, last.id));
    Ok(EventPage { events, next })
}

/// Finds an event in the tables that the query selects.
async fn find(state: &AdminState, call: &Call) -> Result<(Place, Shown), Refusal> {
    let id = call.part("id");
    if id.contains('\0') {
        return Err(bad("an id has no NUL character"));
    }
    for place in state.places(call)? {
        match place.table.store.admin().show(EventId::from_row(id)).await {
            Ok(Some(shown)) => return Ok((place, shown)),
            Ok(None) => {}
            Err(error) => return Err(store_failed(&place.table.store, error).await),
        }
    }
    Err(missing(
        "there is no such event: it was purged, cancelled or discarded, or its transaction did not commit",
    ))
}

pub(crate) async fn show(state: &AdminState, call: &Call) -> Result<EventDetail, Refusal> {
    let (place, shown) = find(state, call).await?;
    let may_see = call.role >= AdminRole::Operator;
    let event = shown.record.event.as_ref().ok();
    let failures = shown.attempts.iter().map(|attempt| AttemptView {
        number: attempt.number,
        at: attempt.at,
        by: attempt.by.clone(),
        error: error_for(call.role, &attempt.error),
    });
    Ok(EventDetail {
        event: EventView::new(&place, &shown.record, call.role),
        contents: event.filter(|_| may_see).map(ContentsView::of),
        contents_hidden: event.is_some() && !may_see,
        failures: failures.collect(),
    })
}

pub(crate) async fn cancel(
    state: &AdminState,
    call: &Call,
    CancelBody {}: CancelBody,
) -> Result<CancelledEvent, Refusal> {
    let (place, Shown { record, .. }) = find(state, call).await?;
    let conflict = |why: String| Err(refusal(StatusCode::CONFLICT, why));
    if !record.status.is_pending() {
        return conflict(format!("the event is {}: only a pending one can be cancelled", record.status));
    }
    let cancel = Cancel { ids: vec![record.id.clone()], by: call.actor.clone(), now: None };
    match place.table.store.admin().cancel(cancel).await {
        Ok(cancelled) if cancelled.is_empty() => {
            conflict("the event is being delivered, and was not cancelled".to_owned())
        }
        Ok(_) => Ok(CancelledEvent { cancelled: record.id.to_string() }),
        Err(error) => Err(store_failed(&place.table.store, error).await),
    }
}

/// An error as this role may see it: what follows the first line may quote the payload.
pub(crate) fn error_for(role: AdminRole, error: &str) -> String {
    if role >= AdminRole::Operator { error.to_owned() } else { redact::first_line(error).to_owned() }
}

impl EventView {
    fn new(place: &Place, record: &Record, role: AdminRole) -> Self {
        let event = record.event.as_ref().ok();
        let text = |field: fn(&Event) -> Option<&str>| event.and_then(field).map(str::to_owned);
        Self {
            source: place.source.clone(),
            table: place.table.name.clone(),
            id: record.id.to_string(),
            seq: record.seq.0,
            status: record.status.to_string(),
            r#type: text(|event| Some(event.event_type())),
            aggregate_type: text(|event| Some(event.aggregate_type())),
            aggregate_id: text(Event::aggregate_id),
            group: record.group.as_ref().map(ToString::to_string),
            tenant: text(Event::tenant_id),
            correlation_id: text(Event::correlation_id),
            slot: record.slot.0,
            attempts: record.attempts,
            created_at: record.created_at,
            available_at: record.available_at,
            expires_at: record.expires_at,
            ended_at: record.done_at,
            last_error: record.last_error.as_deref().map(|error| error_for(role, error)),
            locked_by: record.locked_by.clone(),
            locked_until: record.locked_until,
            payload_size: event.map(|event| event.payload().size()),
            malformed: record.event.as_ref().err().map(ToString::to_string),
        }
    }
}

impl ContentsView {
    fn of(event: &Event) -> Self {
        let headers = event.headers().iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
        let (text, base64) = match event.payload() {
            Payload::Json(text) => (Some(text.to_string()), None),
            Payload::Bytes(bytes) => (None, Some(STANDARD.encode(bytes))),
        };
        Self { headers: HeaderMapView(headers.collect()), text, base64 }
    }
}
