//! Attempts over time as a picture: one panel for each curve, the capacity as a line across it.
//!
//! Plain SVG without a background of its own; it follows whether its reader prefers light or dark.

use std::fmt::Write;
use std::time::Duration;

/// One curve.
#[derive(Clone, Copy, Debug)]
pub struct Curve<'a> {
    /// Its name.
    pub name: &'a str,
    /// What is said beside the name.
    pub note: &'a str,
    /// Its values, one for each tick from the beginning.
    pub ticks: &'a [u32],
}

/// What a picture is about.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// What stands above it.
    pub title: &'a str,
    /// The length of a tick.
    pub tick: Duration,
    /// The line across each panel.
    pub capacity: u32,
    /// The stretch of time that is shaded.
    pub shaded: (Duration, Duration),
    /// Until when it shows.
    pub end: Duration,
}

const WIDTH: f64 = 880.0;
const LEFT: f64 = 46.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 40.0;
const PANEL: f64 = 130.0;
const GAP: f64 = 44.0;
const STYLE: &str = "\
text{font:13px system-ui,sans-serif;fill:#24292f}.n{font-weight:600}.f{fill:#6e7781;font-size:11px}\
.a{stroke:#8c959f;stroke-width:1}.c{stroke:#cf222e;stroke-width:1.2;stroke-dasharray:5 4}\
.s{fill:#8c959f;opacity:.16}.b{fill:#0969da}.r{fill:#cf222e;font-size:11px}\
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.f{fill:#8d96a0}.c{stroke:#ff7b72}.b{fill:#58a6ff}\
.r{fill:#ff7b72}}";

/// Draws the curves.
#[must_use]
pub fn svg(frame: &Frame<'_>, curves: &[Curve<'_>]) -> String {
    let height = TOP + f64::from(u32::try_from(curves.len()).unwrap_or(0)) * (PANEL + GAP) + 8.0;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\">\n\
         <title>{0}</title>\n<style>{STYLE}</style>\n<text class=\"n\" x=\"{LEFT}\" y=\"20\">{0}</text>\n",
        frame.title
    );
    let mut top = TOP + 18.0;
    for curve in curves {
        panel(&mut out, frame, curve, top);
        top += PANEL + GAP;
    }
    out.push_str("</svg>\n");
    out
}

fn panel(out: &mut String, frame: &Frame<'_>, curve: &Curve<'_>, top: f64) {
    let end_s = frame.end.as_secs_f64();
    let x = |at_s: f64| LEFT + (WIDTH - LEFT - RIGHT) * (at_s / end_s).clamp(0.0, 1.0);
    let most = curve.ticks.iter().copied().max().unwrap_or(0).max(frame.capacity * 2);
    let y = |value: u32| top + PANEL * (1.0 - f64::from(value) / f64::from(most));
    let (bottom, right) = (top + PANEL, WIDTH - RIGHT);
    let (from, to) = (frame.shaded.0.as_secs_f64(), frame.shaded.1.as_secs_f64());
    // Writing to a string does not fail.
    let _ = writeln!(
        out,
        "<text x=\"{LEFT}\" y=\"{:.1}\"><tspan class=\"n\">{}</tspan> <tspan class=\"f\">{}</tspan></text>\n\
         <rect class=\"s\" x=\"{:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{PANEL}\"/>",
        top - 6.0,
        curve.name,
        curve.note,
        x(from),
        x(to) - x(from),
    );
    let tick_s = frame.tick.as_secs_f64();
    let width = (x(tick_s) - x(0.0) - 0.6).max(0.6);
    for (number, value) in (0_u32..).zip(curve.ticks).filter(|(_, value)| **value > 0) {
        let at_s = tick_s * f64::from(number);
        if at_s < end_s {
            let _ = writeln!(
                out,
                "<rect class=\"b\" x=\"{:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"{:.1}\"/>",
                x(at_s),
                y(*value),
                bottom - y(*value),
            );
        }
    }
    let line = y(frame.capacity);
    let _ = writeln!(
        out,
        "<line class=\"a\" x1=\"{LEFT}\" y1=\"{bottom:.1}\" x2=\"{right}\" y2=\"{bottom:.1}\"/>\n\
         <line class=\"c\" x1=\"{LEFT}\" y1=\"{line:.1}\" x2=\"{right}\" y2=\"{line:.1}\"/>\n\
         <text class=\"r\" x=\"{right}\" y=\"{:.1}\" text-anchor=\"end\">capacity {}</text>\n\
         <text class=\"f\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{most}</text>\n\
         <text class=\"f\" x=\"{:.1}\" y=\"{bottom:.1}\" text-anchor=\"end\">0</text>",
        line - 4.0,
        frame.capacity,
        LEFT - 6.0,
        top + 10.0,
        LEFT - 6.0,
    );
    for second in (0_u32..).step_by(2).take_while(|second| f64::from(*second) <= end_s) {
        let at = x(f64::from(second));
        let _ = writeln!(
            out,
            "<text class=\"f\" x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{second} s</text>",
            bottom + 14.0,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_shows_each_curve_and_each_tick_that_has_something() {
        let frame = Frame {
            title: "attempts",
            tick: Duration::from_millis(100),
            capacity: 8,
            shaded: (Duration::from_secs(2), Duration::from_secs(6)),
            end: Duration::from_secs(12),
        };
        let curves = [
            Curve { name: "fixed", note: "peak 40", ticks: &[0, 40, 3] },
            Curve { name: "semel", note: "peak 4", ticks: &[4] },
        ];
        let picture = svg(&frame, &curves);
        assert_eq!(picture.matches("class=\"b\"").count(), 3);
        assert_eq!(picture.matches("capacity 8").count(), 2);
        assert!(picture.contains(">fixed</tspan>") && picture.contains(">peak 4</tspan>"));
        assert!(picture.starts_with("<svg ") && picture.ends_with("</svg>\n"));
    }
}
