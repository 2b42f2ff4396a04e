//! How nodes are shown: stable objects for scripts, a row each for people.
//!
//! Names are those of the contract; durations end in their unit. What is absent is left out.

use semel_proto::v1;
use serde::Serialize;

use crate::output::{BAD, CAUTION, STRONG};
use crate::values::{show_ms, tame, time, to_ms};

/// How many digits of an id tell nodes apart for a person.
const ID_DIGITS: usize = 8;
/// A clock that is further off than this, in microseconds, is pointed out: the skew that nodes allow
/// unless told otherwise.
const SKEW_US: u64 = 1_000_000;

/// A node.
#[derive(Debug, Serialize)]
pub(crate) struct NodeView {
    node: String,
    address: String,
    version: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    started_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_heartbeat_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    heartbeat_interval_ms: Option<i64>,
    formats: Vec<FormatView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    load: Option<LoadView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    clock: Option<ClockView>,
    unreadable: bool,
    #[serde(skip)]
    answered: bool,
    #[serde(skip)]
    silent_ms: Option<i64>,
}

#[derive(Debug, Serialize)]
struct FormatView {
    record: String,
    reads_from: u32,
    reads_to: u32,
    writes: u32,
}

#[derive(Debug, Serialize)]
struct LoadView {
    connections: u32,
    calls_under_way: u32,
    calls_per_second: u32,
}

#[derive(Debug, Serialize)]
struct ClockView {
    offset_us: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    round_trip_us: Option<i64>,
}

impl NodeView {
    /// A node, as the node `answered_by` had it when the store's time was `now`.
    pub(crate) fn new(
        node: v1::NodeSnapshot,
        answered_by: &[u8],
        now: Option<&prost_types::Timestamp>,
    ) -> Self {
        let heartbeat = node.last_heartbeat_at.as_ref();
        let format = |format: v1::RecordFormat| FormatView {
            record: format.record,
            reads_from: format.reads_from,
            reads_to: format.reads_to,
            writes: format.writes,
        };
        Self {
            node: hex::encode(&node.node),
            address: node.address,
            version: node.version,
            started_at: time(node.started_at.as_ref()),
            last_heartbeat_at: time(heartbeat),
            heartbeat_interval_ms: node.heartbeat_interval.as_ref().map(to_ms),
            formats: node.formats.into_iter().map(format).collect(),
            load: node.load.map(|load| LoadView {
                connections: load.connections,
                calls_under_way: load.calls_under_way,
                calls_per_second: load.calls_per_second,
            }),
            clock: node.clock.map(|clock| ClockView {
                offset_us: clock.offset_us,
                round_trip_us: clock.round_trip.as_ref().map(to_us),
            }),
            unreadable: node.unreadable,
            answered: node.node == answered_by,
            silent_ms: now.zip(heartbeat).map(|(now, heartbeat)| since_ms(now, heartbeat)),
        }
    }

    /// The headings of [`Self::row`].
    pub(crate) const HEADINGS: [&str; 9] = [
        "NODE",
        "ADDRESS",
        "VERSION",
        "UP SINCE",
        "LAST SEEN",
        "CONNECTIONS",
        "CALLS",
        "CALLS/S",
        "CLOCK",
    ];

    /// The node as a row of a table.
    pub(crate) fn row(&self) -> Vec<String> {
        let mark = if self.answered { "*" } else { "" };
        let name = format!("{}{mark}", self.node.get(..ID_DIGITS).unwrap_or(&self.node));
        if self.unreadable {
            return vec![name, format!("{BAD}unreadable{BAD:#}")];
        }
        let load = |count: fn(&LoadView) -> u32| {
            self.load.as_ref().map_or_else(unknown, |load| count(load).to_string())
        };
        vec![
            if self.answered { format!("{STRONG}{name}{STRONG:#}") } else { name },
            tame(&self.address),
            tame(&self.version),
            self.started_at.clone().unwrap_or_else(unknown),
            self.silent_ms.map_or_else(unknown, |silent_ms| format!("{} ago", show_ms(silent_ms))),
            load(|load| load.connections),
            load(|load| load.calls_under_way),
            load(|load| load.calls_per_second),
            self.clock.as_ref().map_or_else(unknown, ClockView::show),
        ]
    }
}

impl ClockView {
    /// The offset with its sign, in milliseconds.
    fn show(&self) -> String {
        let off_us = self.offset_us.unsigned_abs();
        let sign = if self.offset_us < 0 { '-' } else { '+' };
        let shown = format!("{sign}{}.{:03}ms", off_us / 1_000, off_us % 1_000);
        if off_us > SKEW_US { format!("{CAUTION}{shown}{CAUTION:#}") } else { shown }
    }
}

fn unknown() -> String {
    "?".to_owned()
}

fn to_us(duration: &prost_types::Duration) -> i64 {
    duration.seconds.saturating_mul(1_000_000).saturating_add(i64::from(duration.nanos) / 1_000)
}

/// Never less than none: a heartbeat may come after the list was asked for.
fn since_ms(now: &prost_types::Timestamp, then: &prost_types::Timestamp) -> i64 {
    let seconds = now.seconds.saturating_sub(then.seconds);
    let nanos = i64::from(now.nanos) - i64::from(then.nanos);
    seconds.saturating_mul(1_000).saturating_add(nanos / 1_000_000).max(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64, nanos: i32) -> prost_types::Timestamp {
        prost_types::Timestamp { seconds, nanos }
    }

    fn plain(cells: &[String]) -> Vec<String> {
        cells.iter().map(|cell| anstream::adapter::strip_str(cell).to_string()).collect()
    }

    #[test]
    fn a_node_is_a_row_for_people_and_an_object_for_scripts() {
        let round_trip = Some(prost_types::Duration { seconds: 0, nanos: 250_000 });
        let node = v1::NodeSnapshot {
            node: vec![0xab; 16].into(),
            version: "0.1.0".into(),
            address: "10.0.0.7:7450".into(),
            started_at: Some(at(1_800_000_000, 0)),
            last_heartbeat_at: Some(at(1_800_000_100, 900_000_000)),
            load: Some(v1::NodeLoad { connections: 3, calls_under_way: 2, calls_per_second: 1 }),
            clock: Some(v1::NodeClock { offset_us: -1_500_020, round_trip }),
            ..Default::default()
        };
        let view = NodeView::new(node, &[0xab; 16], Some(&at(1_800_000_102, 150_000_000)));
        let expected = [
            "abababab*",
            "10.0.0.7:7450",
            "0.1.0",
            "2027-01-15T08:00:00Z",
            "1s 250ms ago",
            "3",
            "2",
            "1",
            "-1500.020ms",
        ];
        assert_eq!(plain(&view.row()), expected);
        assert_eq!(expected.len(), NodeView::HEADINGS.len());
        let json = serde_json::to_value(&view).unwrap();
        assert_eq!(json["node"], "ab".repeat(16));
        let clock = serde_json::json!({ "offset_us": -1_500_020, "round_trip_us": 250 });
        assert_eq!(json["clock"], clock);
        assert_eq!(json.get("answered"), None);
    }

    #[test]
    fn what_is_not_known_is_not_made_up() {
        let node = v1::NodeSnapshot { node: vec![1; 16].into(), ..Default::default() };
        let view = NodeView::new(node.clone(), &[2; 16], None);
        let unknown = ["01010101", "", "", "?", "?", "?", "?", "?", "?"];
        assert_eq!(plain(&view.row()), unknown);
        let unreadable = v1::NodeSnapshot { unreadable: true, ..node };
        let view = NodeView::new(unreadable, &[2; 16], None);
        assert_eq!(plain(&view.row()), ["01010101", "unreadable"]);
    }
}
