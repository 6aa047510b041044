//! Held groups for display.

use jiff::Timestamp;
use pillarbox::port::{GroupState, HeldGroup};
use pillarbox_terminal::error::CommandResult;
use pillarbox_terminal::output::{Ink, Output, Printable, Reader, TableColumn, TextTable, ago, shortened};
use serde::Serialize;

/// Maximum characters of a reason in a table; `dead show` prints the whole error.
const REASON_SHOWN: usize = 60;

/// A held group for display.
#[derive(Debug, Serialize)]
pub(crate) struct HeldGroupView {
    group: String,
    state: GroupState,
    event: Option<String>,
    reason: Option<String>,
    by: String,
    since: Timestamp,
}

impl From<&HeldGroup> for HeldGroupView {
    fn from(held: &HeldGroup) -> Self {
        Self {
            group: held.group.to_string(),
            state: held.state,
            event: held.event.as_ref().map(ToString::to_string),
            reason: held.reason.clone(),
            by: held.by.clone(),
            since: held.since,
        }
    }
}

/// Formats groups as a table.
pub(crate) fn table(ink: Ink, groups: &[HeldGroupView]) -> String {
    use TableColumn::{Whole, Wrapped};
    let columns =
        [Wrapped("GROUP"), Whole("STATE"), Whole("SINCE"), Wrapped("BY"), Whole("EVENT"), Wrapped("REASON")];
    let mut table = TextTable::new(ink, &columns);
    let now = Timestamp::now();
    for held in groups {
        let event = held.event.as_deref().unwrap_or("-");
        let reason = shortened(held.reason.as_deref().unwrap_or("-"), REASON_SHOWN);
        table.row([&held.group, held.state.as_str(), &ago(held.since, now), &held.by, event, &reason]);
    }
    table.render()
}

#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(super) struct Listed(pub(super) Vec<HeldGroupView>);

impl Printable for Listed {
    fn for_people(&self, ink: Ink) -> String {
        match self.0.as_slice() {
            [] => "no group is held back".to_owned(),
            groups => table(ink, groups),
        }
    }
}

/// Prints groups page by page, so that only one page is in memory: one table per page, or one JSON array.
pub(super) struct Listing {
    output: Output,
    begun: bool,
}

impl Listing {
    pub(super) fn new(output: Output) -> Self {
        Self { output, begun: false }
    }

    pub(super) fn page(&mut self, page: &[HeldGroup]) -> CommandResult {
        if page.is_empty() {
            return Ok(());
        }
        let begun = std::mem::replace(&mut self.begun, true);
        let page: Vec<HeldGroupView> = page.iter().map(HeldGroupView::from).collect();
        if self.output.reader() == Reader::People {
            return self.output.answer(&Listed(page));
        }
        let items = page.iter().map(serde_json::to_string).collect::<Result<Vec<_>, _>>()?;
        self.output.text(&format!("{}{}", if begun { "," } else { "[" }, items.join(",")))
    }

    pub(super) fn end(self) -> CommandResult {
        match (self.begun, self.output.reader()) {
            (false, _) => self.output.answer(&Listed(Vec::new())),
            (true, Reader::People) => Ok(()),
            (true, Reader::Programs) => self.output.line("]"),
        }
    }
}
