//! What the policies of budgets and of breakers have in common: versions, and how they are replaced.

use std::io;

use clap::Args;
use serde::Serialize;

use crate::arguments::ActorArgs;
use crate::invocation::Invocation;
use crate::output::{GOOD, Page, Reply};

/// Which version of a policy is to be replaced.
#[derive(Args, Clone, Debug)]
pub(crate) struct SetPolicyArgs {
    /// The version that you looked at. If it is no longer in force, nothing is written [default: the
    /// one in force when this command looks].
    #[arg(long, value_name = "N")]
    pub(crate) expected_version: Option<u64>,

    /// Set what is not named to its default, rather than leave it as it is.
    #[arg(long)]
    pub(crate) from_defaults: bool,

    #[command(flatten)]
    pub(crate) actor: ActorArgs,
}

/// A policy's version in a word.
pub(crate) fn show_version(version: u64) -> String {
    if version == 0 { "default".to_owned() } else { format!("version {version}") }
}

/// A policy as it is in force.
#[derive(Debug, Serialize)]
pub(crate) struct InForceView<P> {
    /// 0: the default.
    pub(crate) version: u64,
    /// Who set it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) actor: Option<String>,
    /// When.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) set_at: Option<String>,
    /// What it says.
    pub(crate) policy: P,
}

impl<P: Reply> Reply for InForceView<P> {
    fn write(&self, page: &mut Page<'_>) -> io::Result<()> {
        let meaning = if self.version == 0 { "nobody set another" } else { "in force" };
        page.title(GOOD, &show_version(self.version).to_uppercase(), meaning)?;
        page.field_if("set by", self.actor.as_ref())?;
        page.field_if("set at", self.set_at.as_ref())?;
        self.policy.write(page)
    }
}

/// A policy that was replaced.
#[derive(Debug, Serialize)]
pub(crate) struct SetView {
    /// The version in force now.
    pub(crate) version: u64,
    /// The version in force before.
    pub(crate) replaced_version: u64,
    /// The command that shows it.
    #[serde(skip)]
    pub(crate) look: Invocation,
}

impl Reply for SetView {
    fn write(&self, page: &mut Page<'_>) -> io::Result<()> {
        let meaning = format!("version {}, on every node within 5 s", self.version);
        page.title(GOOD, "SET", &meaning)?;
        page.field("in place of", show_version(self.replaced_version))?;
        page.next("To look at it:", &self.look)
    }
}
