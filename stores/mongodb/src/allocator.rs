//! The sequence allocator: draws all sequence numbers of this process, one command at a time, never in a
//! transaction.
//!
//! A caller that asks while a command is in flight shares the next one. The counter document has one note per
//! process: the lowest number drawn by that process whose row may still appear. Readers do not pass it. Every
//! command rewrites the note, so closing a draw costs no extra command while other draws follow.
//!
//! The rows of a transaction appear with its commit. If the store ends the transaction, the draw stays open
//! until then. The store never learns how a caller's own session ends, so the draws of such a session stay
//! open for the longest time that the server lets a transaction live.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mongodb::bson::oid::ObjectId;
use pillarbox::port::ErrorKind;
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::error::DriverError;
use crate::number::{Drawn, Raised, raise};
use crate::outbox::{Outbox, late};

/// The maximum number of requested and open draws of this process. Draws that end by expiry do not count.
const OPEN: usize = 1_000;
/// How long an open draw still holds back readers after the deadline of its call.
pub(crate) const GRACE: Duration = Duration::from_secs(25);
/// Draws for callers' own sessions within this time are merged into one: all of them hold back readers for
/// about the same time.
const ADRIFT: Duration = Duration::from_secs(1);
/// How long an outdated note stays on the server after a draw has ended, if no further draw rewrites it.
const LINGER: Duration = Duration::from_millis(10);

type Answered = Result<Drawn, DriverError>;

/// Draws the sequence numbers of one process.
pub(crate) struct SequenceAllocator {
    state: Mutex<AllocatorState>,
    asked: Notify,
}

/// Requested and open draws, and the command in flight.
struct AllocatorState {
    /// The id of this process's note. It changes after a command with an unknown outcome, because that
    /// command may still write the old note.
    note: ObjectId,
    asked: Vec<Asked>,
    open: Vec<Open>,
    /// Transactions begun by the store, by session id.
    begun: HashMap<String, Begun>,
    /// When the first draw ended that the note on the server still includes.
    ended: Option<Instant>,
    /// Whether the sending task is running.
    running: bool,
    /// The command in flight: `Some(None)` only rewrites the note, `Some(Some(n))` draws `n` numbers.
    sending: Option<Option<i64>>,
    /// Counts the commands that draw numbers. An unchanged value proves that no draw happened in between.
    rounds: u64,
    last_open: u64,
}

/// A caller that waits for numbers.
struct Asked {
    count: i64,
    answer: oneshot::Sender<Answered>,
}

/// Drawn numbers whose rows may still appear, at the latest at `until`.
#[derive(Clone, Copy)]
struct Open {
    id: u64,
    first: i64,
    since: Instant,
    until: Instant,
    ended_by: EndedBy,
}

/// How a draw ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum EndedBy {
    Store,
    /// Only by expiry: the store does not see the end of the transaction.
    Time,
}

/// A transaction begun by the store, and the draws made in it.
struct Begun {
    draws: Vec<u64>,
    until: Instant,
}

/// One command to the counter, and the callers it answers.
pub(crate) struct Round {
    pub(crate) note: ObjectId,
    /// The lowest number that was open before this command.
    pub(crate) lowest: Option<i64>,
    /// How many numbers to draw; `None` only rewrites the note.
    pub(crate) count: Option<i64>,
    asked: Vec<Asked>,
}

/// The next action of the sending task.
enum Next {
    Send(Round),
    Linger(Instant),
    Nothing,
}

/// The local state of this process's draws. It is newer than the note on the server and replaces it.
pub(crate) struct Own {
    pub(crate) note: ObjectId,
    pub(crate) lowest: Option<i64>,
}

impl SequenceAllocator {
    pub(crate) fn new() -> Self {
        let state = AllocatorState {
            note: ObjectId::new(),
            asked: Vec::new(),
            open: Vec::new(),
            begun: HashMap::new(),
            ended: None,
            running: false,
            sending: None,
            rounds: 0,
            last_open: 0,
        };
        Self { state: Mutex::new(state), asked: Notify::new() }
    }

    fn state(&self) -> MutexGuard<'_, AllocatorState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A marker to pass to `own` later; `None` while a command draws numbers.
    pub(crate) fn quiet(&self) -> Option<u64> {
        let state = self.state();
        (!state.is_drawing()).then_some(state.rounds)
    }

    /// The local state of this process's draws, if no numbers were drawn since the marker was taken.
    ///
    /// With a draw in between, the counter may already include numbers that are not registered here. Then
    /// only the note on the server is safe.
    pub(crate) fn own(&self, since: Option<u64>) -> Option<Own> {
        let mut state = self.state();
        state.forget_late();
        let known = !state.is_drawing() && since == Some(state.rounds);
        known.then(|| Own { note: state.note, lowest: state.lowest() })
    }
}

/// Draws `count` consecutive numbers. Concurrent callers share one command.
pub(crate) async fn draw(outbox: &Arc<Outbox>, count: i64) -> Answered {
    let (answer, answered) = oneshot::channel();
    {
        let mut state = outbox.allocator.state();
        state.forget_late();
        let ours = state.open.iter().filter(|draw| draw.ended_by == EndedBy::Store).count();
        if ours + state.asked.len() >= OPEN {
            return Err(crowded());
        }
        state.asked.push(Asked { count, answer });
        ensure_running(outbox, &mut state);
    }
    outbox.allocator.asked.notify_one();
    answered.await.unwrap_or_else(|_| Err(late()))
}

/// Closes a draw: its rows are committed, or will never exist. The note on the server is updated in the
/// background.
pub(crate) fn end(outbox: &Arc<Outbox>, open: u64) {
    let mut state = outbox.allocator.state();
    state.open.retain(|draw| draw.id != open);
    state.ended.get_or_insert_with(Instant::now);
    ensure_running(outbox, &mut state);
}

/// Registers a transaction that the store has begun and will end.
pub(crate) fn begun(outbox: &Outbox, session: String) {
    let mut state = outbox.allocator.state();
    let now = Instant::now();
    state.begun.retain(|_, begun| begun.until > now);
    state.begun.insert(session, Begun { draws: Vec::new(), until: now + outbox.hold() });
}

/// Attaches draws to the transaction of a session: their rows appear with its commit.
///
/// If the store did not begin that transaction, it does not see its end, so the draws end by expiry.
pub(crate) fn come_with(outbox: &Outbox, session: &str, draws: Vec<u64>) {
    let mut state = outbox.allocator.state();
    match state.begun.get_mut(session) {
        Some(begun) => begun.draws.extend(draws),
        None => draws.into_iter().for_each(|draw| state.set_adrift(draw)),
    }
}

/// Closes the draws of a session whose transaction has ended.
pub(crate) fn over(outbox: &Arc<Outbox>, session: &str) {
    let begun = outbox.allocator.state().begun.remove(session);
    for draw in begun.into_iter().flat_map(|begun| begun.draws) {
        end(outbox, draw);
    }
}

pub(crate) fn crowded() -> DriverError {
    DriverError::Refused(ErrorKind::Conflict, "too many writes are in flight".to_owned())
}

/// Starts the sending task if it is not running. Closing the store waits for the task.
fn ensure_running(outbox: &Arc<Outbox>, state: &mut AllocatorState) {
    if !std::mem::replace(&mut state.running, true) {
        outbox.tasks.spawn(run(Arc::clone(outbox)));
    }
}

/// The sending task: runs until there is nothing left to send.
async fn run(outbox: Arc<Outbox>) {
    let allocator = &outbox.allocator;
    let mut leaving = Leaving(Some(allocator));
    loop {
        let next = allocator.state().next(Instant::now());
        match next {
            Next::Send(round) => {
                let sent = timeout_at(outbox.deadline(), raise(&outbox, &round)).await;
                allocator.state().answer(round, sent.unwrap_or_else(|_| Err(late())), outbox.hold());
            }
            Next::Linger(until) => tokio::select! {
                biased;
                () = allocator.asked.notified() => {}
                () = sleep_until(until) => {}
            },
            Next::Nothing => {
                leaving.0 = None;
                return;
            }
        }
    }
}

/// Resets the state if the sending task is dropped early, for example with its runtime.
struct Leaving<'a>(Option<&'a SequenceAllocator>);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        let Some(allocator) = self.0 else { return };
        let mut state = allocator.state();
        state.running = false;
        state.asked.clear();
        // The command may still be applied and write the old note.
        if state.sending.take().is_some() {
            state.note = ObjectId::new();
        }
    }
}

impl AllocatorState {
    fn next(&mut self, now: Instant) -> Next {
        self.forget_late();
        match self.ended {
            _ if !self.asked.is_empty() => {}
            Some(ended) if ended + LINGER <= now => {}
            Some(ended) => return Next::Linger(ended + LINGER),
            None => {
                self.running = false;
                return Next::Nothing;
            }
        }
        let asked = std::mem::take(&mut self.asked);
        let count = (!asked.is_empty()).then(|| asked.iter().map(|asked| asked.count).sum());
        self.ended = None;
        self.sending = Some(count);
        self.rounds += u64::from(count.is_some());
        Next::Send(Round { note: self.note, lowest: self.lowest(), count, asked })
    }

    fn answer(&mut self, round: Round, sent: Result<Raised, DriverError>, hold: Duration) {
        self.sending = None;
        let raised = match sent {
            Ok(raised) => raised,
            Err(failure) => {
                // A late command would overwrite the note that later draws depend on, so they get a new one.
                if !failure.is_answer() {
                    self.note = ObjectId::new();
                }
                for asked in round.asked {
                    // A caller that has gone needs no answer.
                    let _ = asked.answer.send(Err(failure.clone()));
                }
                return;
            }
        };
        let since = Instant::now();
        let until = since + hold;
        let mut first = raised.last - round.count.unwrap_or_default() + 1;
        for asked in round.asked {
            self.last_open += 1;
            let id = self.last_open;
            self.open.push(Open { id, first, since, until, ended_by: EndedBy::Store });
            let drawn = Drawn { first, now: raised.now, open: id };
            // The caller has gone and will not write rows with these numbers.
            if asked.answer.send(Ok(drawn)).is_err() {
                self.open.pop();
                self.ended.get_or_insert_with(Instant::now);
            }
            first += asked.count;
        }
    }

    /// Turns a draw into one that ends only by expiry. Draws of about the same time are merged, so their
    /// number stays bounded.
    fn set_adrift(&mut self, draw: u64) {
        let Some(place) = self.open.iter().position(|open| open.id == draw) else { return };
        let draw = self.open.remove(place);
        let beside = |open: &&mut Open| open.ended_by == EndedBy::Time && draw.since < open.since + ADRIFT;
        match self.open.iter_mut().find(beside) {
            Some(open) => {
                open.first = open.first.min(draw.first);
                open.until = open.until.max(draw.until);
            }
            None => self.open.push(Open { ended_by: EndedBy::Time, ..draw }),
        }
    }

    /// Whether the command in flight may have drawn numbers that are not registered here yet.
    fn is_drawing(&self) -> bool {
        self.sending.flatten().is_some()
    }

    fn lowest(&self) -> Option<i64> {
        self.open.iter().map(|draw| draw.first).min()
    }

    /// Drops expired draws. They hold back readers no longer than the draws of a crashed process do.
    fn forget_late(&mut self) {
        let now = Instant::now();
        self.open.retain(|draw| draw.until > now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;

    fn ask(allocator: &SequenceAllocator, count: i64) -> oneshot::Receiver<Answered> {
        let (answer, answered) = oneshot::channel();
        allocator.state().asked.push(Asked { count, answer });
        answered
    }

    fn round(allocator: &SequenceAllocator) -> Round {
        match allocator.state().next(Instant::now() + LINGER) {
            Next::Send(round) => round,
            _ => panic!("there is something to send"),
        }
    }

    fn raised(last: i64) -> Result<Raised, DriverError> {
        Ok(Raised { last, now: Timestamp::UNIX_EPOCH })
    }

    fn first(answered: &mut oneshot::Receiver<Answered>) -> (i64, u64) {
        let drawn = answered.try_recv().unwrap().unwrap();
        (drawn.first, drawn.open)
    }

    fn close(allocator: &SequenceAllocator, open: u64) {
        let mut state = allocator.state();
        state.open.retain(|draw| draw.id != open);
        state.ended = Some(Instant::now());
    }

    /// PBX-010: the note holds the lowest number whose row may still come, whoever draws above it.
    #[test]
    fn a_round_is_shared_and_notes_the_lowest_open_number() {
        let allocator = SequenceAllocator::new();
        let (mut ann, mut ben) = (ask(&allocator, 2), ask(&allocator, 3));
        let sent = round(&allocator);
        assert_eq!((sent.count, sent.lowest), (Some(5), None));
        allocator.state().answer(sent, raised(15), Duration::from_secs(1));
        let ((ann_first, ann), (ben_first, ben)) = (first(&mut ann), first(&mut ben));
        assert_eq!((ann_first, ben_first), (11, 13));
        close(&allocator, ann);
        let mut cat = ask(&allocator, 1);
        let sent = round(&allocator);
        assert_eq!((sent.count, sent.lowest), (Some(1), Some(13)), "ben's rows may still come");
        allocator.state().answer(sent, raised(16), Duration::from_secs(1));
        close(&allocator, ben);
        close(&allocator, first(&mut cat).1);
        let sent = round(&allocator);
        assert_eq!((sent.count, sent.lowest), (None, None), "the note goes");
        allocator.state().answer(sent, raised(16), Duration::from_secs(1));
        assert!(matches!(allocator.state().next(Instant::now()), Next::Nothing));
    }

    /// PBX-010: numbers that were drawn but not told yet are not known here, so the server's note counts.
    #[test]
    fn draws_are_known_only_while_none_is_under_way() {
        let allocator = SequenceAllocator::new();
        let mut asked = ask(&allocator, 1);
        let before = allocator.quiet();
        let sent = round(&allocator);
        assert!(allocator.quiet().is_none() && allocator.own(before).is_none());
        allocator.state().answer(sent, raised(7), Duration::from_secs(1));
        assert!(allocator.own(before).is_none(), "one was under way since");
        let quiet = allocator.quiet();
        assert_eq!(allocator.own(quiet).unwrap().lowest, Some(7));
        close(&allocator, first(&mut asked).1);
        assert_eq!(allocator.own(quiet).unwrap().lowest, None, "what has ended can be read");
    }

    /// PBX-010: what a caller's own session draws holds readers for a bounded time, and takes no more room than a moment.
    #[test]
    fn draws_whose_end_nobody_tells_are_kept_as_one_and_run_out() {
        let allocator = SequenceAllocator::new();
        for last in 1..=3_000 {
            let mut asked = ask(&allocator, 1);
            let sent = round(&allocator);
            allocator.state().answer(sent, raised(last), Duration::from_secs(100));
            let (_, draw) = first(&mut asked);
            allocator.state().set_adrift(draw);
        }
        let mut state = allocator.state();
        assert!(state.open.len() < 100, "{} of them", state.open.len());
        assert_eq!(state.lowest(), Some(1));
        let past = Instant::now();
        state.open.iter_mut().for_each(|draw| draw.until = past);
        state.forget_late();
        assert_eq!(state.lowest(), None);
    }

    /// PBX-010: a command that may still arrive must not take the note away that later draws are held by.
    #[test]
    fn after_a_lost_answer_the_note_is_another_one() {
        let allocator = SequenceAllocator::new();
        let mut asked = ask(&allocator, 1);
        let sent = round(&allocator);
        let lost = sent.note;
        allocator.state().answer(sent, Err(late()), Duration::from_secs(1));
        assert!(asked.try_recv().unwrap().is_err());
        let _again = ask(&allocator, 1);
        assert_ne!(round(&allocator).note, lost);
    }
}
