// How a service in Node does a write once.

const { createHash, randomBytes } = require('node:crypto');
const path = require('node:path');
const { promisify } = require('node:util');
const grpc = require('@grpc/grpc-js');
const protoLoader = require('@grpc/proto-loader');

const files = ['semel/v1/keys.proto', 'semel/v1/retries.proto', 'semel/v1/breakers.proto',
  'google/rpc/error_details.proto'];
const proto = grpc.loadPackageDefinition(protoLoader.loadSync(files, {
  includeDirs: [path.join(__dirname, 'proto')],
  keepCase: true, longs: String, enums: String, defaults: true, oneofs: true,
}));
const semel = proto.semel.v1;

// After UNAVAILABLE the library sends the same request again. Its ids are the same, so a claim or a
// completion whose reply was lost is recognised.
const repeat = { methodConfig: [{
  name: [{ service: 'semel.v1.Keys' }],
  retryPolicy: {
    maxAttempts: 5,
    initialBackoff: '0.1s',
    maxBackoff: '2s',
    backoffMultiplier: 2,
    retryableStatusCodes: ['UNAVAILABLE'],
  },
}] };

// A client of 'Keys', 'Retries' or 'Breakers'.
function connect(service, address) {
  const options = { 'grpc.service_config': JSON.stringify(repeat) };
  return new semel[service](address, grpc.credentials.createInsecure(), options);
}

// Calls a method of a client, with a deadline.
function call(client, method, request, timeoutMs = 15_000) {
  const send = promisify(client[method].bind(client));
  return send(request, { deadline: Date.now() + timeoutMs });
}

// What a key stands for: each part framed by its length, so that no two lists look the same.
function fingerprint(...parts) {
  const framed = parts.map((part) => `${Buffer.byteLength(part)}:${part}`).join(',');
  return { algorithm: 'sha256/v1', digest: createHash('sha256').update(framed).digest() };
}

// Does the work of a key, or returns the answer of whoever did it.
async function once(keys, operation, key, payload, work) {
  const name = { tenant: 'acme', operation, key };
  const owner_id = randomBytes(16); // One for each execution.
  const claim = await call(keys, 'ClaimKey', {
    ...name, owner_id, fingerprints: [fingerprint(operation, payload)], wait: { seconds: 10 },
  });
  if (claim.disposition === 'REPLAY') return claim.completion.response;
  if (claim.disposition !== 'CLAIMED') {
    // Busy for longer than we wait, or lost: look what the last owner did, or ask again later.
    throw new Error(claim.disposition);
  }
  const response = await work();
  await call(keys, 'CompleteKey', {
    ...name, fence: claim.fence, owner_id, outcome: 'OUTCOME_SUCCEEDED', response,
  });
  return response;
}

// Why a call failed: its reason is stable. Empty if nothing says so.
function errorInfo(error) {
  const [bytes] = error.metadata?.get('grpc-status-details-bin') ?? [];
  return errorInfoOf(bytes ? proto.google.rpc.Status.deserialize(bytes).details : []);
}

function errorInfoOf(details) {
  const found = details.find((detail) => detail.type_url.endsWith('/google.rpc.ErrorInfo'));
  return proto.google.rpc.ErrorInfo.deserialize(found?.value ?? Buffer.alloc(0));
}

module.exports = { call, connect, errorInfo, errorInfoOf, fingerprint, once };
