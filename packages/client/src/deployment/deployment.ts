import {
  type DeploymentMap,
  type Gateway,
  type Joined,
  type Joining,
  MapError,
  type MappedFile,
  originOf,
  type PlacedFile,
  type Removal,
  type RemovedFile,
} from '@stevedore/map';
import { aboutOf, type Outbox, type OutboxEntry } from '@stevedore/staging';
import { LRUCache } from 'lru-cache';

/**
 * This server's part in a deployment. It publishes what it merges and deletes to the map, in
 * order and off the way of uploads; finds keys of other servers there; makes the deletions
 * that others have asked for; and hears of every deletion, so that no cache keeps what is
 * gone. While the map does not answer, all of that waits, and files are staged, merged and
 * read by their own server as ever.
 */

export interface DeploymentParts {
  readonly map: DeploymentMap;
  readonly joining: Joining & { readonly origin: number };
  readonly outbox: Outbox;
  /** Deletes a file of this server; false if there is none. */
  readonly deleteHere: (key: Buffer) => Promise<boolean>;
  /** A file is gone: caches drop it. `file` is where its bytes were, if that is known. */
  readonly forget: (key: Buffer, file: MappedFile | undefined) => void;
  readonly report: (error: Error) => void;
  readonly now: () => number;
}

export interface DeploymentStats {
  /** Trunks and deletions that the map has not been told. */
  readonly pending: number;
  /** False while the map does not answer. */
  readonly isMapAvailable: boolean;
}

/** How often the map is asked for deletions: they are gone everywhere within a second. */
const LOOK_INTERVAL_MS = 400;
const MAX_BACKOFF_MS = 10_000;
/** A removal can show up after later ones: so far back is asked again. */
const OVERLAP_MS = 1_000;
/** And now and then as far as a statement may take. */
const LATEST_COMMIT_MS = 15_000;
const THOROUGH_INTERVAL_MS = 5_000;
const NO_KEY = new Uint8Array(0);
const SEEN_INTERVAL_MS = 10_000;
const PRUNE_INTERVAL_MS = 3_600_000;
/** Settled removals are kept for caches of gateways that could not ask meanwhile. */
const KEEP_REMOVALS_MS = 24 * 3_600_000;
const MAX_REMOVALS = 5_000;
const MAX_ENTRIES = 5_000;
/** Of publishing in one round: deletions are heard and made in between. */
const PUBLISH_MS = 200;
const MAX_DELETIONS = 500;
/** A trunk has as many files as fit; the map takes them in statements of so many. */
const MAX_FILES = 5_000;
const MAX_KEYS_PER_QUESTION = 500;
const MAX_CACHED = 100_000;
const FOUND_MS = 60_000;
const UNKNOWN_MS = 1_000;
const GATEWAYS_MS = 5_000;

type Answer = MappedFile | 'removed' | undefined;

interface Question {
  readonly key: Buffer;
  readonly resolve: (answer: Answer) => void;
  readonly reject: (error: unknown) => void;
}

export class Deployment {
  readonly #parts: DeploymentParts;
  readonly #found = new LRUCache<string, { readonly answer: Answer }>({ max: MAX_CACHED });
  readonly #questions: Question[] = [];
  /** Removals that caches have dropped already, by key, with their time. */
  readonly #heard = new Map<string, number>();
  #joining: Promise<Joined> | undefined;
  #secret: string | undefined;
  #gateways: { readonly at: number; readonly list: readonly Gateway[] } = { at: 0, list: [] };
  #heardUpTo: number | undefined;
  #heardAllAt = Number.NEGATIVE_INFINITY;
  #seenAt = Number.NEGATIVE_INFINITY;
  #prunedAt = performance.now();
  /** Rounds that failed one after the other. */
  #failures = 0;
  /** What was reported last, so that it is not reported each round. */
  #reported: string | undefined;
  #timer: NodeJS.Timeout | undefined;
  #round: Promise<void> = Promise.resolve();
  #isClosed = false;

  constructor(parts: DeploymentParts) {
    this.#parts = parts;
  }

  /**
   * Enters this server, unless the map does not answer: that is tried again. Rejects with
   * `origin_taken` and `map_schema`.
   */
  async start(): Promise<void> {
    try {
      await this.#joined();
    } catch (error) {
      if (!(error instanceof MapError) || !error.retryable) throw error;
      this.#fail(error);
    }
    this.#next(0);
  }

  get origin(): number {
    return this.#parts.joining.origin;
  }

  /** Shared by the servers of the deployment; undefined before the map has answered once. */
  get secret(): string | undefined {
    return this.#secret;
  }

  /** Where a key of another server is; rejects with `MapError`. */
  find(key: Buffer): Promise<Answer> {
    const known = this.#found.get(textOf(key));
    if (known) return Promise.resolve(known.answer);
    // The rounds try again; who asks meanwhile does not wait for a map that is away.
    if (this.#failures > 0) return Promise.reject(away());
    return new Promise((resolve, reject) => {
      this.#questions.push({ key, resolve, reject });
      // All that are asked in one turn of the event loop are one question.
      if (this.#questions.length === 1) setImmediate(() => this.#ask());
    });
  }

  /** Has the next `find` ask the map: what it said is not true any more. */
  forget(key: Buffer): void {
    this.#found.delete(textOf(key));
  }

  /** Deletes a merged file of another server, durably; its own server frees the bytes. */
  async remove(key: Buffer): Promise<void> {
    if (this.#failures > 0) throw away();
    await this.#joined();
    await this.#parts.map.remove([{ key }], false);
    this.noteRemoved(key);
  }

  /** The server that gave out this key, as the map lists it; undefined: none has its origin. */
  async gatewayOf(key: Buffer): Promise<Gateway | undefined> {
    const origin = originOf(key);
    const known = this.#gateways.list.find((each) => each.origin === origin);
    const isFresh = performance.now() - this.#gateways.at <= GATEWAYS_MS;
    // What the map said last is better than nothing; that it said nothing is no answer.
    if (known && (isFresh || this.#failures > 0)) return known;
    if (this.#failures > 0) throw away();
    try {
      await this.#joined();
      const list = await this.#parts.map.gateways();
      this.#gateways = { at: performance.now(), list };
      return list.find((each) => each.origin === origin);
    } catch (error) {
      if (known) return known;
      throw error;
    }
  }

  /** The servers of the deployment. Rejects with MapError. */
  async gateways(): Promise<readonly Gateway[]> {
    if (this.#failures > 0 && this.#gateways.list.length > 0) return this.#gateways.list;
    await this.#joined();
    return this.#parts.map.gateways();
  }

  stats(): DeploymentStats {
    return { pending: this.#parts.outbox.pending, isMapAvailable: this.#failures === 0 };
  }

  /** Publishes some of what there is, if the map answers, and ends. */
  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    await this.#round;
    const { map, joining } = this.#parts;
    try {
      // A server that was refused has no part in the deployment, and nothing to say in it.
      if (this.#secret !== undefined && this.#failures === 0) {
        await this.#publish();
        await map.leave(this.origin, joining.place);
      }
    } catch {
      // The outbox keeps it for the next start.
    }
    await map.close();
  }

  #joined(): Promise<Joined> {
    if (this.#joining) return this.#joining;
    const joining = this.#parts.map.join(this.#parts.joining);
    this.#joining = joining;
    joining.then(
      ({ secret }) => {
        this.#secret = secret;
      },
      () => {
        this.#joining = undefined;
      },
    );
    return joining;
  }

  #next(delayMs: number): void {
    if (this.#isClosed) return;
    this.#timer = setTimeout(() => {
      this.#round = this.#look();
    }, delayMs);
    this.#timer.unref();
  }

  async #look(): Promise<void> {
    let hasMore = false;
    try {
      await this.#joined();
      await this.#keepUp();
      await this.#hear();
      await this.#deleteForOthers();
      hasMore = await this.#publish();
    } catch (error) {
      this.#fail(error as Error);
      this.#next(Math.min(LOOK_INTERVAL_MS * 2 ** this.#failures, MAX_BACKOFF_MS));
      return;
    }
    this.#failures = 0;
    this.#reported = undefined;
    this.#next(hasMore ? 0 : LOOK_INTERVAL_MS);
  }

  /** A map that is away is reported once; what else goes wrong is not hidden behind it. */
  #fail(error: Error): void {
    this.#failures += 1;
    const what = error instanceof MapError ? error.code : error.message;
    if (what !== this.#reported) this.#parts.report(error);
    this.#reported = what;
  }

  /** Tells the map what waits, in order, for a while; true if there is more. */
  async #publish(): Promise<boolean> {
    const { outbox } = this.#parts;
    const end = performance.now() + PUBLISH_MS;
    for (;;) {
      const entries = outbox.read(MAX_ENTRIES);
      if (entries.length === 0) return false;
      for (let at = 0; at < entries.length; ) {
        const { id, count } = await this.#publishSome(entries, at);
        outbox.forget(id);
        at += count;
        if (performance.now() > end) return true;
      }
    }
  }

  /** Publishes the deletions that follow each other, or one trunk; up to which entry. */
  async #publishSome(
    entries: readonly OutboxEntry[],
    at: number,
  ): Promise<{ readonly id: number; readonly count: number }> {
    const { map } = this.#parts;
    const first = entries[at]!;
    if (first.what === 'trunk') {
      const { taskId, state, fileId } = first.trunk;
      if (state === 'retired') await map.retire(taskId);
      if (state === 'confirmed') {
        const placed = first.files().map(placedOf);
        for (let from = 0; from < placed.length || from === 0; from += MAX_FILES) {
          await map.place({ id: taskId, fileId: fileId! }, placed.slice(from, from + MAX_FILES));
        }
      }
      return { id: first.id, count: 1 };
    }
    const removed: RemovedFile[] = [];
    let last = first.id;
    for (const entry of entries.slice(at)) {
      if (entry.what !== 'deletion') break;
      removed.push({ key: entry.key, trunk: entry.taskId });
      last = entry.id;
    }
    await map.remove(removed, true);
    return { id: last, count: removed.length };
  }

  /** Deletes here what other servers were asked to delete. */
  async #deleteForOthers(): Promise<void> {
    const { map, deleteHere } = this.#parts;
    const keys = await map.removalsFor(this.origin, MAX_DELETIONS);
    // While the FileMap is made anew, or the disk is full, some cannot be deleted yet.
    const settled = await Promise.allSettled(keys.map((key) => deleteHere(Buffer.from(key))));
    const deleted = keys.filter((_, index) => settled[index]!.status === 'fulfilled');
    if (deleted.length > 0)
      await map.remove(
        deleted.map((key) => ({ key })),
        true,
      );
  }

  /** Drops from the caches what others have deleted. */
  async #hear(): Promise<void> {
    const { map } = this.#parts;
    const from = this.#heardUpTo ?? (await map.now());
    const isThorough = performance.now() - this.#heardAllAt >= THOROUGH_INTERVAL_MS;
    const overlapMs = isThorough ? LATEST_COMMIT_MS : OVERLAP_MS;
    let last: Removal = { key: NO_KEY, removedAt: from - overlapMs };
    for (;;) {
      const removals = await map.removalsAfter(last, MAX_REMOVALS);
      for (const removal of removals) {
        last = removal;
        const text = textOf(removal.key);
        if (this.#heard.has(text)) continue;
        this.#heard.set(text, removal.removedAt);
        this.noteRemoved(Buffer.from(removal.key));
      }
      if (removals.length < MAX_REMOVALS) break;
    }
    this.#heardUpTo = Math.max(from, last.removedAt);
    if (!isThorough) return;
    this.#heardAllAt = performance.now();
    for (const [text, at] of this.#heard) {
      if (at < this.#heardUpTo - LATEST_COMMIT_MS) this.#heard.delete(text);
    }
  }

  async #keepUp(): Promise<void> {
    const { map, joining } = this.#parts;
    const now = performance.now();
    if (now - this.#seenAt >= SEEN_INTERVAL_MS) {
      if (!(await map.seen(this.origin, joining.place))) {
        throw new MapError(
          'origin_taken',
          `origin ${this.origin} is used at another place: this directory was copied or moved; stop one of the two servers`,
        );
      }
      this.#seenAt = now;
    }
    if (now - this.#prunedAt >= PRUNE_INTERVAL_MS) {
      await map.prune((await map.now()) - KEEP_REMOVALS_MS);
      this.#prunedAt = now;
    }
  }

  /** The file is gone: no cache of this server has it any more. */
  noteRemoved(key: Buffer): void {
    const text = textOf(key);
    const answer = this.#found.peek(text)?.answer;
    // A key is never used again, so this is true for ever.
    this.#found.set(text, { answer: 'removed' });
    this.#parts.forget(key, typeof answer === 'object' ? answer : undefined);
  }

  #ask(): void {
    while (this.#questions.length > 0) {
      const asked = this.#questions.splice(0, MAX_KEYS_PER_QUESTION);
      const answered = this.#joined().then(() => this.#parts.map.find(asked.map(({ key }) => key)));
      answered.then(
        (answers) => {
          for (const [index, { key, resolve }] of asked.entries()) {
            const answer = answers[index];
            const text = textOf(key);
            // A removal that was heard meanwhile is younger than this answer.
            const isGone = this.#found.peek(text)?.answer === 'removed';
            if (!isGone) {
              const ttl = answer === undefined ? UNKNOWN_MS : FOUND_MS;
              this.#found.set(text, { answer }, answer === 'removed' ? {} : { ttl });
            }
            resolve(isGone ? 'removed' : answer);
          }
        },
        (error) => {
          for (const { reject } of asked) reject(error);
        },
      );
    }
  }
}

function away(): MapError {
  return new MapError('map_unavailable', 'the map does not answer');
}

function placedOf(row: Parameters<typeof aboutOf>[0]): PlacedFile {
  return {
    key: row.key,
    offset: row.trunk!.offset,
    size: row.size,
    crc32: row.crc32,
    about: aboutOf(row),
    expiresAt: row.expiresAt ?? null,
  };
}

function textOf(key: Uint8Array): string {
  return Buffer.from(key).toString('base64url');
}
