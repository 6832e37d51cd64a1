import { Gathered } from '@stevedore/async';
import type { DeploymentMap, MappedFile } from '@stevedore/map';
import { LRUCache } from 'lru-cache';

/**
 * Caches the map's answers about keys: the place of a file for a minute, an unknown key for a
 * second, a removal for ever, because a key is never reused. All keys requested in one turn of the
 * event loop share one query.
 */

const QUESTIONS = { maxKeys: 500, maxCalls: 4 };
const MAX_CACHED = 100_000;
const FOUND_MS = 60_000;
const UNKNOWN_MS = 1_000;
/** The cache reads the clock, and sets a timer for that, once in this time: 3 µs less for a read. */
export const CLOCK_READ_MS = 100;

export type Answer = MappedFile | 'removed' | undefined;

export class MapCache {
  readonly #asking: Gathered<Buffer, Answer>;
  readonly #found = new LRUCache<string, { readonly answer: Answer }>({
    max: MAX_CACHED,
    ttlResolution: CLOCK_READ_MS,
  });

  constructor(map: Pick<DeploymentMap, 'find'>) {
    this.#asking = new Gathered((keys) => map.find(keys), QUESTIONS);
  }

  /** The cached answer. */
  known(key: Buffer): { readonly answer: Answer } | undefined {
    return this.#found.get(textOf(key));
  }

  /** Rejects with `MapError`. */
  async ask(key: Buffer): Promise<Answer> {
    return this.#note(key, await this.#asking.ask(key));
  }

  forget(key: Buffer): void {
    this.#found.delete(textOf(key));
  }

  /** Caches the removal. Returns where the file was, if that is known. */
  noteRemoved(key: Buffer): MappedFile | undefined {
    const text = textOf(key);
    const answer = this.#found.peek(text)?.answer;
    this.#found.set(text, { answer: 'removed' });
    return typeof answer === 'object' ? answer : undefined;
  }

  #note(key: Buffer, answer: Answer): Answer {
    const text = textOf(key);
    // A removal noted meanwhile is newer than this answer.
    if (this.#found.peek(text)?.answer === 'removed') return 'removed';
    const ttl = answer === undefined ? UNKNOWN_MS : FOUND_MS;
    this.#found.set(text, { answer }, answer === 'removed' ? {} : { ttl });
    return answer;
  }
}

export function textOf(key: Uint8Array): string {
  return Buffer.from(key.buffer, key.byteOffset, key.length).toString('base64url');
}
