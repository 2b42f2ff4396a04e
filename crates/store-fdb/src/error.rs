//! Why a store was not opened.

/// Why a store was not opened, or the network not started.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// An option is out of its range.
    #[error("{option} is {found}; it must be {allowed}")]
    Option {
        /// Which option.
        option: &'static str,
        /// What it was.
        found: String,
        /// What it may be.
        allowed: &'static str,
    },
    /// A file that an option names can't be read.
    #[error("{option}: {path} can't be read: {reason}")]
    File {
        /// Which option.
        option: &'static str,
        /// The file.
        path: String,
        /// Why.
        reason: String,
    },
    /// The network of the client library could not be started.
    #[error("the FoundationDB client could not be started: {0}")]
    Network(String),
    /// The network was started before: the client library starts it once per process.
    #[error(
        "the FoundationDB client was started before in this process, which it allows once only"
    )]
    Started,
    /// The cluster could not be reached, or refused.
    #[error("the FoundationDB cluster could not be reached: {0}")]
    Unreachable(String),
    /// What is stored is not what this version can use.
    #[error(
        "the store {name} has version {found}, and this version of Semel knows those up to {known}: upgrade \
         this node, or give it a name of its own"
    )]
    Newer {
        /// The name of the store.
        name: String,
        /// The version that was found.
        found: u32,
        /// The newest version that is known here.
        known: u32,
    },
    /// What is stored can't be read.
    #[error("the store {name} can't be read: {reason}")]
    Unreadable {
        /// The name of the store.
        name: String,
        /// What is wrong.
        reason: String,
    },
    /// A thread or a runtime could not be started.
    #[error("could not start the threads of the store: {0}")]
    Thread(std::io::Error),
}
