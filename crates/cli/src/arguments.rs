//! How several commands name whom and what they mean.

use clap::Args;

/// Whose things are meant.
#[derive(Args, Clone, Debug)]
pub(crate) struct TenantArgs {
    /// The tenant that it belongs to.
    #[arg(long, env = "SEMEL_TENANT")]
    pub(crate) tenant: String,
}

/// A downstream that is called and retried.
#[derive(Args, Clone, Debug)]
pub(crate) struct DependencyArgs {
    /// What is called, e.g. stripe.
    pub(crate) dependency: String,

    #[command(flatten)]
    pub(crate) tenant: TenantArgs,
}

/// Who acts.
#[derive(Args, Clone, Debug)]
pub(crate) struct ActorArgs {
    /// Who you are. Kept with it.
    #[arg(long, env = "USER")]
    pub(crate) actor: String,
}

/// Who acts, and why.
#[derive(Args, Clone, Debug)]
pub(crate) struct AuditArgs {
    #[command(flatten)]
    pub(crate) actor: ActorArgs,

    /// Why you do it. Kept with it.
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: String,
}
