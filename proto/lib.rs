//! The wire contract of Semel, generated from the files beside this one.
//!
//! Any gRPC client in any language speaks it; this crate is the Rust form. Messages are plain data:
//! what they mean, their units, ranges and defaults, is said in the `.proto` files and repeated in
//! the docs here.
//!
//! ```no_run
//! use semel_proto::v1::{ClaimKeyRequest, Fingerprint, keys_client::KeysClient};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let mut keys = KeysClient::connect("http://127.0.0.1:7450").await?;
//! let reply = keys
//!     .claim_key(ClaimKeyRequest {
//!         tenant: "acme".into(),
//!         operation: "payments.charge".into(),
//!         key: "order-8812".into(),
//!         fingerprints: vec![Fingerprint {
//!             algorithm: "sha256/v1".into(),
//!             digest: vec![7; 32].into(),
//!         }],
//!         owner_id: vec![1; 16].into(),
//!         ..Default::default()
//!     })
//!     .await?;
//! println!("{:?}", reply.into_inner().disposition());
//! # Ok(())
//! # }
//! ```
//!
//! # What it does not do
//!
//! It has no rules and no defaults: an absent field stays absent until the node reads it.

/// The first version of the contract.
pub mod v1 {
    #![allow(
        clippy::all,
        clippy::pedantic,
        clippy::allow_attributes_without_reason,
        missing_docs,
        unreachable_pub,
        unused_qualifications,
        reason = "generated; its docs are those of the .proto files, and derived items have none"
    )]
    tonic::include_proto!("semel.v1");
}

/// The encoded `FileDescriptorSet` of the contract and its imports, for server reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
