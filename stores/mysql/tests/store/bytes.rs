//! Keys and types compare by bytes: case, accents and blanks at the end make a difference.

use pillarbox::model::{Event, EventId, NewRow, Placement};
use pillarbox::port::{Admin, Select, Table, Write};

use crate::kit::Fixture;

/// PBX-010: what differs in any byte is another id, another type, another group, in other slots or the same.
#[tokio::test(flavor = "multi_thread")]
async fn names_that_differ_in_any_byte_are_different() {
    for fixture in Fixture::all().await {
        let store = fixture.store().await;
        let names = ["Order", "order", "Order ", "Ordér", "Orde\u{301}r", "ORDER", "Straße", "Strasse", "a"];
        let row = |name: &&str| {
            let event =
                Event::text(*name, format!("{{\"n\":\"{name}\"}}")).id(*name).group(*name).message_id(*name);
            NewRow { event: event.build().unwrap(), placement: Placement::Slot }
        };
        let rows: Vec<NewRow> = names.iter().map(row).collect();
        let written = store.write(Write { rows, now: None }).await.unwrap();
        assert!(written.iter().all(|one| one.fresh), "{written:?}");
        for name in names {
            let shown = store.show(EventId::new(name).unwrap()).await.unwrap().expect("there");
            let event = shown.record.event.unwrap();
            assert_eq!((event.event_type(), event.message_group()), (name, Some(name)));
            let of_type = Select { event_type: Some(name.into()), ..Select::default() };
            assert_eq!(store.count(of_type).await.unwrap(), 1, "{name:?}");
        }
    }
}
