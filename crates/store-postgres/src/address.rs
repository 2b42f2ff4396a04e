//! Connection strings: what tokio-postgres reads, and two words of libpq's that it does not know.

use percent_encoding::percent_decode_str;
use tokio_postgres::Config;

use crate::error::OpenError;

/// A connection string, taken apart.
pub(crate) struct Address {
    pub(crate) config: Config,
    pub(crate) ssl_mode: Option<String>,
    pub(crate) ssl_root_cert: Option<String>,
}

pub(crate) fn parse(text: &str) -> Result<Address, OpenError> {
    let text = text.trim();
    let is_url = ["postgres://", "postgresql://"].iter().any(|start| text.starts_with(start));
    let (rest, words) = if is_url { split_url(text) } else { split_words(text)? };
    let mut ssl_mode = None;
    let mut ssl_root_cert = None;
    for (name, value) in words {
        match name {
            "sslmode" => ssl_mode = Some(value),
            _ => ssl_root_cert = Some(value),
        }
    }
    // What the parser says may repeat a part of the string, and so a password.
    let config: Config = rest.parse().map_err(|_| {
        OpenError::Address(
            "write postgres://user:password@host:port/database?sslmode=…, or host=… user=… \
             dbname=…, with words that libpq knows; percent-encode what has a meaning in URLs"
                .to_owned(),
        )
    })?;
    if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
        return Err(OpenError::Address("it names no host".to_owned()));
    }
    Ok(Address { config, ssl_mode, ssl_root_cert })
}

type Words<'a> = Vec<(&'a str, String)>;

fn is_ours(name: &str) -> bool {
    name == "sslmode" || name == "sslrootcert"
}

/// Takes our words out of the query of a URL.
fn split_url(url: &str) -> (String, Words<'_>) {
    let Some((before, query)) = url.split_once('?') else { return (url.to_owned(), Vec::new()) };
    let mut words = Vec::new();
    let mut left = Vec::new();
    for pair in query.split('&') {
        match pair.split_once('=') {
            Some((name, value)) if is_ours(name) => {
                let value = percent_decode_str(value).decode_utf8_lossy().into_owned();
                words.push((name, value));
            }
            _ => left.push(pair),
        }
    }
    let query = left.join("&");
    let rest = if query.is_empty() { before.to_owned() } else { format!("{before}?{query}") };
    (rest, words)
}

/// Takes our words out of `name=value name='a value'`.
fn split_words(text: &str) -> Result<(String, Words<'_>), OpenError> {
    let mut words = Vec::new();
    let mut left = String::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let (name, after) = rest
            .split_once('=')
            .ok_or_else(|| OpenError::Address("a word without `=`, and no URL".to_owned()))?;
        let after = after.trim_start();
        let (value, length) = value(after);
        let (taken, next) = after.split_at_checked(length).unwrap_or((after, ""));
        if is_ours(name.trim()) {
            words.push((name.trim(), value));
        } else {
            left.push_str(name);
            left.push('=');
            left.push_str(taken);
            left.push(' ');
        }
        rest = next.trim_start();
    }
    Ok((left, words))
}

/// The value that `text` begins with, and its length as it is written.
fn value(text: &str) -> (String, usize) {
    let quoted = text.starts_with('\'');
    let mut value = String::new();
    let mut escaped = false;
    for (place, letter) in text.char_indices() {
        match letter {
            _ if escaped => {
                value.push(letter);
                escaped = false;
            }
            '\\' => escaped = true,
            '\'' if quoted && place == 0 => {}
            '\'' if quoted => return (value, place + 1),
            letter if !quoted && letter.is_whitespace() => return (value, place),
            letter => value.push(letter),
        }
    }
    (value, text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_words_are_taken_out_of_both_forms() {
        for text in [
            "postgres://ann:pa%20ss@db:5433/app?sslmode=verify-ca&connect_timeout=3&sslrootcert=%2Fca%20x.pem",
            "host=db port=5433 user=ann password='pa ss' sslrootcert='/ca x.pem' dbname=app sslmode=verify-ca connect_timeout=3",
        ] {
            let address = parse(text).unwrap();
            assert_eq!(address.ssl_mode.as_deref(), Some("verify-ca"));
            assert_eq!(address.ssl_root_cert.as_deref(), Some("/ca x.pem"));
            assert_eq!(address.config.get_user(), Some("ann"));
            assert_eq!(address.config.get_password(), Some(&b"pa ss"[..]));
            assert_eq!(address.config.get_ports(), [5433]);
            assert_eq!(address.config.get_dbname(), Some("app"));
        }
    }
}
