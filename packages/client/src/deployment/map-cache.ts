import type { DeploymentMap, MappedFile } from '@stevedore/map';
import { LRUCache } from 'lru-cache';

/**
 * Caches the map's answers about keys: the place of a file for a minute, an unknown key for a
 * second, a removal for ever, because a key is never reused. All keys requested in one turn of the
 * event loop share one query.
 */

const MAX_KEYS_PER_QUESTION = 500;
const MAX_CACHED = 100_000;
const FOUND_MS = 60_000;
const UNKNOWN_MS = 1_000;

export type Answer = MappedFile | 'removed' | undefined;

interface PendingLookup {
  readonly key: Buffer;
  readonly resolve: (answer: Answer) => void;
  readonly reject: (error: unknown) => void;
}

export class MapCache {
  readonly #map: Pick<DeploymentMap, 'find'>;
  readonly #found = new LRUCache<string, { readonly answer: Answer }>({ max: MAX_CACHED });
  readonly #questions: PendingLookup[] = [];

  constructor(map: Pick<DeploymentMap, 'find'>) {
    this.#map = map;
  }

  /** The cached answer. */
  known(key: Buffer): { readonly answer: Answer } | undefined {
    return this.#found.get(textOf(key));
  }

  /** Rejects with `MapError`. */
  ask(key: Buffer): Promise<Answer> {
    return new Promise((resolve, reject) => {
      this.#questions.push({ key, resolve, reject });
      if (this.#questions.length === 1) setImmediate(() => this.#flush());
    });
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

  #flush(): void {
    while (this.#questions.length > 0) {
      const asked = this.#questions.splice(0, MAX_KEYS_PER_QUESTION);
      this.#map.find(asked.map(({ key }) => key)).then(
        (answers) => {
          for (const [index, { key, resolve }] of asked.entries()) {
            resolve(this.#note(key, answers[index]));
          }
        },
        (error) => {
          for (const { reject } of asked) reject(error);
        },
      );
    }
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
  return Buffer.from(key).toString('base64url');
}
