import { MapError, type MappedFile } from '@stevedore/map';
import { isTrunkId, parseFileId } from '@stevedore/protocol';
import { formatKey, isStoreError, readAbout, sliceIdOf } from '@stevedore/staging';
import type { Deployment } from '../deployment/deployment.js';
import { mapUnavailable, notFound } from '../read/failures.js';
import { type FileFacts, FileHandle } from '../read/stored-file.js';
import { type Found, type Holder, type HolderContext, receiptOfAbout } from './holder.js';
import type { PeerFiles } from './peer-files.js';
import type { Place, RemotePlace } from './place.js';

/** Merged files of other servers, which are in FastDFS where the map says. */
export class MappedFiles implements Holder {
  readonly #deployment: Deployment;
  readonly #peers: PeerFiles;
  readonly #context: HolderContext;

  constructor(deployment: Deployment, peers: PeerFiles, context: HolderContext) {
    this.#deployment = deployment;
    this.#peers = peers;
    this.#context = context;
  }

  /** A file of which a recent answer says where it is. */
  findNow(key: Buffer): Found | undefined {
    const mapped = this.#deployment.known(key);
    if (typeof mapped !== 'object') return undefined;
    return this.#context.reader.downloads.missing.has(mapped.trunkFileId)
      ? undefined
      : this.#file(key, mapped);
  }

  /** Rejects with `missing_in_fastdfs` if a read found that; its gateway may have it. */
  async find(key: Buffer): Promise<Found | undefined> {
    const mapped = await this.#ask(key);
    if (!mapped) return undefined;
    const loss = await this.#context.reader.downloads.lossOf(mapped.trunkFileId);
    if (loss) throw loss;
    return this.#file(key, mapped);
  }

  async delete(key: Buffer): Promise<boolean> {
    if (!(await this.#ask(key))) return false;
    try {
      await this.#deployment.remove(key);
      return true;
    } catch (error) {
      // The map is down; the file's own gateway can delete it, too.
      if (error instanceof MapError) return false;
      throw error;
    }
  }

  /** Its place according to the map; undefined if the map does not know it or answer. */
  async #ask(key: Buffer): Promise<MappedFile | undefined> {
    try {
      const answer = await this.#deployment.find(key);
      if (answer !== 'removed') return answer;
    } catch (error) {
      // Its gateway may have it nevertheless, and can serve merged files, too.
      if (error instanceof MapError) return undefined;
      throw error;
    }
    throw notFound(formatKey(key));
  }

  #file(key: Buffer, file: MappedFile): Found {
    const name = formatKey(key);
    if (file.expiresAt !== null && file.expiresAt <= this.#context.now()) throw notFound(name);
    const { isThin, size, crc32 } = file;
    const facts = receiptOfAbout(file.about, { key, size, crc32 }, isThin ? 'packing' : 'merged');
    // Only its own server knows by when.
    const pending: FileFacts = { ...facts, idPending: { reason: 'joining' } };
    return new FileHandle(isThin ? pending : facts, this.#placeOf(key, file), this.#context.reader);
  }

  #placeOf(key: Buffer, file: MappedFile): RemotePlace {
    const { trunkFileId: fileId, offset, size, crc32 } = file;
    const name = formatKey(key);
    return {
      kind: 'remote',
      key: name,
      isMapped: true,
      isKnown: true,
      fileId,
      offset,
      size,
      crc32,
      makeId: () => fileIdOf(file),
      now: (lost, signal) => this.#placeNow(key, file, lost, signal),
    };
  }

  /**
   * Compaction has moved the file to another trunk and the map may not know yet, or its storage has
   * lost it. Its own gateway knows.
   */
  async #placeNow(
    key: Buffer,
    before: MappedFile,
    lost: unknown,
    signal: AbortSignal | undefined,
  ): Promise<Place | undefined> {
    this.#deployment.forget(key);
    const now = await this.#ask(key);
    if (now && (now.trunkFileId !== before.trunkFileId || now.offset !== before.offset)) {
      return this.#placeOf(key, now);
    }
    try {
      const place = await this.#peers.placeOf(key, signal);
      if (!place && !now) throw mapUnavailable(lost);
      return place && { ...place, fileId: before.trunkFileId };
    } catch (error) {
      if (isStoreError(error, 'missing_in_fastdfs')) return undefined;
      throw error;
    }
  }
}

/** Undefined while the file is in a trunk that does not stay. */
function fileIdOf(file: MappedFile): string | undefined {
  const { trunkFileId, isThin, offset, size, crc32 } = file;
  if (isThin) return undefined;
  const trunk = parseFileId(trunkFileId);
  if (!trunk || !isTrunkId(trunk)) return trunkFileId;
  return sliceIdOf({ name: readAbout(file.about).name, size, crc32 }, trunkFileId, offset);
}
