//! `events why`: explains why an event is not delivered.

use pillarbox::model::EventId;
use pillarbox::port::AnyTable;
use pillarbox_admin::why::{Explanation, Situation, explain, unknown};
use pillarbox_terminal::error::{CommandError, CommandResult};
use pillarbox_terminal::output::{Ink, Printable, fields};
use pillarbox_terminal::printable::one_line;
use serde::Serialize;

use crate::commands::Session;

/// Reads the facts about an event and prints what they mean.
pub(super) async fn run(session: &Session, table: &AnyTable, id: &str) -> CommandResult {
    let situation = Situation::read(table, &EventId::from_row(id)).await?;
    match explain(&situation) {
        Some(explanation) => session.output.answer(&Explained(explanation)),
        None => Err(CommandError::not_found(format!("there is no event {id:?}")).hint(unknown(&situation))),
    }
}

#[derive(Debug, Serialize)]
#[serde(transparent)]
struct Explained(Explanation);

impl Printable for Explained {
    fn for_people(&self, ink: Ink) -> String {
        let Explanation { sentence, evidence, advice, further, chain, .. } = &self.0;
        let mut parts = vec![one_line(sentence)];
        let facts: Vec<(&str, String)> =
            evidence.iter().map(|fact| (fact.name, one_line(&fact.value))).collect();
        if !facts.is_empty() {
            parts.push(fields(ink, &facts));
        }
        let mut section = |title: &str, lines: Vec<String>| {
            if !lines.is_empty() {
                let lines: Vec<String> = lines.iter().map(|line| format!("  {}", one_line(line))).collect();
                parts.push(format!("{}\n{}", ink.bold(title), lines.join("\n")));
            }
        };
        section("what to do", advice.clone());
        section("also", further.iter().map(|reason| reason.sentence.clone()).collect());
        // A chain of one says nothing that the sentence does not.
        let links = chain.iter().filter(|_| chain.len() > 1);
        section(
            "waits for",
            links.skip(1).map(|link| format!("{}: {}", link.event, link.sentence)).collect(),
        );
        parts.join("\n\n")
    }
}
