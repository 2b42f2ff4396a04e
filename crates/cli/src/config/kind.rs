//! What a setting can be: how it is read, shown and bounded, and where it goes.
//!
//! Invariant: what [`Kind::show`] shows, [`Kind::set`] reads back as the same, but for the address of a
//! store, which is never shown.

use std::net::SocketAddr;
use std::time::Duration;

use clap::ValueEnum;

use super::settings::{Place, Settings};
use crate::engine::{Engine, StoreAddress};
use crate::logging::LogFormat;
use crate::values::{parse_duration, parse_size, show_ms, show_size};

/// The part of the settings that a setting is.
pub(crate) type Part<T> = fn(&mut Settings) -> &mut T;

/// What a setting can be.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    /// Where to listen.
    Socket(Part<SocketAddr>),
    /// Yes or no.
    Switch(Part<bool>),
    /// How the log is written.
    Format(Part<LogFormat>),
    /// A word, what it may be, and whether it is that.
    Word { part: Part<String>, allowed: &'static str, check: fn(&str) -> Result<(), String> },
    /// A word that need not be set (empty: it is not), and what it may be.
    Given { part: Part<Option<String>>, allowed: &'static str },
    /// A number in a unit, and its bounds.
    Number { part: Number, unit: Unit, least: u64, most: u64 },
    /// One of the ways to say where the store is.
    Place(Where),
}

/// A number, in the type that its owner gave it.
#[derive(Clone, Copy)]
pub(crate) enum Number {
    Usize(Part<usize>),
    U64(Part<u64>),
    /// In milliseconds.
    Duration(Part<Duration>),
}

/// What a number counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Pieces,
    Ms,
    Bytes,
}

/// A way to say where the store is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Where {
    Directory,
    Address,
    AddressIn,
}

/// What a setting is written as in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    Text,
    Number,
    TextOrNumber,
    Switch,
}

impl Kind {
    /// Sets it to what was written, or says what it may be. The reason does not repeat what was written
    /// if that may be a secret.
    pub(crate) fn set(self, settings: &mut Settings, text: &str) -> Result<(), String> {
        let must = || format!("it must be {}", self.allowed());
        match self {
            Self::Socket(part) => *part(settings) = text.parse().map_err(|_| must())?,
            Self::Switch(part) => *part(settings) = text.parse().map_err(|_| must())?,
            Self::Format(part) => {
                *part(settings) = LogFormat::from_str(text, false).map_err(|_| must())?;
            }
            Self::Word { part, check, .. } => {
                check(text).map_err(|reason| format!("{}: {reason}", must()))?;
                text.clone_into(part(settings));
            }
            Self::Given { part, .. } => {
                *part(settings) = (!text.is_empty()).then(|| text.to_owned());
            }
            Self::Number { part, unit, least, most } => {
                let number = unit.parse(text).map_err(|reason| format!("{}: {reason}", must()))?;
                if number < least || number > most {
                    return Err(must());
                }
                part.put(settings, number);
            }
            Self::Place(_) if text.is_empty() => return Err(must()),
            Self::Place(place) => settings.place = place.at(text)?,
        }
        Ok(())
    }

    /// What it is set to, as it would be written. The address of a store is not shown, only its engine.
    pub(crate) fn show(self, settings: &mut Settings) -> String {
        match self {
            Self::Socket(part) => part(settings).to_string(),
            Self::Switch(part) => part(settings).to_string(),
            Self::Format(part) => part(settings).name().to_owned(),
            Self::Word { part, .. } => part(settings).clone(),
            Self::Given { part, .. } => part(settings).clone().unwrap_or_default(),
            Self::Number { part, unit, .. } => unit.show(part.get(settings)),
            Self::Place(_) => match &settings.place {
                Place::Directory(path) | Place::AddressIn(path) => path.display().to_string(),
                Place::Address(_) => settings
                    .engine()
                    .map_or_else(|_| "not shown".to_owned(), |engine| engine.name()),
            },
        }
    }

    /// Takes it over from other settings.
    pub(crate) fn copy(self, from: &mut Settings, to: &mut Settings) {
        match self {
            Self::Socket(part) => *part(to) = *part(from),
            Self::Switch(part) => *part(to) = *part(from),
            Self::Format(part) => *part(to) = *part(from),
            Self::Word { part, .. } => part(to).clone_from(part(from)),
            Self::Given { part, .. } => part(to).clone_from(part(from)),
            Self::Number { part, .. } => part.put(to, part.get(from)),
            Self::Place(_) => to.place = from.place.clone(),
        }
    }

    /// What it may be.
    pub(crate) fn allowed(self) -> String {
        match self {
            Self::Socket(_) => "an address with a port, such as 127.0.0.1:7450".to_owned(),
            Self::Switch(_) => "true or false".to_owned(),
            Self::Format(_) => "text or json".to_owned(),
            Self::Word { allowed, .. } | Self::Given { allowed, .. } => allowed.to_owned(),
            Self::Number { unit, least, most, .. } => {
                format!("{}, from {} to {}", unit.name(), unit.show(least), unit.show(most))
            }
            Self::Place(Where::Directory) => "the path of a directory".to_owned(),
            Self::Place(Where::Address) => {
                "postgres://USER@HOST/DATABASE, fdb:CLUSTER_FILE or embedded:DIRECTORY".to_owned()
            }
            Self::Place(Where::AddressIn) => {
                "the path of a file with the URL of the store".to_owned()
            }
        }
    }

    /// What it is written as in a file.
    pub(crate) const fn written(self) -> Written {
        match self {
            Self::Switch(_) => Written::Switch,
            Self::Number { unit: Unit::Pieces, .. } => Written::Number,
            Self::Number { unit: Unit::Bytes, .. } => Written::TextOrNumber,
            _ => Written::Text,
        }
    }

    /// Whether what is written may be a secret: also where a path is meant, since the address may be
    /// written there by mistake.
    pub(crate) const fn is_secret(self) -> bool {
        matches!(self, Self::Place(_))
    }
}

impl Where {
    fn at(self, text: &str) -> Result<Place, String> {
        if self == Self::Address {
            let address = StoreAddress::from(text.to_owned());
            Engine::parse(&address).map_err(|failure| failure.message.clone())?;
            return Ok(Place::Address(address));
        }
        // Paths are shown, and this is none.
        if text.contains("://") {
            return Err(format!(
                "it must be {}; a URL belongs in `store`",
                Kind::Place(self).allowed()
            ));
        }
        let path = text.into();
        Ok(if self == Self::Directory { Place::Directory(path) } else { Place::AddressIn(path) })
    }
}

impl Number {
    fn get(self, settings: &mut Settings) -> u64 {
        match self {
            Self::Usize(part) => u64::try_from(*part(settings)).unwrap_or(u64::MAX),
            Self::U64(part) => *part(settings),
            Self::Duration(part) => u64::try_from(part(settings).as_millis()).unwrap_or(u64::MAX),
        }
    }

    pub(crate) fn put(self, settings: &mut Settings, number: u64) {
        match self {
            Self::Usize(part) => *part(settings) = usize::try_from(number).unwrap_or(usize::MAX),
            Self::U64(part) => *part(settings) = number,
            Self::Duration(part) => *part(settings) = Duration::from_millis(number),
        }
    }
}

impl Unit {
    fn parse(self, text: &str) -> Result<u64, String> {
        match self {
            Self::Pieces => text.parse().map_err(|_| "this is no whole number".to_owned()),
            Self::Bytes => parse_size(text).map(|size| size.as_u64()),
            Self::Ms => {
                let duration = parse_duration(text)?;
                if !duration.subsec_nanos().is_multiple_of(1_000_000) {
                    return Err("write whole milliseconds".to_owned());
                }
                u64::try_from(duration.as_millis()).map_err(|error| error.to_string())
            }
        }
    }

    fn show(self, number: u64) -> String {
        match self {
            Self::Pieces => number.to_string(),
            Self::Bytes => show_size(number),
            Self::Ms => show_ms(i64::try_from(number).unwrap_or(i64::MAX)),
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Pieces => "a whole number",
            Self::Bytes => "a size such as 64MiB",
            Self::Ms => "a duration such as 30s",
        }
    }
}
