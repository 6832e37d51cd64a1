import { EventEmitter } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { parentPort, workerData } from 'node:worker_threads';
import {
  defaultTransferLimits,
  Form,
  ProgressGuard,
  RequestBody,
} from '@stevedore/middleware/core';

/**
 * Damages forms and takes them apart, straight into the parser and without a socket,
 * each by the number of its seed. Tells its parent how far it is, and at the end how
 * many ended how; a form that throws past the parser ends the thread with its seed.
 */

/** What a thread is given. */
export interface FuzzTask {
  readonly firstSeed: number;
  readonly count: number;
}

/** What it tells, time and again and at its end. */
export interface FuzzReport {
  readonly done: number;
  /** How often each outcome came, once all are done. */
  readonly outcomes?: Readonly<Record<string, number>>;
}

const REPORT_EVERY = 1000;
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

/** A request as far as a body needs one: its bytes in pieces, some of which come late. */
class Pieces extends EventEmitter {
  readonly socket = { bytesRead: 0 };
  readonly complete = true;
  readonly readableLength = 1;
  readonly #bytes: Buffer;
  readonly #random: Random;
  readonly #longest: number;
  #at = 0;
  #isLate = false;

  constructor(bytes: Buffer, random: Random) {
    super();
    this.#bytes = bytes;
    this.#random = random;
    // One form in eight comes in crumbs, so that every boundary is cut at every place.
    this.#longest = random(8) === 0 ? 4 : Math.max(1, bytes.length);
  }

  read(): Buffer | null {
    const bytes = this.#bytes;
    if (this.#at === bytes.length) {
      process.nextTick(() => this.emit('end'));
      return null;
    }
    this.#isLate = !this.#isLate && this.#random(4) === 0;
    if (this.#isLate) {
      process.nextTick(() => this.emit('readable'));
      return null;
    }
    const from = this.#at;
    this.#at = Math.min(bytes.length, from + 1 + this.#random(this.#longest));
    return bytes.subarray(from, this.#at);
  }
}

async function outcome(bytes: Buffer, random: Random, guard: ProgressGuard): Promise<string> {
  const request = new Pieces(bytes, random) as unknown as IncomingMessage;
  const body = new RequestBody(request, { limitBytes: 2 ** 20, guard });
  const form = new Form(body, BOUNDARY, defaultTransferLimits);
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

async function fuzz({ firstSeed, count }: FuzzTask, tell: (report: FuzzReport) => void) {
  const guard = new ProgressGuard(defaultTransferLimits);
  const outcomes: Record<string, number> = {};
  let seed = firstSeed;
  process.on('uncaughtException', (error) => {
    throw new Error(`seed ${seed} threw past the parser: ${String(error)}`);
  });
  for (; seed < firstSeed + count; seed++) {
    const random = randomFrom(seed);
    const bytes = mutate(FORMS[random(FORMS.length)]!, random);
    try {
      const result = await outcome(bytes, random, guard);
      outcomes[result] = (outcomes[result] ?? 0) + 1;
    } catch (error) {
      throw new Error(`seed ${seed} threw ${String(error)}`);
    }
    const done = seed - firstSeed + 1;
    if (done % REPORT_EVERY === 0) tell({ done });
  }
  guard.close();
  tell({ done: count, outcomes });
}

if (parentPort) {
  const port = parentPort;
  // Most forms end with a problem, and the stack of one costs a quarter of a form.
  Error.stackTraceLimit = 0;
  await fuzz(workerData as FuzzTask, (report) => port.postMessage(report));
}
