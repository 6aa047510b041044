//! Taking in what others wrote: documents without a number get one, and the fields that only we know.

use jiff::Timestamp;
use mongodb::bson::{Bson, Document, RawDocumentBuf, doc};
use pillarbox::model::{GroupKey, Layout, Status};

use crate::call::{Call, Find};
use crate::document::code;
use crate::error::Failure;
use crate::number::{Drawn, Head, closed, draw, head};
use crate::row::Fields;
use crate::time::us;

/// How many are taken in at once; the rest at the next read.
const AT_ONCE: usize = 500;
/// All that is needed to place a row. Payloads stay where they are.
const FIELDS: [&str; 9] = [
    "aggregate_type",
    "aggregate_id",
    "message_group",
    "slot",
    "status",
    "attempts",
    "created_at",
    "available_at",
    "event_type",
];

/// Where the counter stands once all strays are taken in that were there.
pub(crate) async fn adopted(call: &mut Call<'_>) -> Result<Head, Failure> {
    if call.in_transaction() {
        adopt(call).await?;
        return head(call).await;
    }
    // Nearly always there is none: both questions at once, and no third.
    let mut beside = Call::new(call.outbox(), None);
    let (strays, found) = tokio::try_join!(strays(call), head(&mut beside))?;
    if strays.is_empty() {
        return Ok(found);
    }
    number(call, &strays).await?;
    head(call).await
}

/// Takes in what has no number.
pub(crate) async fn adopt(call: &mut Call<'_>) -> Result<(), Failure> {
    let strays = strays(call).await?;
    if strays.is_empty() {
        return Ok(());
    }
    number(call, &strays).await
}

/// Documents without a number, in the order in which they were written.
///
/// The index of numbers holds them in the order they came; a sort would only lose it.
async fn strays(call: &mut Call<'_>) -> Result<Vec<RawDocumentBuf>, Failure> {
    // Items of others stay as they are.
    if call.outbox().layout == Layout::Flowcatalyst {
        return Ok(Vec::new());
    }
    let fields: Document = FIELDS.iter().map(|field| ((*field).to_owned(), Bson::from(1))).collect();
    let strays =
        Find { filter: doc! { "seq": Bson::Null }, fields: Some(fields), limit: AT_ONCE, ..Find::default() };
    call.find(&call.names().event, strays).await
}

async fn number(call: &mut Call<'_>, strays: &[RawDocumentBuf]) -> Result<(), Failure> {
    let drawn = draw(call, strays.len()).await?;
    let statements = strays.iter().zip(drawn.first..).map(|(stray, seq)| place(stray, seq, &drawn)).collect();
    let placed = call.update(&call.names().event, statements).await;
    closed(call, &drawn, placed).map(drop)
}

/// What is wrong is written down, and something right put in its place, so that every later statement can work on it.
fn place(stray: &RawDocumentBuf, seq: i64, drawn: &Drawn) -> Document {
    let mut fields = Fields::new(stray);
    let home = fields.home();
    let group = fields.keys().group();
    let time = |time: Option<Timestamp>| us(time.unwrap_or(drawn.now));
    let mut change = doc! {
        "seq": seq,
        "home": home,
        "slot": fields.slot(),
        "status": fields.number("status").unwrap_or(code(Status::New).into()),
        "attempts": fields.number("attempts").unwrap_or_default().max(0),
        "created_at": time(fields.time("created_at")),
        "available_at": time(fields.time("available_at")),
        "group_key": group.as_ref().map(GroupKey::as_str),
    };
    if let Some(wrong) = fields.wrong() {
        change.insert("malformed", wrong);
    }
    doc! { "q": { "_id": fields.key(), "seq": Bson::Null }, "u": { "$set": change } }
}
