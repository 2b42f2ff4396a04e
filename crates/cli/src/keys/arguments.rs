//! How keys, payloads and answers are written on the command line.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use clap::Args;
use semel_proto::v1::response::Content;
use semel_proto::v1::{Fingerprint, MetadataEntry, Response};

use super::fingerprint;
use crate::arguments::TenantArgs;
use crate::failure::Failure;
use crate::invocation::Invocation;
use crate::target::NodeArgs;
use crate::values::{parse_hex, parse_pair};

/// Which key is meant.
#[derive(Args, Clone, Debug)]
pub(crate) struct KeyArgs {
    /// The name of the write, e.g. payments.charge.
    pub(crate) operation: String,

    /// The idempotency key: one per intent, the same on every attempt.
    pub(crate) key: String,

    #[command(flatten)]
    pub(crate) tenant: TenantArgs,
}

impl KeyArgs {
    /// A `semel keys` command line about the same key on the same node.
    pub(crate) fn invocation(&self, node: &NodeArgs, command: &str) -> Invocation {
        node.invocation(command)
            .operand(&self.operation)
            .operand(&self.key)
            .option("--tenant", &self.tenant.tenant)
    }
}

/// Who holds the claim.
#[derive(Args, Clone, Debug)]
pub(crate) struct HolderArgs {
    /// The claim's fence, as `claim` printed it.
    #[arg(long)]
    pub(crate) fence: u64,

    /// The claim's owner id, as `claim` printed it.
    #[arg(long, value_name = "HEX", value_parser = parse_hex)]
    pub(crate) owner: Bytes,
}

/// What the key stands for.
#[derive(Args, Clone, Debug)]
#[group(required = true, multiple = false)]
pub(crate) struct PayloadArgs {
    /// What the key stands for, as text. Only a digest of it is sent.
    #[arg(long, value_name = "TEXT")]
    payload: Option<String>,

    /// The same from a file; - reads the standard input.
    #[arg(long, value_name = "FILE")]
    payload_file: Option<PathBuf>,

    /// Digests made elsewhere: 1 to 4, one per algorithm.
    #[arg(long, value_name = "ALGORITHM:HEX", value_parser = fingerprint::parse)]
    fingerprint: Vec<Fingerprint>,
}

impl PayloadArgs {
    /// The fingerprints to send.
    pub(crate) fn fingerprints(&self, operation: &str) -> Result<Vec<Fingerprint>, Failure> {
        if let Some(payload) = read(self.payload.as_ref(), self.payload_file.as_deref())? {
            return Ok(vec![fingerprint::of_payload(operation, &payload)]);
        }
        Ok(self.fingerprint.clone())
    }
}

/// The answer to store.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "The answer to store")]
pub(crate) struct ResponseArgs {
    /// Your own status, e.g. an HTTP code [default: 0].
    #[arg(long, allow_negative_numbers = true)]
    status: Option<i32>,

    /// The content type of the body.
    #[arg(long, value_name = "TYPE")]
    content_type: Option<String>,

    /// A header to store with it; may be given again.
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_pair)]
    header: Vec<(String, String)>,

    /// The body, as text.
    #[arg(long, value_name = "TEXT", conflicts_with = "body_file")]
    body: Option<String>,

    /// The body from a file; - reads the standard input.
    #[arg(long, value_name = "FILE")]
    body_file: Option<PathBuf>,
}

impl ResponseArgs {
    /// The response to send; none if nothing of it was given.
    pub(crate) fn response(&self) -> Result<Option<Response>, Failure> {
        let body = read(self.body.as_ref(), self.body_file.as_deref())?;
        let nothing = body.is_none()
            && self.status.is_none()
            && self.content_type.is_none()
            && self.header.is_empty();
        if nothing {
            return Ok(None);
        }
        let metadata = self
            .header
            .iter()
            .map(|(name, value)| MetadataEntry { name: name.clone(), value: value.clone() })
            .collect();
        Ok(Some(Response {
            status: self.status.unwrap_or_default(),
            content_type: self.content_type.clone().unwrap_or_default(),
            metadata,
            content: body.map(Content::Body),
        }))
    }
}

/// Reads what was given as text or as a file, if either was.
pub(crate) fn read(text: Option<&String>, file: Option<&Path>) -> Result<Option<Bytes>, Failure> {
    if let Some(text) = text {
        return Ok(Some(Bytes::from(text.clone())));
    }
    let Some(file) = file else { return Ok(None) };
    let bytes = if file == Path::new("-") {
        let mut bytes = Vec::new();
        io::stdin().read_to_end(&mut bytes).map(|_| bytes)
    } else {
        std::fs::read(file)
    };
    bytes
        .map(|bytes| Some(Bytes::from(bytes)))
        .map_err(|error| Failure::usage(format!("reading {} failed: {error}", file.display())))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        response: ResponseArgs,
    }

    fn response(words: &[&str]) -> Option<Response> {
        let line = Line::parse_from([&["line"], words].concat());
        line.response.response().unwrap()
    }

    #[test]
    fn no_response_is_not_an_empty_response() {
        assert_eq!(response(&[]), None);
        assert_eq!(response(&["--status", "0"]), Some(Response::default()));
        let empty = response(&["--body", ""]).unwrap();
        assert_eq!(empty.content, Some(Content::Body(Bytes::new())));
    }

    #[test]
    fn headers_keep_their_order() {
        let headers = response(&["--header", "b=1", "--header", "a=2=3"]).unwrap().metadata;
        let pairs: Vec<_> = headers.iter().map(|entry| (&*entry.name, &*entry.value)).collect();
        assert_eq!(pairs, [("b", "1"), ("a", "2=3")]);
    }

    #[test]
    fn a_file_that_cannot_be_read_is_named() {
        let failure = read(None, Some(Path::new("/no/such/file"))).unwrap_err();
        assert!(failure.message.contains("/no/such/file"), "{}", failure.message);
    }
}
