//! Rounds in turns, medians with their spread, and ratios against a goal.

use std::time::Duration;

/// What one side of a comparison did in each round, in events per second.
#[derive(Debug, Clone, Default)]
pub struct Rates(Vec<f64>);

impl Rates {
    /// Notes a round.
    pub fn push(&mut self, events: usize, took: Duration) {
        self.0.push(events as f64 / took.as_secs_f64());
    }

    fn sorted(&self) -> Vec<f64> {
        let mut rates = self.0.clone();
        rates.sort_by(f64::total_cmp);
        rates
    }

    /// The middle one.
    #[must_use]
    pub fn median(&self) -> f64 {
        let rates = self.sorted();
        rates.get(rates.len() / 2).copied().unwrap_or_default()
    }

    /// The lowest and the highest.
    #[must_use]
    pub fn spread(&self) -> (f64, f64) {
        let rates = self.sorted();
        (rates.first().copied().unwrap_or_default(), rates.last().copied().unwrap_or_default())
    }
}

/// One line of the report.
#[derive(Debug, Clone)]
pub struct Line {
    /// What was measured.
    pub what: String,
    /// The rates of Pillarbox.
    pub ours: Rates,
    /// The floor, in the same run; none where the goal is absolute.
    pub floor: Option<Rates>,
    /// The ratio, or the rate, to reach.
    pub goal: f64,
}

impl Line {
    /// Ours against the floor: the median of the rounds' own ratios, since rounds are taken in turns.
    #[must_use]
    pub fn ratio(&self) -> Option<f64> {
        let floor = self.floor.as_ref()?;
        let mut ratios: Vec<f64> =
            self.ours.0.iter().zip(&floor.0).map(|(ours, floor)| ours / floor).collect();
        ratios.sort_by(f64::total_cmp);
        ratios.get(ratios.len() / 2).copied()
    }

    /// The line in words.
    #[must_use]
    pub fn text(&self) -> String {
        let show = |rates: &Rates| {
            let (low, high) = rates.spread();
            format!("{:>10.0}/s ({:.0} to {:.0})", rates.median(), low, high)
        };
        let ours = show(&self.ours);
        match (&self.floor, self.ratio()) {
            (Some(floor), Some(ratio)) => {
                let met = if ratio >= self.goal { "met" } else { "MISSED" };
                let floor = show(floor);
                format!(
                    "{:<44} {ours}  floor {floor}  ratio {ratio:.2}  goal {:.2}  {met}",
                    self.what, self.goal
                )
            }
            _ => {
                let met = if self.ours.median() >= self.goal { "met" } else { "MISSED" };
                format!("{:<44} {ours}  goal {:.0}/s  {met}", self.what, self.goal)
            }
        }
    }
}
