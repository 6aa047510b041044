//! The memory store, as it is tried.

use std::sync::Arc;

use pillarbox::Event;
use pillarbox::memory::{MemoryStore, Unreadable};
use pillarbox::model::{EventId, GLOBAL, GroupKey, Headers, NewRow, Placement};
use pillarbox::port::{AnyTable, StoreError, Table, Write};
use pillarbox_conformance::{Fixture, Foreign, ForeignRow, Harness, Later, OnBegin, Planted};

pub(crate) struct Memory;

impl Harness for Memory {
    fn name(&self) -> &str {
        "memory"
    }

    fn fresh(&self) -> Later<'_, Result<Fixture, String>> {
        let store = MemoryStore::new();
        let fixture = Fixture {
            store: AnyTable::Native(Arc::new(store.clone())),
            beside: AnyTable::Native(Arc::new(store.clone())),
            foreign: Arc::new(Rows(store.clone())),
            transactions: Some(Arc::new(OnBegin(store.clone()))),
            open: Some(Arc::new(OnBegin(store))),
            bare: None,
            guard: None,
        };
        Box::pin(async { Ok(fixture) })
    }
}

/// Nobody else can write to memory: what would be unreadable is planted as such.
struct Rows(MemoryStore);

impl Foreign for Rows {
    fn write(&self, row: ForeignRow) -> Later<'_, Result<Planted, StoreError>> {
        Box::pin(async move {
            match (flaw(&row), &row.payload) {
                (None, Some(payload)) => self.write_event(&row, payload).await?,
                (reason, _) => {
                    let reason = reason.unwrap_or_else(|| "it has no payload".to_owned());
                    self.0.plant(Unreadable {
                        id: EventId::from_row(match &row.id_bytes {
                            Some(bytes) => String::from_utf8_lossy(bytes).into_owned(),
                            None => row.event_id,
                        }),
                        event_type: row.event_type,
                        group: row.aggregate_id.map(|id| {
                            GroupKey::new(format!("{}/{id}", row.aggregate_type.as_deref().unwrap_or(GLOBAL)))
                        }),
                        reason,
                    });
                }
            }
            Ok(Planted::Taken)
        })
    }
}

impl Rows {
    async fn write_event(&self, row: &ForeignRow, payload: &str) -> Result<(), StoreError> {
        let mut event = Event::text(row.event_type.as_str(), payload).id(row.event_id.as_str());
        if let Some(name) = &row.aggregate_type {
            event = event.aggregate_type(name.as_str());
        }
        if let Some(id) = &row.aggregate_id {
            event = event.aggregate_id(id);
        }
        for (name, value) in Headers::from_stored(row.headers.as_deref()).unwrap_or_default().iter() {
            event = event.header(name, value);
        }
        let row = NewRow { event: event.build()?, placement: Placement::Slot };
        self.0.write(Write { rows: vec![row], now: None }).await.map(drop)
    }
}

fn flaw(row: &ForeignRow) -> Option<String> {
    let not_a_number = |text: &Option<String>| text.as_ref().is_some_and(|text| text.parse::<i64>().is_err());
    if [&row.attempts, &row.created_at, &row.available_at].into_iter().any(not_a_number) {
        return Some("text where a number should be".to_owned());
    }
    if row.id_bytes.is_some() {
        return Some("an id that is no text".to_owned());
    }
    Headers::from_stored(row.headers.as_deref()).err().map(|malformed| malformed.to_string())
}
