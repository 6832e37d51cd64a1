import { join } from 'node:path';
import type { Gateway } from '@stevedore/gateway';
import { expect, test } from 'vitest';
import { writeKeyFile } from '../../../gateway/dist/access/api-keys.js';
import { newKey } from '../../support/gateway/guarded.js';
import { offsetOf, started, tus } from '../../support/gateway/tus.js';
import { Random } from '../../support/random.js';
import { temporaryFolder } from '../../support/temporary.js';

/**
 * Clients of one key that upload in every way at once, announce what they like, and leave in the
 * middle: what is stored never exceeds the bytes of the day, and in the end the rest is free.
 */

const QUOTA_BYTES = 3_000_000;
const CLIENTS = 6;
const STEPS = 25;
const MAX_BYTES = 300_000;

type Headers = Record<string, string>;

class Client {
  readonly #url: string;
  readonly #random: Random;
  readonly #key: Headers;
  #uploads: string[] = [];
  #parts: string[] = [];

  constructor(gateway: Gateway, random: Random, key: Headers) {
    this.#url = gateway.url;
    this.#random = random;
    this.#key = key;
  }

  async step(): Promise<void> {
    const actions = [
      [3, () => this.#raw()],
      [2, () => this.#form()],
      [3, () => this.#begin()],
      [1, () => this.#beginWithBytes()],
      [6, () => this.#patch()],
      [2, () => this.#join()],
      [2, () => this.#remove()],
    ] as const;
    await this.#random.pickByWeight(actions)[1]();
  }

  /** Removes what it did not finish. */
  async end(): Promise<void> {
    for (const upload of [...this.#uploads, ...this.#parts]) {
      await tus(upload, 'DELETE', this.#key);
    }
  }

  /** Resolves with the status; undefined if this client left. */
  async #send(path: string, method: string, headers: Headers, bytes: number) {
    const leaves = this.#random.below(4) === 0;
    const cut = new AbortController();
    let left = bytes;
    const body = new ReadableStream<Uint8Array>({
      pull: (controller) => {
        const piece = Math.min(left, 40_000);
        if (leaves && left <= bytes / 2) return void cut.abort();
        if (piece > 0) controller.enqueue(new Uint8Array(piece));
        left -= piece;
        if (left === 0) controller.close();
      },
    });
    const isKnown = !leaves && this.#random.below(2) === 0;
    const init = {
      method,
      headers: { ...this.#key, ...headers },
      signal: cut.signal,
      ...(isKnown ? { body: Buffer.alloc(bytes) } : { body, duplex: 'half' }),
    };
    const response = await fetch(new URL(path, this.#url), init as RequestInit).catch(
      () => undefined,
    );
    await response?.text().catch(() => undefined);
    return response?.status;
  }

  async #raw(): Promise<void> {
    const wrong = this.#random.below(4) === 0 ? { 'content-md5': `${'A'.repeat(22)}==` } : {};
    await this.#send('/files', 'POST', wrong as Headers, this.#random.below(MAX_BYTES));
  }

  async #form(): Promise<void> {
    const form = new FormData();
    for (let file = this.#random.below(3); file >= 0; file -= 1) {
      form.append('f', new Blob([Buffer.alloc(this.#random.below(MAX_BYTES / 3))]), 'a.bin');
    }
    const init = { method: 'POST', headers: this.#key, body: form };
    await (await fetch(`${this.#url}/files`, init)).text();
  }

  async #begin(): Promise<void> {
    const isPart = this.#random.below(2) === 0;
    const size = this.#random.below(MAX_BYTES);
    const isDeferred = !isPart && this.#random.below(3) === 0;
    const answer = await tus(`${this.#url}/uploads`, 'POST', {
      ...(isDeferred ? { 'upload-defer-length': '1' } : { 'upload-length': `${size}` }),
      ...(isPart ? { 'upload-concat': 'partial' } : {}),
      ...this.#key,
    });
    if (answer.status !== 201) return;
    (isPart ? this.#parts : this.#uploads).push(this.#url + answer.headers.get('location'));
  }

  /** Forgets the upload, which others of this client's may be too. */
  async #beginWithBytes(): Promise<void> {
    const bytes = this.#random.below(MAX_BYTES);
    const headers = { 'tus-resumable': '1.0.0', 'upload-length': `${bytes}` };
    const type = { 'content-type': 'application/offset+octet-stream' };
    await this.#send('/uploads', 'POST', { ...headers, ...type }, bytes);
  }

  async #patch(): Promise<void> {
    const known = [...this.#uploads, ...this.#parts];
    if (known.length === 0) return this.#begin();
    const upload = this.#random.pick(known);
    const state = await tus(upload, 'HEAD', this.#key);
    if (state.status !== 200) return this.#forget(upload);
    const size = state.headers.get('upload-length');
    const left = size === null ? MAX_BYTES : Number(size) - offsetOf(state);
    await this.#send(
      new URL(upload).pathname,
      'PATCH',
      {
        'tus-resumable': '1.0.0',
        'upload-offset': `${offsetOf(state)}`,
        'content-type': 'application/offset+octet-stream',
      },
      this.#random.below(3) === 0 ? this.#random.below(left + 1) : left,
    );
  }

  async #join(): Promise<void> {
    if (this.#parts.length === 0) return;
    const named = Array.from({ length: 1 + this.#random.below(4) }, () =>
      this.#random.pick(this.#parts),
    );
    const final = `final;${named.join(' ')}`;
    await tus(`${this.#url}/uploads`, 'POST', { 'upload-concat': final, ...this.#key });
  }

  async #remove(): Promise<void> {
    const known = [...this.#uploads, ...this.#parts];
    if (known.length === 0) return;
    const upload = this.#random.pick(known);
    await tus(upload, 'DELETE', this.#key);
    this.#forget(upload);
  }

  #forget(upload: string): void {
    this.#uploads = this.#uploads.filter((each) => each !== upload);
    this.#parts = this.#parts.filter((each) => each !== upload);
  }
}

test.each([1, 2, 3])(
  'no mix of uploads exceeds a quota, or leaks of it: seed %i',
  async (seed) => {
    const apiKeys = join(temporaryFolder(), 'keys.json');
    const { key, text } = newKey({
      createdAt: new Date().toISOString(),
      bytesPerDay: QUOTA_BYTES,
      scopes: ['write', 'admin'],
    });
    await writeKeyFile(apiKeys, [key]);
    const gateway = await started({ apiKeys });
    const headers = { authorization: `Bearer ${text}` };
    const { store } = gateway;
    const stored = () => store.stats().acknowledgedBytes + store.stats().unfinishedBytes;
    const random = new Random(seed);
    const clients = Array.from(
      { length: CLIENTS },
      () => new Client(gateway, new Random(random.below(2 ** 31)), headers),
    );
    await Promise.all(
      clients.map(async (client) => {
        for (let step = 0; step < STEPS; step += 1) {
          await client.step();
          expect(store.stats().acknowledgedBytes).toBeLessThanOrEqual(QUOTA_BYTES);
        }
      }),
    );
    expect(stored()).toBeLessThanOrEqual(QUOTA_BYTES);
    for (const client of clients) await client.end();
    // Requests that their clients left end by themselves.
    await expect.poll(() => store.stats().unfinishedUploads).toBe(0);
    const access = async () => {
      const response = await fetch(`${gateway.url}/console/access`, { headers });
      return ((await response.json()) as { keys: { bytesToday: number }[] }).keys[0]!.bytesToday;
    };
    await expect.poll(access).toBe(store.stats().acknowledgedBytes);
    const rest = QUOTA_BYTES - store.stats().acknowledgedBytes;
    const post = async (bytes: number) => {
      const init = { method: 'POST', headers, body: Buffer.alloc(bytes) };
      return (await fetch(`${gateway.url}/files`, init)).status;
    };
    if (rest > 0) await expect.poll(() => post(rest)).toBe(201);
    expect(await post(1)).toBe(429);
    expect(store.stats().acknowledgedBytes).toBe(QUOTA_BYTES);
  },
  120_000,
);
