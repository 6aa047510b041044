//! Makes a failing sequence short: takes out what the failure does not need.

use super::step::Step;

/// Most runs spent on one failure.
const RUNS: usize = 600;

/// The shortest sequence found that still fails.
pub(crate) fn shrink(steps: Vec<Step>, mut fails: impl FnMut(&[Step]) -> bool) -> Vec<Step> {
    let (mut best, mut runs) = (steps, 0);
    let mut chunk = (best.len() / 2).max(1);
    loop {
        let (mut start, mut shorter) = (0, false);
        while start < best.len() && runs < RUNS {
            let end = (start + chunk).min(best.len());
            let rest: Vec<Step> = best[..start].iter().chain(&best[end..]).cloned().collect();
            runs += 1;
            if fails(&rest) {
                (best, shorter) = (rest, true);
            } else {
                start = end;
            }
        }
        if runs >= RUNS || (chunk == 1 && !shorter) {
            return best;
        }
        chunk = (chunk / 2).max(1);
    }
}
