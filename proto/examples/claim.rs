//! Claims a key, does the work, completes it, and asks again: the answer is replayed.

#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "an example is a whole program: it may draw its own owner ids and print"
)]

use semel_proto::v1::claim_key_response::Disposition;
use semel_proto::v1::keys_client::KeysClient;
use semel_proto::v1::response::Content;
use semel_proto::v1::{ClaimKeyRequest, CompleteKeyRequest, Fingerprint, Outcome, Response};
use sha2::{Digest, Sha256};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut keys = KeysClient::connect("http://127.0.0.1:7450").await?;
    // What the key stands for. Frame each part with its length, and hash what makes the intent.
    let digest = Sha256::digest(b"15:payments.charge,8:4200 EUR");
    let claim = |owner_id: [u8; 16]| ClaimKeyRequest {
        tenant: "acme".into(),
        operation: "payments.charge".into(),
        key: "order-8814".into(),
        fingerprints: vec![Fingerprint {
            algorithm: "sha256/v1".into(),
            digest: digest.to_vec().into(),
        }],
        owner_id: owner_id.to_vec().into(),
        ..Default::default()
    };

    // 16 random bytes per execution; the claim's fence and this id prove that it is yours.
    let owner_id: [u8; 16] = rand::random();
    let claimed = keys.claim_key(claim(owner_id)).await?.into_inner();
    if claimed.disposition() == Disposition::Claimed {
        let charge = r#"{"charge":"ch_1"}"#; // The work: done once.
        keys.complete_key(CompleteKeyRequest {
            tenant: "acme".into(),
            operation: "payments.charge".into(),
            key: "order-8814".into(),
            fence: claimed.fence,
            owner_id: owner_id.to_vec().into(),
            outcome: Outcome::Succeeded.into(),
            response: Some(Response {
                status: 200,
                content: Some(Content::Body(charge.into())),
                ..Default::default()
            }),
        })
        .await?;
    }

    let again = keys.claim_key(claim(rand::random())).await?.into_inner();
    println!("{:?}: {:?}", again.disposition(), again.completion.and_then(|done| done.response));
    Ok(())
}
