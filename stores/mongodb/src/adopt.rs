//! Adopting documents of other writers: assigns a number and the store's own fields to documents without
//! them.
//!
//! A plan document records which number each stray document gets, before the first one gets it. The next plan
//! is written only after every document of the last plan has its number. A process that finds an unfinished
//! plan finishes it. So the numbers follow the order of the documents, however many nodes adopt them, and a
//! process that crashes blocks nobody.
//!
//! A finished plan is emptied: an id of it may be deleted and inserted again, and that document must not get the
//! old number, which readers have passed. If the process crashes before that, its draw shows it: once the draw
//! has ended, a plan's numbers are given to nobody.

use std::collections::{HashMap, HashSet};

use jiff::Timestamp;
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, Document, RawDocumentBuf, doc};
use pillarbox::model::{GroupKey, Status};

use crate::call::{Call, Find, whole};
use crate::document::code;
use crate::error::DriverError;
use crate::number::{Drawn, Head, closed, draw, head};
use crate::outbox::Server;
use crate::row::Fields;
use crate::time::us;

/// The id of the plan document, in the meta collection.
const PLAN: &str = "adoption";
/// A plan this many versions newer than the first one that a call saw contains every stray the call must adopt.
const SUCCESSOR: i64 = 2;
/// The maximum number of documents in one plan. The next read adopts the rest.
const AT_ONCE: usize = 500;
/// The maximum size of a plan in bytes. A single larger entry is allowed.
const LARGEST: usize = 4 << 20;
/// A longer group key makes the row malformed: the document would have to contain it twice.
const LONGEST_GROUP: usize = 64 << 10;
/// The fields needed to place a row. Payloads are not loaded.
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

/// The state of the counter after adopting the strays that this call finds.
pub(crate) async fn adopted(call: &mut Call<'_>) -> Result<Head, DriverError> {
    // Nearly always there are no strays, so one concurrent pair of reads is enough.
    let mut beside = call.beside();
    let (strays, found) = tokio::try_join!(strays(call), head(&mut beside))?;
    if strays.is_empty() {
        return Ok(found);
    }
    adopt(call).await?;
    head(call).await
}

/// Documents without a number, in the order in which the index of numbers has them: on the primary that took
/// them, the order of insertion.
async fn strays(call: &mut Call<'_>) -> Result<Vec<RawDocumentBuf>, DriverError> {
    sorted_strays(call, None).await
}

async fn sorted_strays(
    call: &mut Call<'_>,
    sort: Option<Document>,
) -> Result<Vec<RawDocumentBuf>, DriverError> {
    let fields: Document = FIELDS.iter().map(|field| ((*field).to_owned(), Bson::from(1))).collect();
    let find = Find { filter: doc! { "seq": Bson::Null }, sort, fields: Some(fields), limit: AT_ONCE };
    call.find(&call.names().event, find).await
}

/// The order of documents without a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StrayOrder {
    /// As the index has them.
    Inserted,
    /// By the writers' `created_at`, and by the index within one instant.
    Created,
}

impl StrayOrder {
    /// A member that becomes primary has applied the inserts of its predecessor several at a time, so its index
    /// has lost their order. FerretDB never has it.
    fn of(call: &Call<'_>, last: &Plan, election: Option<ObjectId>) -> Self {
        if call.outbox().server == Server::Alone || last.election != election {
            Self::Created
        } else {
            Self::Inserted
        }
    }

    async fn applied(
        self,
        call: &mut Call<'_>,
        mut strays: Vec<RawDocumentBuf>,
    ) -> Result<Vec<RawDocumentBuf>, DriverError> {
        if self == Self::Created {
            if strays.len() == AT_ONCE {
                strays = sorted_strays(call, Some(doc! { "created_at": 1 })).await?;
            }
            sort_by_time(&mut strays);
        }
        Ok(strays)
    }
}

/// The election that made the current primary; `None` for a router or a server that is alone.
async fn election(call: &Call<'_>) -> Result<Option<ObjectId>, DriverError> {
    if call.outbox().server == Server::Alone {
        return Ok(None);
    }
    let hello = call.outbox().database.run_command(doc! { "hello": 1 }).await?;
    Ok(hello.get_object_id("electionId").ok())
}

/// Sorts documents by their `created_at`. A document without one stays behind its predecessor.
fn sort_by_time(strays: &mut [RawDocumentBuf]) {
    let mut last = Timestamp::MIN;
    let mut time = |stray: &RawDocumentBuf| {
        last = Fields::new(stray).time("created_at").unwrap_or(last);
        last
    };
    let times: HashMap<String, Timestamp> =
        strays.iter().map(|stray| (Fields::new(stray).key().to_string(), time(stray))).collect();
    strays.sort_by_key(|stray| times.get(&Fields::new(stray).key().to_string()).copied());
}

/// The numbers assigned to documents, with all fields to set in each.
struct Plan {
    version: i64,
    entries: Vec<Entry>,
    /// The election of the primary under which a plan last contained all strays. Documents that are there now
    /// were inserted under it, unless there was another election since.
    election: Option<ObjectId>,
}

struct Entry {
    key: Bson,
    set: Document,
}

/// Adopts every stray that exists when the call begins, or finds that other processes have done so.
pub(crate) async fn adopt(call: &mut Call<'_>) -> Result<(), DriverError> {
    let (mut first_seen, mut tried) = (None, 0);
    loop {
        let last = read(call).await?;
        let left = left(call, &last).await?;
        if !left.is_empty() {
            carry_out(call, &left).await?;
        }
        if !last.entries.is_empty() {
            empty(call, last.version).await?;
        }
        // Bounds how long a call competes while documents keep arriving. The next plan but one is made from strays read
        // after the next plan existed, and the next plan did not exist when this call began. Strays are therefore
        // read after the last plan, never before.
        if last.version >= *first_seen.get_or_insert(last.version) + SUCCESSOR {
            return Ok(());
        }
        let found = strays(call).await?;
        if found.is_empty() {
            return Ok(());
        }
        // Asked after the read: if the primary changes in between, the documents are sorted once too often.
        let election = election(call).await?;
        let found = StrayOrder::of(call, &last, election).applied(call, found).await?;
        if found.is_empty() || make(call, &last, &found, election).await? {
            return Ok(());
        }
        if !call.retry(tried).await {
            return Err(DriverError::lost());
        }
        tried += 1;
    }
}

/// The last plan; version 0 if there is none yet.
async fn read(call: &mut Call<'_>) -> Result<Plan, DriverError> {
    let find = Find { filter: doc! { "_id": PLAN }, ..Find::default() };
    let Some(found) = call.first(&call.names().meta, find).await? else {
        return Ok(Plan { version: 0, entries: Vec::new(), election: None });
    };
    let mut found = Document::try_from(&*found)?;
    let version = whole(&found, "version").unwrap_or_default();
    let entries = match found.remove("plan") {
        Some(Bson::Array(entries)) => entries.into_iter().filter_map(entry).collect(),
        _ => Vec::new(),
    };
    Ok(Plan { version, entries, election: found.get_object_id("election").ok() })
}

fn entry(stored: Bson) -> Option<Entry> {
    let Bson::Document(mut stored) = stored else { return None };
    match (stored.remove("key"), stored.remove("set")) {
        (Some(key), Some(Bson::Document(set))) => Some(Entry { key, set }),
        _ => None,
    }
}

/// The entries of a plan whose documents have no number yet.
///
/// Readers may have passed numbers whose draw has ended: the process that made the plan has finished it, and a
/// document with this id was inserted later, or the process could not finish it in time. Such documents are
/// strays like others.
async fn left<'p>(call: &mut Call<'_>, plan: &'p Plan) -> Result<Vec<&'p Entry>, DriverError> {
    if plan.entries.is_empty() {
        return Ok(Vec::new());
    }
    let keys: Vec<Bson> = plan.entries.iter().map(|entry| entry.key.clone()).collect();
    let filter = doc! { "_id": { "$in": keys }, "seq": Bson::Null };
    let find = Find { filter, fields: Some(doc! { "_id": 1 }), ..Find::default() };
    let found = call.find(&call.names().event, find).await?;
    if found.is_empty() {
        return Ok(Vec::new());
    }
    let found: HashSet<String> = found.iter().map(|row| Fields::new(row).key().to_string()).collect();
    let passed = head(call).await?.vouched;
    let is_left = |entry: &&Entry| {
        whole(&entry.set, "seq").is_some_and(|seq| seq > passed) && found.contains(&entry.key.to_string())
    };
    Ok(plan.entries.iter().filter(is_left).collect())
}

/// Writes the next plan and executes it. Returns false if another process wrote the next plan first.
async fn make(
    call: &mut Call<'_>,
    last: &Plan,
    strays: &[RawDocumentBuf],
    election: Option<ObjectId>,
) -> Result<bool, DriverError> {
    let drawn = draw(call, strays.len()).await?;
    let mut size = 0;
    let entries = strays.iter().zip(drawn.first..).map(|(stray, seq)| place(stray, seq, &drawn));
    let fits = |(place, entry): &(usize, Entry)| {
        size += entry.set.to_vec().map_or(LARGEST, |bytes| bytes.len());
        *place == 0 || size <= LARGEST
    };
    let entries: Vec<Entry> = entries.enumerate().take_while(fits).map(|(_, entry)| entry).collect();
    let is_all = entries.len() == strays.len() && strays.len() < AT_ONCE;
    let election = if is_all { election } else { last.election };
    let next = Plan { version: last.version + 1, entries, election };
    match write(call, &next).await {
        Ok(true) => {
            let placed = carry_out(call, &next.entries.iter().collect::<Vec<_>>()).await;
            closed(call, &drawn, placed)?;
            empty(call, next.version).await.map(|()| true)
        }
        // No document gets these numbers.
        written => closed(call, &drawn, written),
    }
}

/// Compare-and-swap: replaces the plan before this one. Returns false if another process has replaced it.
async fn write(call: &mut Call<'_>, next: &Plan) -> Result<bool, DriverError> {
    let stored = |entry: &Entry| Bson::from(doc! { "key": entry.key.clone(), "set": entry.set.clone() });
    let plan: Vec<Bson> = next.entries.iter().map(stored).collect();
    let fields = doc! { "version": next.version, "plan": plan, "election": next.election };
    if next.version == 1 {
        let mut first = doc! { "_id": PLAN };
        first.extend(fields);
        return match call.insert(&call.names().meta, vec![first]).await {
            Err(failure) if failure.is_duplicate() => Ok(false),
            made => made.map(|()| true),
        };
    }
    let this = doc! { "_id": PLAN, "version": next.version - 1 };
    Ok(call.update(&call.names().meta, vec![doc! { "q": this, "u": { "$set": fields } }]).await? > 0)
}

/// Empties a finished plan, unless there is another one by now.
async fn empty(call: &mut Call<'_>, version: i64) -> Result<(), DriverError> {
    let this = doc! { "_id": PLAN, "version": version };
    let change = doc! { "$set": { "plan": [] } };
    call.update(&call.names().meta, vec![doc! { "q": this, "u": change }]).await.map(drop)
}

/// Sets the planned fields in each document that has no number yet. Safe to repeat, and to run in several
/// processes at once.
async fn carry_out(call: &mut Call<'_>, entries: &[&Entry]) -> Result<(), DriverError> {
    let without = |entry: &&Entry| doc! { "_id": entry.key.clone(), "seq": Bson::Null };
    let statements =
        entries.iter().map(|entry| doc! { "q": without(entry), "u": { "$set": entry.set.clone() } });
    match call.update(&call.names().event, statements.collect()).await {
        Err(failure) if failure.is_too_large() => {}
        updated => return updated.map(drop),
    }
    for entry in entries {
        let plain = doc! { "q": without(entry), "u": { "$set": entry.set.clone() } };
        match call.update(&call.names().event, vec![plain]).await {
            Err(failure) if failure.is_too_large() => set_apart(call, entry).await?,
            updated => drop(updated?),
        }
    }
    Ok(())
}

/// Moves the payload of a document that has no room for a number to a separate collection, and marks the
/// document as malformed. Such a payload is far above the delivery limit.
async fn set_apart(call: &mut Call<'_>, entry: &Entry) -> Result<(), DriverError> {
    let without = doc! { "_id": entry.key.clone(), "seq": Bson::Null };
    let fields = Some(doc! { "payload": 1, "payload_bytes": 1 });
    let find = Find { filter: without.clone(), fields, ..Find::default() };
    let Some(payload) = call.first(&call.names().event, find).await? else { return Ok(()) };
    match call.insert(&call.names().oversized, vec![Document::try_from(&*payload)?]).await {
        // The copy of an earlier attempt whose answer was lost.
        Err(failure) if failure.is_duplicate() => {}
        kept => kept?,
    }
    let place = &call.names().oversized;
    let mut set = entry.set.clone();
    set.insert(
        "malformed",
        format!("payload left no room in its document, and is in {place} under the same id"),
    );
    let change = doc! { "$set": set, "$unset": { "payload": "", "payload_bytes": "" } };
    call.update(&call.names().event, vec![doc! { "q": without, "u": change }]).await.map(drop)
}

/// Builds the plan entry of a stray. Invalid fields are replaced by valid ones, so that later statements work
/// on the row, and the problem is stored in `malformed`.
fn place(stray: &RawDocumentBuf, seq: i64, drawn: &Drawn) -> Entry {
    let mut fields = Fields::new(stray);
    let home = fields.home();
    let group = fields.group();
    let is_too_long = group.as_ref().is_some_and(|group| group.as_str().len() > LONGEST_GROUP);
    let group = group.filter(|_| !is_too_long);
    let time = |time: Option<Timestamp>| us(time.unwrap_or(drawn.now));
    let mut set = doc! {
        "seq": seq,
        "home": home,
        "slot": fields.slot(),
        "status": fields.number("status").unwrap_or(code(Status::New).into()),
        "attempts": fields.number("attempts").unwrap_or_default().max(0),
        "created_at": time(fields.time("created_at")),
        "available_at": time(fields.time("available_at")),
        "group_key": group.as_ref().map(GroupKey::as_str),
    };
    let too_long = || is_too_long.then(|| "group is too long".to_owned());
    if let Some(wrong) = fields.wrong().or_else(too_long) {
        set.insert("malformed", wrong);
    }
    Entry { key: fields.key(), set }
}
