//! Durations, times, sizes and bytes, as people write and read them.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use bytesize::ByteSize;
use jiff::{SignedDuration, Span, SpanRelativeTo, Timestamp};

/// The name of an enum value without its prefix. One that this version does not know is a number.
macro_rules! named {
    ($kind:ty, $value:expr, $prefix:literal) => {
        <$kind>::try_from($value).map_or_else(
            |_| $value.to_string(),
            |known| known.as_str_name().trim_start_matches($prefix).to_owned(),
        )
    };
}
pub(crate) use named;

/// Reads `30s`, `1500ms`, `24h`, `1h 30m` or `30d` (a day has 24 hours). Zero is allowed, less is not.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let span: Span = text.parse().map_err(|error| {
        format!("{error}; write a number with a unit, such as 500ms, 30s, 15m, 24h or 30d")
    })?;
    let signed = span
        .to_duration(SpanRelativeTo::days_are_24_hours())
        .map_err(|_| "use no unit longer than days (d): a month has no fixed length".to_owned())?;
    Duration::try_from(signed).map_err(|_| "must not be negative".to_owned())
}

/// Reads `1MiB`, `64kB` or a plain number of bytes.
pub(crate) fn parse_size(text: &str) -> Result<ByteSize, String> {
    text.parse().map_err(|error| format!("{error}; write a size such as 65536, 512KiB or 1MiB"))
}

/// Reads an RFC 3339 time, such as `2026-12-01T08:30:00Z`.
pub(crate) fn parse_time(text: &str) -> Result<prost_types::Timestamp, String> {
    let time: Timestamp = text
        .parse()
        .map_err(|error| format!("{error}; write it as 2026-12-01T08:30:00Z (RFC 3339)"))?;
    // The contract counts the fraction upwards, also before 1970.
    let nanos = time.as_nanosecond();
    let seconds = i64::try_from(nanos.div_euclid(1_000_000_000)).unwrap_or(i64::MAX);
    let nanos = i32::try_from(nanos.rem_euclid(1_000_000_000)).unwrap_or(0);
    Ok(prost_types::Timestamp { seconds, nanos })
}

/// Reads a fence or an owner id in hexadecimal.
pub(crate) fn parse_hex(text: &str) -> Result<Bytes, String> {
    hex::decode(text)
        .map(Bytes::from)
        .map_err(|error| format!("{error}; write it in hexadecimal, two digits a byte"))
}

/// Reads `NAME=VALUE`.
pub(crate) fn parse_pair(text: &str) -> Result<(String, String), String> {
    text.split_once('=')
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .ok_or_else(|| "write it as NAME=VALUE".to_owned())
}

/// A duration for the wire. None has so many seconds that it would not fit.
pub(crate) fn to_wire(duration: Duration) -> prost_types::Duration {
    prost_types::Duration {
        seconds: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        nanos: i32::try_from(duration.subsec_nanos()).unwrap_or(0),
    }
}

/// The milliseconds of a duration from the wire.
pub(crate) fn to_ms(duration: &prost_types::Duration) -> i64 {
    duration.seconds.saturating_mul(1_000).saturating_add(i64::from(duration.nanos) / 1_000_000)
}

/// Milliseconds as a person reads them: `30s`, `1h 30m`.
pub(crate) fn show_ms(duration_ms: i64) -> String {
    format!("{:#}", SignedDuration::from_millis(duration_ms))
}

/// Bytes as a person writes them, exactly: `64MiB`, `1000`.
pub(crate) fn show_size(bytes: u64) -> String {
    let units = ["", "KiB", "MiB", "GiB", "TiB"];
    let mut number = bytes;
    let mut position = 0;
    while number > 0 && number.is_multiple_of(1_024) && position + 1 < units.len() {
        number /= 1_024;
        position += 1;
    }
    format!("{number}{}", units.get(position).unwrap_or(&""))
}

/// A time from the wire in RFC 3339. One outside the years that it can write shows as seconds.
pub(crate) fn show_time(time: &prost_types::Timestamp) -> String {
    Timestamp::new(time.seconds, time.nanos)
        .map_or_else(|_| format!("{} s since 1970", time.seconds), |time| time.to_string())
}

/// An id, if there is one.
pub(crate) fn id(bytes: &Bytes) -> Option<String> {
    (!bytes.is_empty()).then(|| hex::encode(bytes))
}

/// A time, if there is one.
pub(crate) fn time(time: Option<&prost_types::Timestamp>) -> Option<String> {
    time.map(show_time)
}

/// A share in thousandths as a person reads it: `10 %`, `12.5 %`.
pub(crate) fn show_per_mille(per_mille: u32) -> String {
    let (percent, tenths) = (per_mille / 10, per_mille % 10);
    if tenths == 0 { format!("{percent} %") } else { format!("{percent}.{tenths} %") }
}

/// Milli-tokens as a person reads them, in tokens: `12`, `0.5`.
pub(crate) fn show_milli(milli: u64) -> String {
    let (whole, part) = (milli / 1_000, milli % 1_000);
    if part == 0 {
        return whole.to_string();
    }
    format!("{whole}.{part:03}").trim_end_matches('0').to_owned()
}

/// Bytes in base64.
pub(crate) fn show_base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Text that came from elsewhere, with control characters made visible, so that it can't steer the
/// terminal.
pub(crate) fn tame(text: &str) -> String {
    let mut tamed = String::with_capacity(text.len());
    for letter in text.chars() {
        if letter.is_control() && !matches!(letter, '\n' | '\t') {
            tamed.extend(letter.escape_default());
        } else {
            tamed.push(letter);
        }
    }
    tamed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_as_people_write_them() {
        let cases = [
            ("30s", 30_000),
            ("1500ms", 1_500),
            ("24h", 86_400_000),
            ("30d", 2_592_000_000),
            ("1h 30m", 5_400_000),
            ("0s", 0),
        ];
        for (text, expected_ms) in cases {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(expected_ms)), "{text}");
        }
        for wrong in ["", "30", "s", "-3s", "3s ago", "1 month", "1y"] {
            assert!(parse_duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn sizes_as_people_write_them() {
        assert_eq!(parse_size("1MiB"), Ok(ByteSize::mib(1)));
        assert_eq!(parse_size("4096"), Ok(ByteSize::b(4_096)));
        assert!(parse_size("much").is_err());
        for bytes in [0, 1_000, 1_536, 65_536, 1 << 20, 3 << 40, 1 << 50] {
            assert_eq!(parse_size(&show_size(bytes)), Ok(ByteSize::b(bytes)));
        }
        assert_eq!([0, 1_000, 1_536, 64 << 20].map(show_size), ["0", "1000", "1536", "64MiB"]);
    }

    #[test]
    fn durations_as_people_read_them() {
        assert_eq!(show_ms(30_000), "30s");
        assert_eq!(show_ms(5_400_000), "1h 30m");
        assert_eq!(show_ms(1_250), "1s 250ms");
    }

    #[test]
    fn shares_and_parts_of_tokens_show_no_more_digits_than_they_have() {
        assert_eq!(
            [0, 5, 100, 125, 1_000].map(show_per_mille),
            ["0 %", "0.5 %", "10 %", "12.5 %", "100 %"]
        );
        assert_eq!([0, 40, 500, 2_000, 1_250].map(show_milli), ["0", "0.04", "0.5", "2", "1.25"]);
    }

    #[test]
    fn times_come_back_as_written() {
        for text in ["2026-12-01T08:30:00Z", "1969-12-31T23:59:59.25Z", "2026-01-01T00:00:00.001Z"]
        {
            let time = parse_time(text).unwrap();
            assert!((0..1_000_000_000).contains(&time.nanos), "{time:?}");
            assert_eq!(show_time(&time), text);
        }
        assert!(parse_time("yesterday").is_err());
    }

    #[test]
    fn a_time_beyond_the_calendar_is_still_shown() {
        let far = prost_types::Timestamp { seconds: i64::MAX, nanos: 0 };
        assert!(show_time(&far).contains("since 1970"));
    }

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        assert_eq!(tame("a\u{1b}[31mb\nc\td"), "a\\u{1b}[31mb\nc\td");
    }

    #[test]
    fn pairs_split_at_the_first_equals_sign() {
        assert_eq!(parse_pair("a=b=c"), Ok(("a".into(), "b=c".into())));
        assert!(parse_pair("ab").is_err());
    }

    #[test]
    fn wire_durations_keep_their_milliseconds() {
        assert_eq!(to_ms(&to_wire(Duration::from_millis(1_234))), 1_234);
    }
}
