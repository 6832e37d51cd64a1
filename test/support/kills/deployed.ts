import { createHash, randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { crc32 } from 'node:zlib';
import { onTestFinished } from 'vitest';
import type { Random } from '../random.js';
import { identityOf, storedTimes } from '../stored-twice.js';
import { Daemon } from './cluster.js';

/**
 * Several processes of the product under load while they are killed and stopped: uploads, reads and
 * deletions at any of their gateways, and a ledger of what was acknowledged.
 */

const REQUEST_TIMEOUT_MS = 15_000;
const RETRY_MS = 100;
const READS_AFTER_UPLOAD = 4;

export interface Kept {
  readonly key: string;
  readonly digest: string;
  readonly identity: string;
  state: 'there' | 'deleting' | 'deleted';
}

export interface Answer {
  readonly status: number;
  readonly body: Buffer;
}

/** By their names; they end with the test. */
export async function startDaemons(
  folder: string,
  commands: Readonly<Record<string, readonly string[]>>,
): Promise<Map<string, Daemon>> {
  const daemons = new Map(
    Object.entries(commands).map(([name, command]) => [name, new Daemon(folder, () => command)]),
  );
  onTestFinished(async () => {
    for (const daemon of daemons.values()) {
      daemon.signal('SIGCONT');
      await daemon.kill();
    }
  });
  for (const daemon of daemons.values()) {
    daemon.start();
    await daemon.ready();
  }
  return daemons;
}

/** Undefined if there is none, or not in time. */
export async function ask(url: string, init: RequestInit = {}): Promise<Answer | undefined> {
  try {
    const signal = AbortSignal.timeout(REQUEST_TIMEOUT_MS);
    const response = await fetch(url, { ...init, signal });
    return { status: response.status, body: Buffer.from(await response.arrayBuffer()) };
  } catch {
    return undefined;
  }
}

export const digestOf = (bytes: Uint8Array): string =>
  createHash('sha1').update(bytes).digest('hex');

export interface LoadOptions {
  readonly lanes: number;
  readonly maxBytes: number;
  /** Of the files, those of `largeBytes` to three times as many. */
  readonly largeShare: number;
  readonly largeBytes: number;
  readonly deleteShare: number;
}

export class DeployedLoad {
  readonly files: Kept[] = [];
  readonly findings: string[] = [];
  readonly counts = { uploads: 0, reads: 0, deletions: 0, readAfterDeletion: 0, refused: 0 };
  readonly #random: Random;
  readonly #urls: readonly string[];
  readonly #options: LoadOptions;
  readonly #lanes: Promise<unknown>;
  #isOver = false;

  /** Begins at once. */
  constructor(urls: readonly string[], random: Random, options: LoadOptions) {
    this.#urls = urls;
    this.#random = random;
    this.#options = options;
    this.#lanes = Promise.all(Array.from({ length: options.lanes }, () => this.#lane()));
  }

  /** Resolves when every request under way has ended. */
  async stop(): Promise<void> {
    this.#isOver = true;
    await this.#lanes;
  }

  /** What is wrong with the files at these gateways, each asked until it is right or late. */
  async compare(urls: readonly string[], limitMs: number): Promise<void> {
    const end = performance.now() + limitMs;
    const rest = this.files.values();
    const lane = async (): Promise<void> => {
      for (const file of rest) for (const url of urls) await this.#compareOne(file, url, end);
    };
    await Promise.all(Array.from({ length: 2 * this.#options.lanes }, lane));
  }

  /**
   * Living files that are in several trunks of one store path. A trunk whose confirmation was lost is
   * found and deleted in time, and so is one that was emptied.
   */
  async storedTwice(storePaths: readonly string[], limitMs: number): Promise<readonly string[]> {
    const end = performance.now() + limitMs;
    const living = this.files.filter(({ state }) => state === 'there');
    for (;;) {
      const twice = storePaths.flatMap((path) => {
        const times = storedTimes(path);
        return living.filter(({ identity }) => (times.get(identity) ?? 0) > 1);
      });
      if (twice.length === 0 || performance.now() > end) return twice.map(({ key }) => key);
      await sleep(10 * RETRY_MS);
    }
  }

  async #lane(): Promise<void> {
    const { deleteShare } = this.#options;
    while (!this.#isOver) {
      if (!(await this.#upload())) await sleep(RETRY_MS / 2);
      for (let turn = 0; turn < READS_AFTER_UPLOAD; turn += 1) await this.#read();
      if (this.#random.next() < deleteShare) await this.#delete();
    }
  }

  async #upload(): Promise<boolean> {
    const { maxBytes, largeBytes, largeShare } = this.#options;
    const isLarge = this.#random.next() < largeShare;
    const content = randomBytes(
      isLarge ? largeBytes + this.#random.below(2 * largeBytes) : 1 + this.#random.below(maxBytes),
    );
    const made = await ask(`${this.#anyUrl()}/files`, { method: 'POST', body: content });
    if (made?.status !== 201) return false;
    const { key } = JSON.parse(made.body.toString()) as { key: string };
    const identity = identityOf(crc32(content), content.length);
    this.files.push({ key, digest: digestOf(content), identity, state: 'there' });
    this.counts.uploads += 1;
    return true;
  }

  async #read(): Promise<void> {
    const file = this.#anyFile();
    if (!file || file.state === 'deleting') return;
    const { state } = file;
    const url = this.#anyUrl();
    const answer = await ask(`${url}/files/${file.key}`);
    if (answer?.status === 200) {
      if (digestOf(answer.body) !== file.digest) this.findings.push(`${file.key}: other bytes`);
      if (state === 'deleted') this.counts.readAfterDeletion += 1;
      else this.counts.reads += 1;
    } else if (state === 'there') {
      this.counts.refused += 1;
      if (answer?.status === 404 && file.state === 'there') {
        this.findings.push(`${file.key}: 404 at ${url}`);
      }
    }
  }

  async #delete(): Promise<void> {
    const file = this.#anyFile();
    if (file?.state !== 'there') return;
    file.state = 'deleting';
    const answer = await ask(`${this.#anyUrl()}/files/${file.key}`, { method: 'DELETE' });
    if (answer?.status !== 204) return;
    file.state = 'deleted';
    this.counts.deletions += 1;
  }

  async #compareOne({ key, digest, state }: Kept, url: string, end: number): Promise<void> {
    for (;;) {
      const answer = await ask(`${url}/files/${key}`);
      const isThere = answer?.status === 200 && digestOf(answer.body) === digest;
      const isGone = answer?.status === 404;
      if (state === 'there' ? isThere : isGone || (isThere && state === 'deleting')) return;
      if (performance.now() > end) {
        this.findings.push(`${key}, ${state}: ${answer?.status} at ${url} in the end`);
        return;
      }
      await sleep(RETRY_MS);
    }
  }

  #anyFile(): Kept | undefined {
    return this.files[this.#random.below(Math.max(1, this.files.length))];
  }

  #anyUrl(): string {
    return this.#random.pick(this.#urls);
  }
}

/** Stops one for a while, or kills it and starts it again. */
export async function trouble(
  target: {
    signal(signal: 'SIGSTOP' | 'SIGCONT'): void;
    kill(): Promise<void>;
    restart(): Promise<void>;
  },
  random: Random,
  share: { readonly stops: number; readonly maxMs: number },
): Promise<void> {
  const ms = share.maxMs / 5 + random.below(share.maxMs);
  if (random.next() < share.stops) {
    target.signal('SIGSTOP');
    await sleep(ms);
    target.signal('SIGCONT');
  } else {
    await target.kill();
    await sleep(ms / 2);
    await target.restart();
  }
}
