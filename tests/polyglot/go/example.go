// How a service in Go does a write once.

package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	semel "scenarios/semelv1"
)

// After UNAVAILABLE the library sends the same request again. Its ids are the same, so a claim or a
// completion whose reply was lost is recognised.
const repeat = `{"methodConfig": [{
	"name": [{"service": "semel.v1.Keys"}],
	"retryPolicy": {
		"maxAttempts": 5,
		"initialBackoff": "0.1s",
		"maxBackoff": "2s",
		"backoffMultiplier": 2,
		"retryableStatusCodes": ["UNAVAILABLE"]
	}
}]}`

func connect(address string) (*grpc.ClientConn, error) {
	plain := grpc.WithTransportCredentials(insecure.NewCredentials())
	return grpc.NewClient(address, plain, grpc.WithDefaultServiceConfig(repeat))
}

// fingerprint says what a key stands for: each part framed by its length, so that no two lists look
// the same.
func fingerprint(parts ...string) *semel.Fingerprint {
	var framed bytes.Buffer
	for number, part := range parts {
		if number > 0 {
			framed.WriteByte(',')
		}
		fmt.Fprintf(&framed, "%d:%s", len(part), part)
	}
	digest := sha256.Sum256(framed.Bytes())
	return &semel.Fingerprint{Algorithm: "sha256/v1", Digest: digest[:]}
}

// once does the work of a key, or returns the answer of whoever did it.
func once(ctx context.Context, keys semel.KeysClient, operation, key, payload string, work func() *semel.Response) (*semel.Response, error) {
	claiming, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	ownerID := make([]byte, 16) // One for each execution.
	rand.Read(ownerID)
	claim, err := keys.ClaimKey(claiming, &semel.ClaimKeyRequest{
		Tenant: "acme", Operation: operation, Key: key,
		Fingerprints: []*semel.Fingerprint{fingerprint(operation, payload)},
		OwnerId:      ownerID,
		Wait:         durationpb.New(10 * time.Second),
	})
	if err != nil {
		return nil, err
	}
	switch claim.Disposition {
	case semel.ClaimKeyResponse_REPLAY:
		return claim.Completion.Response, nil
	case semel.ClaimKeyResponse_CLAIMED:
	default: // Busy for longer than we wait, or lost: look what the last owner did, or ask again later.
		return nil, fmt.Errorf("%v", claim.Disposition)
	}
	response := work()
	// What was done is told, even if nobody waits for it any more.
	completing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 15*time.Second)
	defer cancel()
	_, err = keys.CompleteKey(completing, &semel.CompleteKeyRequest{
		Tenant: "acme", Operation: operation, Key: key,
		Fence: claim.Fence, OwnerId: ownerID,
		Outcome: semel.Outcome_OUTCOME_SUCCEEDED, Response: response,
	})
	return response, err
}

// errorInfo says why a call failed: its reason is stable. Empty if nothing says so.
func errorInfo(failed *status.Status) *errdetails.ErrorInfo {
	for _, detail := range failed.Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok {
			return info
		}
	}
	return &errdetails.ErrorInfo{}
}
