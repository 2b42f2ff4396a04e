//! Records of nodes as replies.

use std::time::Duration;

use bytes::Bytes;
use semel_domain::node::{ClockSample, Format, Load, NodeId, Record};
use semel_proto::v1;

use crate::wire::{wire_duration, wire_time};

/// A node as it last told of itself.
pub(super) fn snapshot(of: NodeId, record: &Record) -> v1::NodeSnapshot {
    let duration = |duration: Duration| Some(wire_duration(duration));
    let Load { connections, calls_under_way, calls_per_second } = record.load;
    let clock = |sample: ClockSample| v1::NodeClock {
        offset_us: sample.offset_us,
        round_trip: duration(sample.round_trip),
    };
    v1::NodeSnapshot {
        node: id(of),
        version: record.version.to_string(),
        address: record.address.to_string(),
        started_at: Some(wire_time(record.started_at)),
        last_heartbeat_at: Some(wire_time(record.touched_at)),
        heartbeat_interval: duration(record.interval),
        formats: record.formats.iter().map(format).collect(),
        load: Some(v1::NodeLoad { connections, calls_under_way, calls_per_second }),
        clock: record.clock.map(clock),
        unreadable: false,
    }
}

/// A node whose record can't be read: it must not hide.
pub(super) fn unreadable(of: NodeId) -> v1::NodeSnapshot {
    v1::NodeSnapshot { node: id(of), unreadable: true, ..Default::default() }
}

pub(super) fn id(of: NodeId) -> Bytes {
    Bytes::copy_from_slice(&of.0)
}

fn format(format: &Format) -> v1::RecordFormat {
    v1::RecordFormat {
        record: format.record.to_string(),
        reads_from: format.reads_from.into(),
        reads_to: format.reads_to.into(),
        writes: format.writes.into(),
    }
}
