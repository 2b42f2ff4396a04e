//! The versioned bytes of a record.
//!
//! The first byte is the version. A node writes [`VERSION`] and reads every version up to it; a later
//! one is refused, never guessed at. Golden bytes of every released version lie in `golden/`.
//!
//! One record has one encoding: formats that are not in the order of their names are refused.

use std::time::Duration;

use bytes::Bytes;

use super::record::{Format, Load, Record};
use super::skew::ClockSample;
use crate::codec::{CodecError, DecodeError, Reader, Writer, decode_record};
use crate::limits::{
    NODE_ADDRESS_MAX_BYTES, NODE_FORMAT_NAME_MAX_BYTES, NODE_FORMATS_MAX, NODE_VERSION_MAX_BYTES,
};
use crate::time::{Timestamp, micros};

/// The version that is written.
pub const VERSION: u8 = 1;

/// Writes a record.
#[must_use]
pub fn encode(record: &Record) -> Bytes {
    let mut writer = Writer::with_capacity(192);
    writer.byte(VERSION);
    writer.u64(record.touched_at.as_micros());
    writer.u64(record.started_at.as_micros());
    writer.varint(record.seq);
    writer.varint(micros(record.interval));
    writer.framed(record.version.as_bytes());
    writer.framed(record.address.as_bytes());
    writer.list(record.formats.iter(), put_format);
    for count in
        [record.load.connections, record.load.calls_under_way, record.load.calls_per_second]
    {
        writer.varint(u64::from(count));
    }
    writer.option(record.clock.as_ref(), |writer, sample| {
        writer.u64(sample.offset_us.cast_unsigned());
        writer.varint(micros(sample.round_trip));
    });
    writer.finish()
}

/// Reads a record.
///
/// # Errors
///
/// [`DecodeError`]; never a panic, whatever the bytes.
pub fn decode(bytes: &[u8]) -> Result<Record, DecodeError> {
    decode_record(bytes, VERSION, take_record)
}

fn take_record(reader: &mut Reader<'_>) -> Result<Record, CodecError> {
    Ok(Record {
        touched_at: Timestamp::from_micros(reader.u64()?),
        started_at: Timestamp::from_micros(reader.u64()?),
        seq: reader.varint()?,
        interval: Duration::from_micros(reader.varint()?),
        version: take_text(reader, NODE_VERSION_MAX_BYTES)?,
        address: take_text(reader, NODE_ADDRESS_MAX_BYTES)?,
        formats: take_formats(reader)?,
        load: Load {
            connections: take_count(reader)?,
            calls_under_way: take_count(reader)?,
            calls_per_second: take_count(reader)?,
        },
        clock: reader.option(take_sample)?,
    })
}

fn put_format(writer: &mut Writer, format: &Format) {
    writer.framed(format.record.as_bytes());
    for version in [format.reads_from, format.reads_to, format.writes] {
        writer.byte(version);
    }
}

fn take_formats(reader: &mut Reader<'_>) -> Result<Vec<Format>, CodecError> {
    let formats = reader.list(|reader| {
        Ok(Format {
            record: take_text(reader, NODE_FORMAT_NAME_MAX_BYTES)?,
            reads_from: reader.byte()?,
            reads_to: reader.byte()?,
            writes: reader.byte()?,
        })
    })?;
    if formats.len() > NODE_FORMATS_MAX {
        return Err(CodecError::OutOfRange("number of formats"));
    }
    if !formats.is_sorted_by(|one, next| one.record < next.record) {
        return Err(CodecError::OutOfRange("order of formats"));
    }
    Ok(formats)
}

fn take_sample(reader: &mut Reader<'_>) -> Result<ClockSample, CodecError> {
    Ok(ClockSample {
        offset_us: reader.u64()?.cast_signed(),
        round_trip: Duration::from_micros(reader.varint()?),
    })
}

fn take_text(reader: &mut Reader<'_>, most_bytes: usize) -> Result<Box<str>, CodecError> {
    let text = reader.text()?;
    if text.len() > most_bytes {
        return Err(CodecError::OutOfRange("length of a text"));
    }
    Ok(text.into())
}

fn take_count(reader: &mut Reader<'_>) -> Result<u32, CodecError> {
    u32::try_from(reader.varint()?).map_err(|_| CodecError::OutOfRange("count"))
}
