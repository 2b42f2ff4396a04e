# The contract, and a claim, by a tool that asks the node what it may say.
grpcurl -plaintext 127.0.0.1:7450 describe semel.v1.Keys
grpcurl -plaintext -d '{
  "tenant": "acme", "operation": "payments.charge", "key": "order-8812",
  "fingerprints": [{"algorithm": "sha256/v1", "digest": "RcwOmcsZ+DV6ktq2oWOYH6A6Vn+fe2PuRYEtIk4vwi0="}],
  "owner_id": "AAECAwQFBgcICQoLDA0ODw=="
}' 127.0.0.1:7450 semel.v1.Keys/ClaimKey
