import { type Claim, type Gateway, MapError, originOf } from '@stevedore/map';
import {
  formatKey,
  type HeldCopies,
  isStoreError,
  type Staging,
  StoreError,
} from '@stevedore/staging';
import type { Deployment } from '../deployment/deployment.js';
import { mapUnavailable, notFound } from '../read/failures.js';
import { askForId } from '../store/settling.js';
import type { FileInfo, Flushed, FlushOptions } from '../store/types.js';
import type { FindOptions, Found, Holder, HolderContext } from './holder.js';
import { MappedFiles } from './mapped-files.js';
import { askAll, type Others, othersToAsk } from './others.js';
import { PeerFiles } from './peer-files.js';
import { throughRestart } from './restarts.js';
import { removeFromMap, SecondCopies } from './second-copies.js';

/**
 * Files that other servers of the deployment staged. The map tells which trunk has a merged file; a
 * staged file is read at its own gateway, or in the second copy while that does not answer. A file is
 * `not_found` only if the map or its own gateway says so. Everything else is `storage_unavailable`,
 * which can be retried.
 */

export class FilesElsewhere implements Holder, Others {
  readonly mapped: MappedFiles;
  readonly peers: PeerFiles;
  readonly copies: SecondCopies;
  readonly #deployment: Deployment;
  /** True for an origin whose files this server and its workers have. */
  readonly isHere: (origin: number) => boolean;

  /** `held`: the copies that are held here. */
  constructor(
    deployment: Deployment,
    context: HolderContext,
    isHere: (origin: number) => boolean,
    staging: Staging,
    held: HeldCopies | undefined,
  ) {
    this.#deployment = deployment;
    this.isHere = isHere;
    this.peers = new PeerFiles(deployment, context);
    this.copies = new SecondCopies(deployment, this.peers, staging, held);
    this.mapped = new MappedFiles(deployment, this.peers, context);
  }

  /** Origin of the server that knows every file of an origin. */
  ownerOf(origin: number): number {
    return this.#deployment.ownerOf(origin);
  }

  /**
   * True if the file is deleted, according to the map or, while that is down, to the file's own
   * gateway. Rejects with `storage_unavailable` if neither answers.
   */
  async isRemoved(key: Buffer): Promise<boolean> {
    try {
      return (await this.#deployment.find(key)) === 'removed';
    } catch (error) {
      if (!(error instanceof MapError)) throw error;
    }
    try {
      await this.peers.find(key, { isStat: true });
      return false;
    } catch (error) {
      if (isStoreError(error, 'not_found')) return true;
      throw error;
    }
  }

  /** Its FastDFS id, once it is merged; rejects with `not_found` if it will never have one. */
  settled(key: Buffer, signal: AbortSignal | undefined): Promise<string> {
    return askForId(formatKey(key), () => this.find(key, { isStat: true, signal }), signal);
  }

  /** False for a file of another server, unless a recent answer says that it is there. */
  isCurrent(key: Buffer): boolean {
    const deployment = this.#deployment;
    const origin = originOf(key);
    return (
      origin === deployment.origin ||
      deployment.isAuthoritativeFor(origin) ||
      typeof deployment.known(key) === 'object' ||
      this.peers.isKnown(key)
    );
  }

  /** A file of which a recent answer says where it is: in FastDFS, or in memory here. */
  findNow(key: Buffer): Found | undefined {
    return this.mapped.findNow(key) ?? this.peers.findNow(key);
  }

  find(key: Buffer, options: FindOptions): Promise<Found> {
    const attempt = () => this.#ask(key, (holder) => holder.find(key, options));
    return throughRestart(attempt, () => this.#mayReturn(key), options.signal);
  }

  /** Deletes it for all servers. Rejects as `find`. */
  async delete(key: Buffer): Promise<boolean> {
    let isAsked = false;
    const attempt = async (): Promise<void> => {
      try {
        await this.#ask(
          key,
          async (holder) => (await holder.delete(key)) || undefined,
          () => {
            isAsked = true;
          },
        );
      } catch (error) {
        // Its own gateway deleted it for the request whose answer was lost.
        if (!isAsked || !isStoreError(error, 'not_found')) throw error;
        await removeFromMap(key, this.#deployment);
      }
    };
    await throughRestart(attempt, () => this.#mayReturn(key));
    return true;
  }

  /** What the first of them answers that has the file. `onAway`: its own gateway did not answer. */
  async #ask<Answer>(
    key: Buffer,
    ask: (holder: Holder) => Promise<Answer | undefined>,
    onAway?: () => void,
  ): Promise<Answer> {
    let failure: unknown;
    for await (const holder of this.#inTurn(key)) {
      try {
        const answer = await ask(holder);
        if (answer !== undefined) return answer;
      } catch (error) {
        const isPeer = holder === this.peers;
        if (isStoreError(error, 'not_found') && isPeer && !failure) {
          // It may have been merged since the map was asked.
          this.#deployment.forget(key);
          const answer = await ask(this.mapped);
          if (answer !== undefined) return answer;
        }
        const isAway = isStoreError(error, 'storage_unavailable');
        if (!isAway && !isStoreError(error, 'missing_in_fastdfs')) throw error;
        if (isAway && isPeer) onAway?.();
        failure = error;
      }
    }
    throw failure ?? notFound(formatKey(key));
  }

  async *#inTurn(key: Buffer): AsyncGenerator<Holder> {
    yield this.mapped;
    if (await this.peers.isSuspect(key)) yield this.copies;
    yield this.peers;
    yield this.copies;
  }

  #mayReturn(key: Buffer): boolean {
    return this.#deployment.mayReturn(originOf(key));
  }

  /**
   * The files of the upload with this mark, at whichever server made it. None: this server makes it
   * and has claimed it or, while the map is away, has asked the others that answer.
   */
  async findOnce(mark: Buffer, withinMs: number): Promise<FileInfo[]> {
    const deployment = this.#deployment;
    const attempt = (over?: Claim) =>
      deployment.claim(mark, withinMs, over).catch((error: unknown) => {
        throw error instanceof MapError ? mapUnavailable(error) : error;
      });
    const claim = (over?: Claim) =>
      throughRestart(
        () => attempt(over),
        () => deployment.mapMayReturn,
      );
    const before = await claim().catch(() => undefined);
    if (!before) {
      const toAsk = await othersToAsk(this);
      const { answers } = await askAll(toAsk, (url) => this.peers.at(url).findOnce(mark, withinMs));
      return answers.find((each) => each.length > 0) ?? [];
    }
    if (before.origin === deployment.origin) return [];
    const gateway = this.isHere(before.origin)
      ? undefined
      : await this.peers.of(before.origin, 'the upload');
    const found = (await gateway?.findOnce(mark, withinMs)) ?? [];
    if (found.length > 0) return found;
    const now = await claim(before);
    if (now.origin === deployment.origin) return [];
    throw new StoreError('storage_unavailable', 'another server is making this upload');
  }

  /**
   * Has the other servers store what they have staged, all at once. Rejects with the error of one
   * that could not do it in time.
   */
  async flush(options: FlushOptions): Promise<Flushed> {
    const toAsk = await othersToAsk(this);
    const ask = (url: string) => this.peers.at(url).flush(options);
    const { answers, away } = await askAll(toAsk, ask, toAsk.urls.size);
    const failure = answers.find((answer) => answer !== undefined);
    if (failure) throw failure;
    return away ? { away } : {};
  }

  get ownUrl(): string {
    return this.#deployment.ownUrl;
  }

  readonly gateways = (): Promise<readonly Gateway[]> => this.#deployment.gateways();

  close(): Promise<void> {
    return this.peers.close();
  }
}
