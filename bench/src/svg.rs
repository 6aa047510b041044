//! Horizontal bars as SVG, readable on a light and on a dark page.

use std::fmt::Write;

const WIDTH: f64 = 860.0;
/// Where bars begin; labels stand left of it.
const LEFT: f64 = 250.0;
/// Room for the numbers behind the longest bar.
const RIGHT: f64 = 170.0;
const TOP: f64 = 64.0;
const ROW: f64 = 26.0;
const BAR: f64 = 16.0;

const STYLE: &str = "text{font:13px system-ui,sans-serif;fill:#57606a}.title{font-size:16px;font-weight:600}\
    .ours{fill:#2f81f7}.peer{fill:#8c959f}.floor{fill:#d29922}.spread{stroke:#57606a;stroke-width:1.5}\
    @media(prefers-color-scheme:dark){text{fill:#c9d1d9}.spread{stroke:#c9d1d9}}";

/// The colour of a bar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Colour {
    Ours,
    Peer,
    Floor,
}

impl Colour {
    fn class(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Peer => "peer",
            Self::Floor => "floor",
        }
    }
}

/// One bar, with its lowest and highest value.
#[derive(Debug, Clone)]
pub(crate) struct Bar {
    pub(crate) label: String,
    pub(crate) colour: Colour,
    pub(crate) value: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
    pub(crate) text: String,
}

/// How a value becomes a length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scale {
    Linear,
    /// Each tenfold has the same length; values are at least 1.
    Logarithmic,
}

impl Scale {
    fn length(self, value: f64, most: f64) -> f64 {
        let share = match self {
            Self::Linear => value / most,
            Self::Logarithmic => value.max(1.0).ln_1p() / most.max(1.0).ln_1p(),
        };
        (if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 }) * (WIDTH - LEFT - RIGHT)
    }
}

/// Draws bars in their order.
pub(crate) fn bars(title: &str, subtitle: &str, scale: Scale, bars: &[Bar]) -> String {
    let most = bars.iter().map(|bar| bar.high.max(bar.value)).fold(0.0, f64::max);
    let height = TOP + ROW * bars.len() as f64 + 12.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
         role=\"img\" aria-label=\"{0}\">\n<style>{STYLE}</style>\n<text class=\"title\" x=\"12\" y=\"26\">{0}</text>\n\
         <text x=\"12\" y=\"46\">{1}</text>\n",
        escaped(title),
        escaped(subtitle)
    );
    for (place, bar) in bars.iter().enumerate() {
        let (y, length) = (TOP + ROW * place as f64, scale.length(bar.value, most));
        let (low, high) = (LEFT + scale.length(bar.low, most), LEFT + scale.length(bar.high, most));
        let (text, middle) = (y + 12.5, y + BAR / 2.0);
        // Writing to a string does not fail.
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{text:.1}\" text-anchor=\"end\">{}</text>\
             <rect class=\"{}\" x=\"{LEFT}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{BAR}\" rx=\"2\"/>\
             <line class=\"spread\" x1=\"{low:.1}\" x2=\"{high:.1}\" y1=\"{middle:.1}\" y2=\"{middle:.1}\"/>\
             <text x=\"{:.1}\" y=\"{text:.1}\">{}</text>",
            LEFT - 8.0,
            escaped(&bar.label),
            bar.colour.class(),
            length.max(1.0),
            high.max(LEFT + length) + 8.0,
            escaped(&bar.text)
        );
    }
    svg.push_str("</svg>\n");
    svg
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(label: &str, value: f64) -> Bar {
        let text = value.to_string();
        Bar { label: label.to_owned(), colour: Colour::Peer, value, low: value, high: value, text }
    }

    #[test]
    fn the_longest_bar_fills_the_room_and_the_others_are_in_proportion() {
        let svg = bars("t", "s", Scale::Linear, &[bar("a", 100.0), bar("b", 25.0)]);
        assert!(svg.contains("width=\"440.0\"") && svg.contains("width=\"110.0\""), "{svg}");
    }

    #[test]
    fn what_a_page_would_read_as_markup_is_escaped() {
        let svg = bars("a & b", "<s>", Scale::Linear, &[bar("\"c\"", 1.0)]);
        assert!(
            svg.contains("a &amp; b") && svg.contains("&lt;s&gt;") && svg.contains("&quot;c&quot;"),
            "{svg}"
        );
    }

    #[test]
    fn no_bars_and_no_values_are_drawn_without_harm() {
        assert!(bars("t", "s", Scale::Linear, &[]).ends_with("</svg>\n"));
        let svg = bars("t", "s", Scale::Logarithmic, &[bar("a", 0.0)]);
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }

    #[test]
    fn a_thousandth_is_still_seen_on_the_logarithmic_scale() {
        let small = Scale::Logarithmic.length(10.0, 10_000.0);
        assert!(small > 100.0 && small < 440.0, "{small}");
    }
}
