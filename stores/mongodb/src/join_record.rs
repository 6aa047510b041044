//! Encoding of joins and their members as documents.

use mongodb::bson::{Bson, Document, RawDocument, RawDocumentBuf, doc};
use pillarbox::model::{
    Continuation, EventId, FailedSteps, JoinId, JoinMember, JoinRecord, JoinStatus, JoinWait, StepState,
};

use crate::call::{Call, Find, whole};
use crate::error::DriverError;
use crate::time::{from_us, us};

/// The fields of a join, without its key.
pub(crate) fn fields(join: &JoinRecord) -> Document {
    doc! {
        "grouping_key": join.grouping_key.as_deref(),
        "expected_steps": i64::from(join.expected),
        "attached_steps": i64::from(join.attached),
        "completed_steps": i64::from(join.completed),
        "failed_steps": i64::from(join.failed),
        "status": i32::from(join.status.code()),
        "metadata": join.metadata.as_deref(),
        "wait": join.wait.as_ref().map(waiting),
        "fired_id": join.fired.as_ref().map(EventId::as_str),
        "created_at": us(join.created_at),
        "updated_at": us(join.updated_at),
    }
}

fn waiting(wait: &JoinWait) -> Document {
    let next = |next: &Option<Continuation>| {
        next.as_ref().map(|next| doc! { "topic": next.topic.as_str(), "payload": next.payload.as_str() })
    };
    doc! {
        "fail_if_any": wait.failed_steps == FailedSteps::Fail,
        "on_complete": next(&wait.on_complete),
        "on_fail": next(&wait.on_fail),
        "message": wait.message.as_str(),
        "headers": wait.headers.as_deref(),
    }
}

/// Finds joins in the order of the request.
pub(crate) async fn find(call: &mut Call<'_>, find: Find) -> Result<Vec<JoinRecord>, DriverError> {
    let found = call.find(&call.names().join, find).await?;
    found.iter().map(|document| record(document)).collect()
}

/// Reads one join.
pub(crate) async fn read(call: &mut Call<'_>, join: &JoinId) -> Result<Option<JoinRecord>, DriverError> {
    let one = Find { filter: doc! { "_id": join.as_str() }, limit: 1, ..Find::default() };
    Ok(find(call, one).await?.pop())
}

fn record(document: &RawDocument) -> Result<JoinRecord, DriverError> {
    let document = Document::try_from(document)?;
    let text = |name: &str| document.get_str(name).ok().map(str::to_owned);
    let count = |name: &str| whole(&document, name).and_then(|count| u32::try_from(count).ok()).unwrap_or(0);
    let time = |name: &str| from_us(whole(&document, name).unwrap_or_default());
    let status = whole(&document, "status").and_then(|code| i16::try_from(code).ok()).unwrap_or(-1);
    Ok(JoinRecord {
        id: JoinId::from_row(text("_id").unwrap_or_default()),
        grouping_key: text("grouping_key"),
        expected: count("expected_steps"),
        attached: count("attached_steps"),
        completed: count("completed_steps"),
        failed: count("failed_steps"),
        status: JoinStatus::from_code(status),
        metadata: text("metadata"),
        wait: document.get_document("wait").ok().map(wait),
        fired: text("fired_id").map(EventId::from_row),
        created_at: time("created_at"),
        updated_at: time("updated_at"),
    })
}

fn wait(stored: &Document) -> JoinWait {
    let text = |document: &Document, name: &str| document.get_str(name).ok().map(str::to_owned);
    let next = |name: &str| {
        let next = stored.get_document(name).ok()?;
        Some(Continuation { topic: text(next, "topic")?, payload: text(next, "payload").unwrap_or_default() })
    };
    JoinWait {
        failed_steps: match stored.get_bool("fail_if_any") {
            Ok(false) => FailedSteps::Ignore,
            _ => FailedSteps::Fail,
        },
        on_complete: next("on_complete"),
        on_fail: next("on_fail"),
        message: EventId::from_row(text(stored, "message").unwrap_or_default()),
        headers: text(stored, "headers"),
    }
}

/// Encodes a new member of a join.
pub(crate) fn member(join: &JoinId, member: &JoinMember) -> Document {
    let (join, message) = (join.as_str(), member.message.as_str());
    doc! {
        "_id": { "join": join, "message": message },
        "join": join,
        "message": message,
        "state": i32::from(member.state.code()),
        "attached_at": us(member.attached_at),
    }
}

pub(crate) fn read_member(document: &RawDocumentBuf) -> Result<JoinMember, DriverError> {
    let document = Document::try_from(&**document)?;
    let state = whole(&document, "state").and_then(|code| i16::try_from(code).ok()).unwrap_or(-1);
    Ok(JoinMember {
        message: EventId::from_row(document.get_str("message").unwrap_or_default()),
        state: StepState::from_code(state),
        attached_at: from_us(whole(&document, "attached_at").unwrap_or_default()),
    })
}

/// A member's state as stored, for filters and updates.
pub(crate) fn in_state(state: StepState) -> Bson {
    Bson::from(i32::from(state.code()))
}
