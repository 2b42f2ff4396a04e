//! `semel keys claim`

use std::io;
use std::time::Duration;

use bytes::Bytes;
use clap::{Args, ValueEnum};
use semel_proto::v1::claim_key_response::Disposition;
use semel_proto::v1::{ClaimKeyRequest, ClaimKeyResponse, OnOwnerLost};
use serde::Serialize;

use super::arguments::{KeyArgs, PayloadArgs};
use super::view::{AttemptView, CompletionView, text_or_base64};
use crate::entropy::random;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::invocation::Invocation;
use crate::output::{CAUTION, GOOD, Output, Page, Reply};
use crate::target::NodeArgs;
use crate::values::{
    parse_duration, parse_hex, parse_pair, parse_time, show_ms, time, to_ms, to_wire,
};

const EXAMPLES: &str = "\
Examples:
  semel keys claim payments.charge order-8812 --tenant acme --payload 'charge 42.00 EUR'
  semel keys claim payments.charge order-8812 --tenant acme \\
      --payload-file request.json --wait 30s
  semel keys claim mail.send m-17 --tenant acme \\
      --fingerprint sha256/v1:9f86d081884c7d659a2feaa0c55ad015 --on-owner-lost take-over

In a script, do the work only on exit code 0. On 10 it was done before, and the answer is printed.";

/// The arguments of `semel keys claim`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ClaimArgs {
    #[command(flatten)]
    key: KeyArgs,

    #[command(flatten)]
    payload: PayloadArgs,

    /// 16 bytes of your own, one value per execution. Give it again only to repeat this very command
    /// after a lost answer [default: random].
    #[arg(long, value_name = "HEX", value_parser = parse_hex)]
    owner: Option<Bytes>,

    /// How long the claim is to hold without renewal [default: 30s].
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    lease: Option<Duration>,

    /// How long to wait for somebody else's claim to end [default: not at all].
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    wait: Option<Duration>,

    /// How long to keep the answer, if longer than the node's policy.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    retention: Option<Duration>,

    /// When the intent was made (not this attempt), in RFC 3339.
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    first_sent: Option<prost_types::Timestamp>,

    /// What happens to the key if you are lost before you complete it [default: reconcile].
    #[arg(long, value_name = "POLICY")]
    on_owner_lost: Option<Policy>,

    /// A label to find the key by; may be given again.
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_pair)]
    label: Vec<(String, String)>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Policy {
    /// The next caller simply does the work
    TakeOver,
    /// The next caller looks first whether it was done
    Reconcile,
    /// Nobody, until an operator settles it
    Block,
}

impl ClaimArgs {
    /// Asks for the claim. The owner id is made here, so that a lost answer can be asked for again.
    pub(crate) async fn run(
        mut self,
        node: &NodeArgs,
        output: &mut Output,
    ) -> Result<Exit, Failure> {
        let mut repeat = Invocation::as_typed();
        if self.owner.is_none() {
            let owner = random::<16>()?;
            repeat = repeat.option("--owner", &hex::encode(owner));
            self.owner = Some(Bytes::copy_from_slice(&owner));
        }
        let message = self.message()?;
        let owner = hex::encode(&message.owner_id);
        let mut keys = node.keys().await?;
        let response = keys
            .claim_key(node.request(message, self.wait))
            .await
            .map_err(|status| Failure::from(status).repeat_with(&repeat))?
            .into_inner();
        let view = ClaimView::new(&self.key, node, owner, response);
        output.reply(&view)?;
        Ok(exit_of(view.answer))
    }

    fn message(&self) -> Result<ClaimKeyRequest, Failure> {
        Ok(ClaimKeyRequest {
            tenant: self.key.tenant.tenant.clone(),
            operation: self.key.operation.clone(),
            key: self.key.key.clone(),
            fingerprints: self.payload.fingerprints(&self.key.operation)?,
            owner_id: self.owner.clone().unwrap_or_default(),
            lease: self.lease.map(to_wire),
            retention: self.retention.map(to_wire),
            wait: self.wait.map(to_wire),
            first_sent: self.first_sent,
            on_owner_lost: self.on_owner_lost.map_or(OnOwnerLost::Unspecified, Policy::wire).into(),
            labels: self.label.iter().cloned().collect(),
        })
    }
}

impl Policy {
    const fn wire(self) -> OnOwnerLost {
        match self {
            Self::TakeOver => OnOwnerLost::TakeOver,
            Self::Reconcile => OnOwnerLost::Reconcile,
            Self::Block => OnOwnerLost::Block,
        }
    }
}

const fn exit_of(answer: Disposition) -> Exit {
    match answer {
        Disposition::Claimed | Disposition::TakenOver => Exit::Done,
        Disposition::ReconcileRequired => Exit::LookFirst,
        Disposition::Replay => Exit::Replay,
        Disposition::InProgress
        | Disposition::Indeterminate
        | Disposition::Released
        | Disposition::Unspecified => Exit::No,
    }
}

/// The answer to a claim.
#[derive(Debug, Serialize)]
struct ClaimView {
    #[serde(skip)]
    answer: Disposition,
    #[serde(skip)]
    next: Next,
    disposition: &'static str,
    tenant: String,
    operation: String,
    key: String,
    owner: String,
    #[serde(flatten)]
    claim: Option<HeldView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    completion: Option<CompletionView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<i64>,
}

/// What comes with a claim that was granted.
#[derive(Debug, Serialize)]
struct HeldView {
    fence: u64,
    lease_ms: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    lease_expires_at: Option<String>,
    derived_key: String,
    resumed: bool,
    attempt: u32,
    history: Vec<AttemptView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    checkpoint: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    checkpoint_base64: Option<String>,
}

/// The commands that a holder may want next.
#[derive(Debug)]
struct Next {
    complete: Invocation,
    renew: Invocation,
    release: Invocation,
}

impl Next {
    fn new(key: &KeyArgs, node: &NodeArgs, fence: u64, owner: &str) -> Self {
        let command = |name: &str| {
            key.invocation(node, name).option("--fence", &fence).option("--owner", owner)
        };
        Self {
            complete: command("complete").option("--outcome", "succeeded").option("--body", "done"),
            renew: command("renew"),
            release: command("release"),
        }
    }
}

impl ClaimView {
    fn new(key: &KeyArgs, node: &NodeArgs, owner: String, response: ClaimKeyResponse) -> Self {
        let answer = response.disposition();
        let next = Next::new(key, node, response.fence, &owner);
        let held = matches!(exit_of(answer), Exit::Done | Exit::LookFirst);
        let (checkpoint, checkpoint_base64) = match &response.checkpoint {
            none if none.is_empty() => (None, None),
            bytes => text_or_base64(bytes),
        };
        Self {
            answer,
            next,
            disposition: answer.as_str_name(),
            tenant: key.tenant.tenant.clone(),
            operation: key.operation.clone(),
            key: key.key.clone(),
            owner,
            completion: response.completion.map(CompletionView::from),
            retry_after_ms: response.retry_after.as_ref().map(to_ms),
            claim: held.then(|| HeldView {
                fence: response.fence,
                lease_ms: response.lease.as_ref().map_or(0, to_ms),
                lease_expires_at: time(response.lease_expires_at.as_ref()),
                derived_key: response.derived_key,
                resumed: response.resumed,
                attempt: response.attempt,
                history: response.history.into_iter().map(AttemptView::from).collect(),
                checkpoint,
                checkpoint_base64,
            }),
        }
    }
}

impl Reply for ClaimView {
    fn write(&self, page: &mut Page<'_>) -> io::Result<()> {
        let (style, meaning) = match self.answer {
            Disposition::Claimed => (GOOD, "the work is yours to do"),
            Disposition::TakenOver => (GOOD, "its owner was lost; the work is yours to do"),
            Disposition::ReconcileRequired => {
                (CAUTION, "it is yours, but may have been done: look first, then act")
            }
            Disposition::InProgress => (CAUTION, "somebody else is doing it now"),
            Disposition::Replay => (GOOD, "done before; do not do it again"),
            Disposition::Indeterminate => {
                (CAUTION, "it may have been done; an operator must settle it")
            }
            Disposition::Released => (CAUTION, "you gave this claim back before; do nothing"),
            Disposition::Unspecified => (CAUTION, "the node gave an answer that is not known here"),
        };
        page.title(style, self.disposition, meaning)?;
        if let Some(held) = &self.claim {
            held.write(page, &self.owner)?;
            page.next("When it is done:", &self.next.complete)?;
            page.next("If it takes longer than the lease:", &self.next.renew)?;
            page.next("If it is known not to be done:", &self.next.release)?;
        }
        if let Some(completion) = &self.completion {
            completion.write(page)?;
        }
        let retry_after =
            self.retry_after_ms.map(|ms| format!("{}, or claim with --wait", show_ms(ms)));
        page.field_if("look again in", retry_after)
    }
}

impl HeldView {
    fn write(&self, page: &mut Page<'_>, owner: &str) -> io::Result<()> {
        page.field("fence", self.fence)?;
        page.field("owner", owner)?;
        let until = self.lease_expires_at.as_deref().unwrap_or("?");
        page.field("lease", format!("{}, until {until}", show_ms(self.lease_ms)))?;
        page.field("derived key", &self.derived_key)?;
        let resumed = if self.resumed { " (yours already: the first answer was lost)" } else { "" };
        page.field("attempt", format!("{}{resumed}", self.attempt))?;
        page.field_if("checkpoint", self.checkpoint.as_ref())?;
        page.field_if("checkpoint, base64", self.checkpoint_base64.as_ref())?;
        self.history.iter().try_for_each(|attempt| attempt.write(page))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::output::testing::capture;
    use crate::target::DEFAULT_TARGET;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        claim: ClaimArgs,
    }

    fn parse(words: &[&str]) -> Result<ClaimArgs, clap::Error> {
        let words = [&["claim", "op", "k", "--tenant", "t"], words].concat();
        Line::try_parse_from(words).map(|line| line.claim)
    }

    fn show(response: ClaimKeyResponse, json: bool) -> String {
        let args = parse(&["--payload", "p"]).unwrap();
        let node = NodeArgs { target: DEFAULT_TARGET.into(), timeout: Duration::from_secs(1) };
        let view = ClaimView::new(&args.key, &node, "0f".repeat(16), response);
        let (mut output, out, _) = capture(json);
        output.reply(&view).unwrap();
        out.text()
    }

    #[test]
    fn a_claim_says_what_it_stands_for_in_exactly_one_way() {
        assert!(parse(&[]).is_err());
        assert!(parse(&["--payload", "a", "--fingerprint", "x:00"]).is_err());
        assert!(parse(&["--payload", "a"]).is_ok());
        let two = parse(&["--fingerprint", "x:00", "--fingerprint", "y:11"]).unwrap();
        assert_eq!(two.message().unwrap().fingerprints.len(), 2);
    }

    #[test]
    fn an_absent_duration_stays_absent_and_zero_stays_zero() {
        let message = parse(&["--payload", "a", "--wait", "0s"]).unwrap().message().unwrap();
        assert_eq!(message.lease, None);
        assert_eq!(message.wait, Some(prost_types::Duration::default()));
    }

    #[test]
    fn a_person_sees_the_next_command_as_it_must_be_typed() {
        let text = show(
            ClaimKeyResponse {
                disposition: Disposition::Claimed.into(),
                fence: 77,
                ..Default::default()
            },
            false,
        );
        assert!(text.starts_with("CLAIMED  the work is yours to do\n"), "{text}");
        let line = text.lines().find(|line| line.contains("keys complete")).unwrap();
        let owner = "0f".repeat(16);
        let expected = format!(
            "keys complete op k --tenant t --fence 77 --owner {owner} --outcome succeeded --body done"
        );
        assert!(line.ends_with(&expected), "{line}");
    }

    #[test]
    fn a_script_sees_a_fence_only_with_a_claim() {
        let claimed = ClaimKeyResponse {
            disposition: Disposition::Claimed.into(),
            fence: 7,
            ..Default::default()
        };
        let json: serde_json::Value = serde_json::from_str(&show(claimed, true)).unwrap();
        assert_eq!((&json["disposition"], &json["fence"]), (&"CLAIMED".into(), &7.into()));

        let busy = ClaimKeyResponse {
            disposition: Disposition::InProgress.into(),
            retry_after: Some(to_wire(Duration::from_millis(1_500))),
            ..Default::default()
        };
        let json: serde_json::Value = serde_json::from_str(&show(busy, true)).unwrap();
        assert_eq!(json.get("fence"), None);
        assert_eq!(json["retry_after_ms"], 1_500);
    }

    #[test]
    fn only_a_claim_to_act_on_ends_with_zero() {
        let done: Vec<_> = (0..8)
            .filter_map(|number| Disposition::try_from(number).ok())
            .filter(|answer| exit_of(*answer) == Exit::Done)
            .collect();
        assert_eq!(done, [Disposition::Claimed, Disposition::TakenOver]);
    }
}
