// The scenarios of ../scenarios.md.

const assert = require('node:assert/strict');
const { randomBytes, randomUUID } = require('node:crypto');
const { once: event } = require('node:events');
const { setTimeout: after } = require('node:timers/promises');
const grpc = require('@grpc/grpc-js');
const { call, connect, errorInfo, errorInfoOf, fingerprint, once } = require('./example');

const [address, option, chosen, ...rest] = process.argv.slice(2);
const keys = connect('Keys', address);
const retries = connect('Retries', address);
const breakers = connect('Breakers', address);

const ANSWER = {
  status: 402,
  content_type: 'application/octet-stream',
  metadata: [
    { name: 'x-trace', value: 'first' },
    { name: 'x-trace', value: 'zweites Stück' },
  ],
  body: Buffer.from(Array.from({ length: 256 }, (_, number) => number)),
};

const newOwner = () => randomBytes(16);
const name = (key) => ({ tenant: 'acme', operation: 'payments.charge', key });
const claimOf = (key, owner_id, fields = {}) => ({
  ...name(key), owner_id, fingerprints: [fingerprint('payments.charge', '42.00 €')], ...fields,
});
const completionOf = (key, owner_id, fence) => ({
  ...name(key), owner_id, fence, outcome: 'OUTCOME_SUCCEEDED', response: ANSWER,
});
const claimKey = (key, owner, fields) => call(keys, 'ClaimKey', claimOf(key, owner, fields));
const completeKey = (key, owner, fence) =>
  call(keys, 'CompleteKey', completionOf(key, owner, fence));
const replayKey = (key) => {
  const { fingerprints } = claimOf(key);
  return call(keys, 'ReplayKey', { ...name(key), fingerprints });
};

function isAnswer(found) {
  const { content, ...fields } = found; // Which content it is: the loader's own addition.
  assert.deepEqual(fields, ANSWER);
}

// The error with which a call is refused.
async function refusal(calling) {
  const accepted = await calling.catch((error) => ({ error }));
  assert.ok(accepted.error, `accepted: ${JSON.stringify(accepted)}`);
  return accepted.error;
}

async function isRefused(calling, reason) {
  const error = await refusal(calling);
  assert.equal(error.code, grpc.status.FAILED_PRECONDITION);
  const info = errorInfo(error);
  assert.deepEqual([info.reason, info.domain], [reason, 'semel.v1']);
}

const scenarios = {
  async claim() {
    const key = randomUUID();
    let charged = 0;
    const work = async () => {
      charged += 1;
      return ANSWER;
    };
    assert.equal(await once(keys, 'payments.charge', key, '42.00 €', work), ANSWER);
    isAnswer(await once(keys, 'payments.charge', key, '42.00 €', work));
    assert.equal(charged, 1);
  },

  async replay() {
    const [key, owner] = [randomUUID(), newOwner()];
    const claimed = await claimKey(key, owner);
    assert.equal(claimed.disposition, 'CLAIMED');
    const completed = await completeKey(key, owner, claimed.fence);
    assert.equal(completed.state, 'KEY_STATE_SUCCEEDED');
    const again = await claimKey(key, newOwner());
    assert.equal(again.disposition, 'REPLAY');
    isAnswer(again.completion.response);
    isAnswer((await replayKey(key)).completion.response);
  },

  async repeat() {
    const [key, owner] = [randomUUID(), newOwner()];
    const first = await claimKey(key, owner);
    const second = await claimKey(key, owner);
    assert.deepEqual([first.resumed, second.resumed], [false, true]);
    assert.equal(second.fence, first.fence);
    assert.equal((await completeKey(key, owner, first.fence)).already_completed, false);
    assert.equal((await completeKey(key, owner, first.fence)).already_completed, true);
  },

  async wait() {
    const [key, owner] = [randomUUID(), newOwner()];
    const { fence } = await claimKey(key, owner);
    const waiting = claimKey(key, newOwner(), { wait: { seconds: 10 } });
    assert.equal(await Promise.race([waiting, after(300, 'waits')]), 'waits');
    await completeKey(key, owner, fence);
    const told = await Promise.race([waiting, after(5_000, null, { ref: false })]);
    assert.ok(told, 'it still waits');
    isAnswer(told.completion.response);
  },

  async mismatch() {
    const key = randomUUID();
    await claimKey(key, newOwner());
    const fingerprints = [fingerprint('payments.charge', '43.00 €')];
    await isRefused(claimKey(key, newOwner(), { fingerprints }), 'KEY_PAYLOAD_MISMATCH');
  },

  async fencing() {
    const [key, late, owner] = [randomUUID(), newOwner(), newOwner()];
    const lost = await claimKey(key, late, {
      lease: { nanos: 100_000_000 }, on_owner_lost: 'ON_OWNER_LOST_TAKE_OVER',
    });
    const taken = await claimKey(key, owner, { wait: { seconds: 10 } });
    assert.equal(taken.disposition, 'TAKEN_OVER');
    assert.ok(BigInt(taken.fence) > BigInt(lost.fence), `${taken.fence} after ${lost.fence}`);
    await isRefused(completeKey(key, late, lost.fence), 'FENCED');
    const completed = await completeKey(key, owner, taken.fence);
    assert.equal(completed.state, 'KEY_STATE_SUCCEEDED');
  },

  async batch() {
    const [one, two, owner] = [randomUUID(), randomUUID(), newOwner()];
    const claims = [
      claimOf(one, owner), claimOf(two, owner), claimOf(one, newOwner()), claimOf('', owner),
    ];
    const { results: claimed } = await call(keys, 'ClaimKeys', { claims });
    const dispositions = claimed.slice(0, 3).map(({ response }) => response.disposition);
    assert.deepEqual(dispositions, ['CLAIMED', 'CLAIMED', 'IN_PROGRESS']);
    assert.equal(errorInfoOf(claimed[3].error.details).reason, 'KEY_INVALID');

    const [first, second] = claimed.map(({ response }) => response?.fence);
    const completions = [
      completionOf(one, owner, first),
      completionOf(two, owner, String(BigInt(second) + 1n)),
      completionOf(two, owner, second),
    ];
    const { results: completed } = await call(keys, 'CompleteKeys', { completions });
    assert.equal(completed[0].response.state, 'KEY_STATE_SUCCEEDED');
    assert.equal(errorInfoOf(completed[1].error.details).reason, 'FENCED');
    assert.equal(completed[2].response.state, 'KEY_STATE_SUCCEEDED');
  },

  async 'retry-token'() {
    const dependency = `bank-${randomUUID()}`;
    const ask = (kind, fields) => call(retries, 'AcquireRetryToken', {
      tenant: 'acme', dependency, request_id: randomBytes(16), attempt: 1, failure: { kind },
      ...fields,
    });
    const unknown = 'FAILURE_KIND_UNKNOWN_OUTCOME';
    const deposits = { reporter: randomBytes(16), seq: 1, requests: 100 };
    const granted = await ask(unknown, { repeatable: true, deposits });
    assert.equal(granted.verdict, 'RETRY_VERDICT_GRANTED');
    assert.deepEqual([granted.token.length, granted.deposits_counted], [16, true]);
    assert.equal((await ask(unknown)).verdict, 'RETRY_VERDICT_UNSAFE');
    const rejected = await ask('FAILURE_KIND_REJECTED', { repeatable: true });
    assert.equal(rejected.verdict, 'RETRY_VERDICT_NOT_RETRYABLE');
  },

  async 'breaker-watch'() {
    const breaker = { tenant: 'acme', dependency: `bank-${randomUUID()}` };
    const force = (override) => call(breakers, 'OverrideBreaker', {
      ...breaker, override, actor: 'tests', reason: 'their maintenance',
    });
    const request = { tenant: 'acme', dependencies: [breaker.dependency] };
    const stream = breakers.WatchBreakers(request, { deadline: Date.now() + 15_000 });
    const watched = stream[Symbol.asyncIterator]();
    const next = async () => (await watched.next()).value.breaker;
    assert.equal((await next()).condition, 'BREAKER_CONDITION_CLOSED');
    await force('BREAKER_OVERRIDE_FORCED_OPEN');
    const told = await next();
    assert.equal(told.condition, 'BREAKER_CONDITION_OPEN');
    assert.equal(told.override.kind, 'BREAKER_OVERRIDE_FORCED_OPEN');
    await force('BREAKER_OVERRIDE_RESET');
    assert.equal((await next()).condition, 'BREAKER_CONDITION_CLOSED');
    stream.on('error', () => {}); // That it was cancelled.
    stream.cancel();
  },

  async deadline() {
    const key = randomUUID();
    await claimKey(key, newOwner());
    const began = performance.now();
    const request = claimOf(key, newOwner(), { wait: { seconds: 20 } });
    await call(keys, 'ClaimKey', request, 1_000).then(
      ({ disposition }) => assert.equal(disposition, 'IN_PROGRESS'),
      ({ code }) => assert.equal(code, grpc.status.DEADLINE_EXCEEDED),
    );
    const tookMs = performance.now() - began;
    assert.ok(tookMs > 500 && tookMs < 5_000, `it took ${tookMs} ms`);
  },
};

const parts = {
  async 'hand-over-claim'({ key }) {
    const owner = newOwner();
    const { fence } = await claimKey(key, owner);
    return `fence=${fence} owner=${owner.toString('hex')}`;
  },

  async 'hand-over-complete'({ key, fence, owner }) {
    await completeKey(key, Buffer.from(owner, 'hex'), fence);
  },

  async 'hand-over-replay'({ key }) {
    const { response } = (await replayKey(key)).completion;
    const hex = (text) => Buffer.from(text).toString('hex');
    const metadata = response.metadata.map(({ name, value }) => hex(`${name}:${value}`)).join();
    const type = hex(response.content_type);
    return `status=${response.status} type=${type} metadata=${metadata} body=${hex(response.body)}`;
  },

  async 'lost-reply'({ key }) {
    assert.equal(errorInfo(await refusal(replayKey(key))).reason, 'KEY_UNKNOWN');
    console.log('ready');
    await event(process.stdin, 'data');
    process.stdin.destroy();
    assert.equal((await claimKey(key, newOwner())).resumed, true);
  },
};

async function passed(name, parameters) {
  try {
    const found = await { ...scenarios, ...parts }[name](parameters);
    console.log(`ok ${name} ${found ?? ''}`.trim());
    return true;
  } catch (error) {
    console.log(`FAILED ${name}: ${String(error).replaceAll(/\s+/g, ' ')}`);
    return false;
  }
}

async function main() {
  const names = option === '--scenario' ? [chosen] : Object.keys(scenarios);
  const parameters = Object.fromEntries(rest.map((parameter) => parameter.split(/=(.*)/s)));
  for (const name of names) {
    if (!await passed(name, parameters)) process.exitCode = 1;
  }
  for (const client of [keys, retries, breakers]) client.close();
}

main();
