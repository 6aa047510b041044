//! Judges what is sent and what is said of it.

use std::time::Duration;

use jiff::Timestamp;
use pillarbox::model::Status;
use pillarbox::port::Order;

use super::tale::{Sending, Tale};
use crate::history::{DeliveryNo, EventNo, Member, Said, SentEvent};
use crate::plan::Scenario;

impl Tale<'_> {
    pub(super) fn sent(
        &mut self,
        delivery: DeliveryNo,
        member: Member,
        events: &[SentEvent],
        clock: Timestamp,
    ) {
        self.batch(delivery, member, events);
        for sent in events {
            self.may_be_sent(delivery, member, sent);
            self.row_stands(delivery, sent);
            self.in_time(delivery, sent.event, clock);
            self.not_cancelled(delivery, sent.event);
            let attempt = sent.attempt;
            let story = self.story(sent.event);
            // Its process ended with the attempt counted.
            story.charged += u32::from(story.written.take_if(|(by, _)| *by != member).is_some());
            story.attempts.insert(member, attempt);
        }
        let first = events.first().map(|sent| sent.event);
        let group = first.and_then(|event| self.told[event.0].group.clone());
        self.contents.insert(delivery, events.iter().map(|sent| sent.event).collect());
        self.sendings.insert(delivery, Sending { member, group });
    }

    fn batch(&mut self, delivery: DeliveryNo, member: Member, events: &[SentEvent]) {
        let tuning = &self.plan.tuning;
        let ordered = tuning.order == Order::PerGroup;
        let group_of = |sent: &SentEvent| self.told[sent.event.0].group.clone();
        let Some(first) = events.first() else {
            return self.wrong(format!("{delivery} is empty"));
        };
        let group = group_of(first).filter(|_| ordered);
        let one_group = events.iter().all(|sent| group_of(sent).filter(|_| ordered) == group);
        if events.len() > tuning.batch || !one_group {
            self.wrong(format!(
                "{delivery} is no batch of one group, or of events without one, within the bound"
            ));
        }
        if self.out_of(member.life) >= tuning.workers {
            self.wrong(format!("{} delivers more at once than it has workers", member.life));
        }
        let calm = self.plan.scenario == Scenario::Calm;
        let clash = |other: &Sending| other.group == group && (calm || other.member == member);
        if group.is_some() && self.sendings.values().any(clash) {
            self.wrong(format!("{delivery}: another delivery of its group is out"));
        }
    }

    fn may_be_sent(&mut self, delivery: DeliveryNo, member: Member, sent: &SentEvent) {
        let event = sent.event;
        let calm = self.plan.scenario == Scenario::Calm;
        let max = self.plan.tuning.max_attempts;
        let malformed = self.told[event.0].malformed;
        let story = &self.stories[event.0];
        let wrong = if story.taken_back {
            return;
        } else if story.committed.is_none() {
            "a phantom: its transaction has not committed"
        } else if malformed {
            "it can't be decoded"
        } else if story.purged {
            return;
        } else if story.known_accepted.contains(&member) {
            "a duplicate: its sender was told that it was accepted"
        } else if calm && story.accepts > 0 {
            "a duplicate without a fault"
        } else if sent.attempt > max {
            "beyond the last attempt"
        } else {
            return;
        };
        self.wrong(format!("{delivery} sends {event}: {wrong}"));
    }

    /// How its row must stand: held by the sender, pending, its group free.
    fn row_stands(&mut self, delivery: DeliveryNo, sent: &SentEvent) {
        let event = sent.event;
        if !self.leases_hold() {
            return;
        }
        if sent.row.is_none() {
            if !self.stories[event.0].exempt {
                self.wrong(format!("{delivery} sends {event}: its row is gone"));
            }
            return;
        }
        if !sent.ours {
            self.wrong(format!("{delivery} sends {event}: its sender does not hold its slot"));
        }
        if matches!(sent.row, Some(Status::Done | Status::Dead)) {
            self.wrong(format!("{delivery} sends {event}: it has ended"));
        }
        if sent.blocked && self.plan.tuning.order == Order::PerGroup {
            self.wrong(format!("{delivery} sends {event}: its group is blocked"));
        }
    }

    /// What is cancelled during an outage is not delivered afterwards, unless it was on its way.
    fn not_cancelled(&mut self, delivery: DeliveryNo, event: EventNo) {
        const ON_ITS_WAY: Duration = Duration::from_secs(5);
        let since = self.stories[event.0].cancelled.map(|at| self.now.1 - at);
        if self.plan.cancels && since.is_some_and(|since| since > ON_ITS_WAY) {
            self.wrong(format!("{delivery} sends {event}: it was cancelled {since:?} ago"));
        }
    }

    fn in_time(&mut self, delivery: DeliveryNo, event: EventNo, clock: Timestamp) {
        let expired = self.told[event.0].expires.is_some_and(|expires| expires <= clock);
        if expired && !self.jumped {
            self.wrong(format!("{delivery} sends {event}: it has expired"));
        }
    }

    pub(super) fn accepted(&mut self, delivery: DeliveryNo, event: EventNo) {
        let place = self.now.0;
        if !self.sendings.contains_key(&delivery) {
            self.facts.insert(("sink", "accepts after its sender is gone"));
        }
        let story = self.story(event);
        story.first_accept.get_or_insert(place);
        story.accepts += 1;
        if story.accepts > 1 {
            self.facts.insert(("event", "accepted twice"));
        }
    }

    pub(super) fn answered(&mut self, delivery: DeliveryNo, said: &[Said]) {
        let Some(sending) = self.sendings.remove(&delivery) else { return };
        let events = self.contents[&delivery].clone();
        for (place, (event, said)) in events.into_iter().zip(said).enumerate() {
            self.charge(event, *said, place);
            let story = self.story(event);
            story.put_off_by.remove(&sending.member);
            match said {
                Said::Accepted => {
                    story.known_accepted.insert(sending.member);
                }
                Said::Rejected => story.refused = true,
                Said::NoRoute => story.unroutable = true,
                Said::Failed | Said::Refused | Said::Unavailable | Said::Throttled | Said::Skipped => {}
            }
        }
    }

    /// Whether an answer may cost an attempt: an endpoint's failure only if others were accepted since the last one.
    fn charge(&mut self, event: EventNo, said: Said, place: usize) {
        self.accepted += usize::from(said == Said::Accepted);
        let accepted = self.accepted;
        let story = self.story(event);
        let costs = match said {
            Said::Failed | Said::Refused | Said::Rejected | Said::NoRoute => true,
            Said::Skipped => place == 0,
            Said::Unavailable => {
                story.accepted_before.replace(accepted).is_some_and(|before| accepted > before)
            }
            Said::Accepted | Said::Throttled => false,
        };
        story.charged += u32::from(costs);
    }

    pub(super) fn cut(&mut self, delivery: DeliveryNo) {
        let sending = self.sendings.remove(&delivery);
        for event in self.contents.get(&delivery).cloned().unwrap_or_default() {
            let story = self.story(event);
            story.charged += 1;
            story.written = None;
            story.put_off_by.retain(|by| sending.as_ref().is_none_or(|sending| sending.member != *by));
        }
    }
}
