import type { IncomingMessage } from 'node:http';
import { Readable } from 'node:stream';
import { defaultBodyLimits, Form, ProgressGuard, RequestBody } from '@stevedore/middleware/core';
import { expect, test } from 'vitest';

/**
 * Damaged forms by the ten thousand, straight into the parser: each one ends, with
 * files or with a problem that has a name, and nothing is thrown past it.
 * STEVEDORE_TEST_FORMS says how many, STEVEDORE_TEST_SEED where to begin.
 */

const COUNT = Number(process.env.STEVEDORE_TEST_FORMS ?? 20_000);
const SEED = Number(process.env.STEVEDORE_TEST_SEED ?? 1);
const BOUNDARY = 'xxBOUNDARYxx';
const GROWN = [
  '\r\n',
  '\r',
  '\n',
  '--',
  `--${BOUNDARY}`,
  `\r\n--${BOUNDARY}`,
  `--${BOUNDARY}--`,
].concat(
  [
    '"',
    ';',
    ':',
    '\0',
    '\t ',
    '%',
    '\\',
    'filename*=',
    'Content-Disposition: form-data',
    '\xff\xfe',
  ],
  [
    'Content-Transfer-Encoding: base64\r\n',
    'Content-Type: multipart/mixed; boundary=x\r\n',
    '\r\n\r\n',
  ],
);

const FORMS = [
  `--${BOUNDARY}\r\nContent-Disposition: form-data; name="group"\r\n\r\ng\r\n` +
    `--${BOUNDARY}\r\nContent-Disposition: form-data; name="f"; filename="a"\r\nContent-Type: text/plain\r\n\r\none\r\n--${BOUNDARY}--\r\n`,
  `preamble\r\n--${BOUNDARY}\r\ncontent-disposition: form-data; name=f; filename*=UTF-8''%C3%A4\r\n\r\n\r\n--${BOUNDARY}--`,
  `--${BOUNDARY}\r\nContent-Disposition: form-data; name="f"; filename="b"\r\nX: y\r\nX: z\r\n\r\n${`--${BOUNDARY.slice(0, -1)}\r\n`.repeat(3)}\r\n--${BOUNDARY}--\r\nepilogue`,
].map((text) => Buffer.from(text, 'latin1'));

type Random = (below: number) => number;

function randomFrom(seed: number): Random {
  let state = Math.imul(seed, 0x9e37_79b1) >>> 0;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

function mutate(form: Buffer, random: Random): Buffer {
  let bytes = Buffer.from(form);
  for (let count = 1 + random(3); count > 0 && bytes.length > 0; count -= 1) {
    const at = random(bytes.length);
    const to = Math.min(bytes.length, at + random(40));
    switch (random(6)) {
      case 0:
        bytes[at] = random(256);
        break;
      case 1:
        bytes = bytes.subarray(0, at);
        break;
      case 2:
        bytes = Buffer.concat([bytes.subarray(0, at), bytes.subarray(to)]);
        break;
      case 3:
        bytes = Buffer.concat([bytes.subarray(0, to), bytes.subarray(at)]);
        break;
      default: {
        const grown = Buffer.from(GROWN[random(GROWN.length)] ?? '', 'latin1');
        bytes = Buffer.concat([bytes.subarray(0, at), grown, bytes.subarray(at)]);
      }
    }
  }
  return bytes;
}

/** A request as far as a body needs one, its bytes in pieces. */
function requestOf(bytes: Buffer, random: Random): IncomingMessage {
  const request = new Readable({ read() {} });
  Object.assign(request, { socket: { bytesRead: 0 } });
  for (let at = 0; at < bytes.length; ) {
    const to = at + 1 + random(random(2) === 0 ? 4 : bytes.length);
    request.push(bytes.subarray(at, to));
    at = to;
  }
  request.push(null);
  return request as IncomingMessage;
}

const guard = new ProgressGuard(defaultBodyLimits);

async function outcome(bytes: Buffer, random: Random): Promise<string> {
  const body = new RequestBody(requestOf(bytes, random), 2 ** 20, guard);
  const form = new Form(body, BOUNDARY, defaultBodyLimits);
  try {
    let taken = 0;
    for await (const { body: content } of form.files()) {
      for await (const chunk of content as AsyncIterable<Buffer>) taken += chunk.length;
    }
    if (taken > bytes.length) throw new Error('more came out than went in');
    return 'taken';
  } catch (error) {
    if (!body.failure) throw error;
    return body.failure.code;
  } finally {
    body.release();
  }
}

test(`${COUNT} damaged forms each end with files or a problem`, { timeout: 580_000 }, async () => {
  const outcomes = new Map<string, number>();
  const thrown: unknown[] = [];
  const onThrown = (error: unknown): void => {
    thrown.push(error);
  };
  process.on('uncaughtException', onThrown);
  let seed = SEED;
  let stuck: string | undefined;
  let last = seed;
  const watch = setInterval(() => {
    if (seed === last) stuck = `seed ${seed} does not end`;
    last = seed;
  }, 20_000);
  try {
    for (; seed < SEED + COUNT; seed += 1) {
      const random = randomFrom(seed);
      const bytes = mutate(FORMS[random(FORMS.length)]!, random);
      const result = await Promise.race([outcome(bytes, random), whenStuck(() => stuck)]);
      outcomes.set(result, (outcomes.get(result) ?? 0) + 1);
      if (thrown.length > 0) throw new Error(`seed ${seed} threw ${String(thrown[0])}`);
    }
  } finally {
    process.off('uncaughtException', onThrown);
    clearInterval(watch);
    clearInterval(whenStuckTimer);
    guard.close();
  }
  const known = ['taken', 'malformed_multipart', 'no_file', 'part_headers_too_large'];
  expect([...outcomes.keys()].filter((code) => !known.includes(code))).toEqual([]);
  expect(outcomes.get('taken')).toBeGreaterThan(COUNT / 20);
  expect(outcomes.get('malformed_multipart')).toBeGreaterThan(COUNT / 20);
});

let stuckPromise: Promise<never> | undefined;
let whenStuckTimer: NodeJS.Timeout | undefined;

/** Rejects once there is a reason; one promise for all forms. */
function whenStuck(reason: () => string | undefined): Promise<never> {
  stuckPromise ??= new Promise((_, reject) => {
    whenStuckTimer = setInterval(() => {
      const text = reason();
      if (text !== undefined) reject(new Error(text));
    }, 1000);
  });
  return stuckPromise;
}
