//! Figures that were taken in turns: the median of each side, the median of the rounds' ratios, and a goal.

/// What one side of a comparison gave in each round.
#[derive(Debug, Clone, Default)]
pub struct Samples(Vec<f64>);

impl Samples {
    /// Notes a round.
    pub fn push(&mut self, value: f64) {
        self.0.push(value);
    }

    /// Whether there was no round.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The middle one.
    #[must_use]
    pub fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    /// The value that this share of the samples does not exceed.
    #[must_use]
    pub fn quantile(&self, share: f64) -> f64 {
        let sorted = self.sorted();
        let place = (sorted.len() as f64 * share) as usize;
        sorted.get(place.min(sorted.len().saturating_sub(1))).copied().unwrap_or_default()
    }

    fn sorted(&self) -> Vec<f64> {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        sorted
    }

    /// Each round of this side over the same round of the other.
    #[must_use]
    pub fn over(&self, base: &Self) -> Self {
        Self(self.0.iter().zip(&base.0).map(|(ours, base)| ours / base).collect())
    }

    /// The lowest and the highest.
    #[must_use]
    pub fn spread(&self) -> (f64, f64) {
        let sorted = self.sorted();
        (sorted.first().copied().unwrap_or_default(), sorted.last().copied().unwrap_or_default())
    }

    /// Every round.
    pub(crate) fn rounds(&self) -> &[f64] {
        &self.0
    }

    /// The median, and the lowest and highest beside it.
    pub(crate) fn text(&self) -> String {
        let show = |value: f64| match value.abs() {
            large if large >= 100.0 => format!("{value:.0}"),
            middle if middle >= 10.0 => format!("{value:.1}"),
            _ => format!("{value:.2}"),
        };
        let sorted = self.sorted();
        match (sorted.first(), sorted.last()) {
            (Some(low), Some(high)) if sorted.len() > 1 => {
                format!("{} ({} to {})", show(self.median()), show(*low), show(*high))
            }
            _ => show(self.median()),
        }
    }
}

/// What is to be reached.
#[derive(Debug, Clone, Copy)]
pub enum Goal {
    /// This or more.
    AtLeast(f64),
    /// This or less.
    AtMost(f64),
    /// Nothing: the figure is there to be seen.
    None,
}

impl Goal {
    pub(crate) fn text(self, reached: f64) -> (String, &'static str) {
        let met = |met| if met { "met" } else { "MISSED" };
        match self {
            Self::AtLeast(goal) => (format!(">= {goal}"), met(reached >= goal)),
            Self::AtMost(goal) => (format!("<= {goal}"), met(reached <= goal)),
            Self::None => (String::new(), ""),
        }
    }
}

/// One line of a table.
#[derive(Debug, Clone)]
pub struct Figure {
    /// What was measured.
    pub what: String,
    /// What it is counted in.
    pub unit: &'static str,
    /// The samples of Pillarbox.
    pub ours: Samples,
    /// What it is held against, in the same rounds; none where the goal is absolute.
    pub base: Option<Samples>,
    /// Of the ratio, or of the figure itself.
    pub goal: Goal,
}

impl Figure {
    /// A figure held against another one.
    pub fn ratio(
        what: impl Into<String>,
        unit: &'static str,
        ours: &Samples,
        base: &Samples,
        goal: Goal,
    ) -> Self {
        Self { what: what.into(), unit, ours: ours.clone(), base: Some(base.clone()), goal }
    }

    /// A figure by itself.
    pub fn alone(what: impl Into<String>, unit: &'static str, ours: &Samples, goal: Goal) -> Self {
        Self { what: what.into(), unit, ours: ours.clone(), base: None, goal }
    }

    /// The heading of the table.
    #[must_use]
    pub fn heading() -> &'static str {
        "| what | ours | against | ratio | goal | |\n|---|---|---|---|---|---|"
    }

    /// The line.
    #[must_use]
    pub fn text(&self) -> String {
        let ratios = self.base.as_ref().map(|base| self.ours.over(base));
        let reached = ratios.as_ref().unwrap_or(&self.ours).median();
        let (goal, met) = self.goal.text(reached);
        let base =
            self.base.as_ref().map(|base| format!("{} {}", base.text(), self.unit)).unwrap_or_default();
        let ratio = ratios.as_ref().map(Samples::text).unwrap_or_default();
        format!("| {} | {} {} | {base} | {ratio} | {goal} | {met} |", self.what, self.ours.text(), self.unit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(values: &[f64]) -> Samples {
        Samples(values.to_vec())
    }

    #[test]
    fn the_ratio_is_the_median_of_the_rounds_own_ratios() {
        let figure = Figure::ratio(
            "x",
            "/s",
            &samples(&[8.0, 90.0, 5.0]),
            &samples(&[10.0, 100.0, 10.0]),
            Goal::AtLeast(0.8),
        );
        assert!(figure.text().ends_with("| 0.80 (0.50 to 0.90) | >= 0.8 | met |"), "{}", figure.text());
    }

    #[test]
    fn a_figure_above_its_bound_is_missed() {
        let figure = Figure::alone("x", "µs", &samples(&[60.0]), Goal::AtMost(50.0));
        assert_eq!(figure.text(), "| x | 60.0 µs |  |  | <= 50 | MISSED |");
    }
}
