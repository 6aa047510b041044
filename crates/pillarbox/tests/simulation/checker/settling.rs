//! Judges outcomes: fenced, justified, counted once.

use super::tale::{End, Tale};
use crate::history::{Member, Settled, Settling};

impl Tale<'_> {
    pub(super) fn settled(&mut self, member: Member, rows: &[Settled]) {
        for row in rows {
            let event = row.event;
            if self.stories[event.0].taken_back {
                continue;
            }
            if let Some(end) = self.stories[event.0].end.filter(|_| !self.stories[event.0].purged) {
                self.wrong(format!("{member} settles {event}, which has ended: {end:?}"));
            }
            let repeats = self.repeats(member, row);
            // What is settled again into the lane of the delayed finds its row there, where nobody holds it.
            let put_off_again = repeats && matches!(row.change, Settling::Retry | Settling::Delay);
            if !row.ours && !put_off_again {
                self.wrong(format!("{member} settles {event} and does not hold its slot"));
            }
            // One that a leader tries with care is counted twice while it is out.
            let most =
                self.plan.tuning.max_attempts + self.stories[event.0].repeats + u32::from(self.plan.led);
            if row.attempts.is_some_and(|attempts| attempts > most) {
                self.wrong(format!("{event} has more attempts than it may have"));
            }
            if row.change == Settling::Waits {
                continue;
            }
            let again =
                matches!(row.change, Settling::Dead { .. }) && self.story(event).killed_by.contains(&member);
            if !again {
                self.accounted_for(member, row);
            }
            match &row.change {
                Settling::Done => self.done(member, row),
                Settling::Retry => self.counted(member, row),
                // A death whose answer was lost, and that an operator has undone meanwhile, comes again.
                Settling::Dead { .. } if !self.story(event).killed_by.insert(member) => {
                    self.story(event).end = Some(End::Dead);
                }
                Settling::Dead { error, .. } => self.dead(member, row, error),
                Settling::Delay
                | Settling::Attempt
                | Settling::Release
                | Settling::Untried
                | Settling::Waits => {}
            }
        }
    }

    /// No attempt is counted but for a delivery that failed, was cut off, or is about to begin.
    fn accounted_for(&mut self, member: Member, row: &Settled) {
        let led = u32::from(self.plan.led);
        let story = self.story(row.event);
        if row.change == Settling::Attempt {
            story.charged += u32::from(story.written.replace(member).is_some());
        }
        let most = story.charged + story.repeats + u32::from(story.written.is_some()) + led;
        // Whoever wrote an attempt and lost the row since may have died of it: that one stays.
        if row.change != Settling::Attempt && story.written.take().is_some_and(|by| by != member) {
            story.charged += 1;
        }
        if row.attempts.is_some_and(|attempts| attempts > most) {
            self.wrong(format!("{} has {:?} attempts, {most} are accounted for", row.event, row.attempts));
        }
    }

    /// Whether this outcome was settled before, and is again because the answer was lost.
    fn repeats(&mut self, member: Member, row: &Settled) -> bool {
        let counts = matches!(row.change, Settling::Retry | Settling::Attempt);
        let repeatable = counts || row.change == Settling::Delay;
        let story = self.story(row.event);
        let repeats = repeatable && !story.settled_by.insert(member);
        story.repeats += u32::from(repeats && counts);
        repeats
    }

    fn done(&mut self, member: Member, row: &Settled) {
        let event = row.event;
        if !self.stories[event.0].known_accepted.contains(&member) {
            self.wrong(format!("{member} says {event} is done, and was never told that it was accepted"));
        }
        self.story(event).end = Some(End::Done);
    }

    /// After a failed delivery the attempts are those of the delivery.
    fn counted(&mut self, member: Member, row: &Settled) {
        let story = &self.stories[row.event.0];
        let sent = story.attempts.get(&member).copied();
        let right =
            |sent| row.attempts.is_some_and(|counted| (sent..=sent + story.repeats).contains(&counted));
        if !sent.is_some_and(right) {
            self.wrong(format!("{}: attempt {sent:?} failed, {:?} counted", row.event, row.attempts));
        }
    }

    fn dead(&mut self, member: Member, row: &Settled, error: &str) {
        let event = row.event;
        let told = &self.told[event.0];
        let story = &self.stories[event.0];
        let used_up = row.attempts.is_some_and(|attempts| attempts >= self.plan.tuning.max_attempts);
        let justified = if error.starts_with("expired") {
            told.expires.is_some()
        } else if error.starts_with("undecodable") {
            told.malformed
        } else {
            story.refused || story.unroutable || used_up
        };
        let sent = story.attempts.contains_key(&member);
        let refused = sent && story.refused && !story.unroutable && !error.starts_with("expired");
        if error.is_empty() || !justified {
            self.wrong(format!("{event} died for no good reason: {error}"));
        }
        if refused {
            self.counted(member, row);
        }
        let story = self.story(event);
        story.end = Some(End::Dead);
        story.exempt = true;
    }
}
