import { isTrunkId, kindOf, parseFileId, parseSliceId } from '@stevedore/protocol';
import { parseKey, type Staging, StoreError } from '@stevedore/staging';
import type { Holders } from '../holders/holders.js';
import { notAnId } from '../read/failures.js';
import type { FastdfsIds } from '../read/fastdfs-ids.js';
import type { Receipt, RegisterOptions } from '../store/types.js';
import { checkMeta } from './intake.js';

/**
 * Gives files that other clients stored in FastDFS keys of this store. A file is registered once:
 * concurrent calls for one id share its key.
 */
export class Registration {
  readonly #staging: Staging;
  readonly #holders: Holders;
  readonly #ids: FastdfsIds;
  readonly #now: () => number;
  readonly #underWay = new Map<string, Promise<Receipt>>();

  constructor(staging: Staging, holders: Holders, ids: FastdfsIds, now: () => number) {
    this.#staging = staging;
    this.#holders = holders;
    this.#ids = ids;
    this.#now = now;
  }

  async register(fileId: string, options: RegisterOptions): Promise<Receipt> {
    checkMeta(options);
    const base = checkedBase(fileId);
    const known = this.#underWay.get(fileId);
    if (known) return known;
    const registering = this.#register(fileId, { ...options, name: options.name ?? base });
    this.#underWay.set(fileId, registering);
    try {
      return await registering;
    } finally {
      this.#underWay.delete(fileId);
    }
  }

  async #register(fileId: string, options: RegisterOptions): Promise<Receipt> {
    const { key, size, crc32 } = await this.#ids.find(fileId, undefined);
    if (key !== undefined) {
      const files = this.#holders.of(parseKey(key)!, true);
      return files.receipt(files.row(parseKey(key)!));
    }
    const staging = this.#staging;
    const about = { ...checkMeta(options), size, crc32, stagedAt: this.#now() };
    const row = await staging.register({ ...about, fileId, key: staging.keys.next() });
    return this.#holders.own.receipt(row);
  }
}

/** The last part of the id. Throws `invalid_id` if the file could change or is a store's own. */
function checkedBase(fileId: string): string {
  const parsed = parseFileId(fileId);
  if (!parsed) throw notAnId(fileId);
  if (parseSliceId(parsed) || isTrunkId(parsed)) {
    throw new StoreError('invalid_id', `"${fileId}" is a trunk or in one: its files have keys`);
  }
  const kind = kindOf(parsed);
  if (kind === 'normal' || kind === 'slot') return parsed.base;
  if (kind === undefined) throw notAnId(fileId);
  const message = `"${fileId}" is ${kind === 'appender' ? 'an' : 'a'} ${kind} file, which can change: store a copy of it`;
  throw new StoreError('invalid_id', message);
}
