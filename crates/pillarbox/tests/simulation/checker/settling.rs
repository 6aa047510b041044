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
            // What is put off again because the answer was lost finds its row in the lane of the delayed, which nobody holds.
            let put_off_again = row.change == Settling::Delay && !self.story(event).put_off_by.insert(member);
            if !row.ours && !put_off_again {
                self.wrong(format!("{member} settles {event} and does not hold its slot"));
            }
            // One that a leader tries with care is counted twice while it is out.
            let most = self.plan.tuning.max_attempts + u32::from(self.plan.led);
            if row.attempts.is_some_and(|attempts| attempts > most) {
                self.wrong(format!("{event} has more attempts than it may have"));
            }
            if row.change == Settling::Waits {
                continue;
            }
            self.accounted_for(member, row);
            match &row.change {
                Settling::Done => self.done(member, row),
                Settling::Retry => self.counted(member, row),
                Settling::Dead { error, .. } => self.dead(member, row, error),
                Settling::Delay | Settling::Attempt | Settling::Release | Settling::Waits => {}
            }
        }
    }

    /// No attempt is counted but for a delivery that failed, was cut off, or is about to begin.
    fn accounted_for(&mut self, member: Member, row: &Settled) {
        let led = u32::from(self.plan.led);
        let story = self.story(row.event);
        if row.change == Settling::Attempt {
            // The same attempt is counted again if the answer was lost.
            let attempt = (member, row.attempts);
            story.charged +=
                u32::from(story.written.replace(attempt).is_some_and(|before| before != attempt));
        }
        let most = story.charged + u32::from(story.written.is_some()) + led;
        // Whoever wrote an attempt and lost the row since may have died of it: that one stays.
        if row.change != Settling::Attempt && story.written.take().is_some_and(|(by, _)| by != member) {
            story.charged += 1;
        }
        if row.attempts.is_some_and(|attempts| attempts > most) {
            self.wrong(format!("{} has {:?} attempts, {most} are accounted for", row.event, row.attempts));
        }
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
        let sent = self.stories[row.event.0].attempts.get(&member).copied();
        if sent.is_none() || row.attempts != sent {
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
        // After the clock was set forward, a death that is repeated may seem older than a replay.
        if error.is_empty() || !(justified || self.jumped) {
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
