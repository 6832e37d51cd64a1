import { type FastdfsClient, FastdfsError } from '@stevedore/fastdfs';
import { decodeMetadata, getMetadata, parseFileId, type ServerAddress } from '@stevedore/protocol';
import type { Random } from '../random.js';
import { RawClient } from './support.js';

/**
 * What clients of a group have been promised: of each file its content, or its metadata,
 * after all that was acknowledged. A file for which an operation was not answered may be
 * as before or as after it, and is left alone from then on. A file that never changes can
 * be read all the time; one that changes may be read as it was until all members have it.
 */

/** Undefined: there is no such file. */
type State = Buffer | undefined;

interface Promised {
  /** One of these is true. */
  states: readonly State[];
  /** An operation is under way, or was not answered. */
  isBusy: boolean;
  /** Counts operations, so that a reader sees that there was one meanwhile. */
  version: number;
  /** What happened to it, for whoever has to find out why it is wrong. */
  readonly history: string[];
}

type Kind = 'appends' | 'modifications' | 'truncations' | 'deletions' | 'metadata';

/** Files of which the metadata is what counts. */
const DESCRIBED = '.met';
const APPENDER = '.log';

export class PromisedFiles {
  readonly #files = new Map<string, Promised>();
  readonly #client: FastdfsClient;
  readonly #random: Random;
  readonly counts = {
    files: 0,
    slaves: 0,
    appends: 0,
    modifications: 0,
    truncations: 0,
    metadata: 0,
    deletions: 0,
    unanswered: 0,
    reads: 0,
    failedReads: 0,
    lost: 0,
    altered: 0,
  };
  /** Nothing but new files is written. */
  areChangesHeld = false;
  readonly #suspects = new Set<string>();
  /** What was read and is not as promised. */
  readonly wrong: string[] = [];

  constructor(client: FastdfsClient, random: Random) {
    this.#client = client;
    this.#random = random;
  }

  /** Makes one operation; true if it was acknowledged. */
  async write(): Promise<boolean> {
    try {
      await this.#write();
      return true;
    } catch (error) {
      if (!(error instanceof FastdfsError)) throw error;
      this.counts.unanswered += 1;
      return false;
    }
  }

  /** Reads the youngest files that never changed from whom the tracker names. */
  async readSome(count: number): Promise<void> {
    const fixed = [...this.#files].filter(([id, { version }]) => version === 0 && !changes(id));
    for (const [id, file] of fixed.slice(-count)) {
      const read = await this.#read(id);
      this.counts.reads += 1;
      // Another one may be deleting it.
      if (file.version === 0) this.#judge(id, file, read, 'a member');
    }
  }

  /** What a member has otherwise than promised. */
  async lackingAt(storage: ServerAddress): Promise<string[]> {
    const lacking: string[] = [];
    for (const [id, { states }] of this.#files) {
      const read = await this.#read(id, storage);
      this.#suspects.delete(id);
      if (!states.some((state) => isSame(state, read))) {
        lacking.push(`${id} at ${storage.address}: ${told(read)}, not ${states.map(told)}`);
        this.#suspects.add(id);
      }
    }
    return lacking;
  }

  /** Whether two members have the same of every file, those not answered for as well. */
  async differencesOf(one: ServerAddress, other: ServerAddress): Promise<string[]> {
    const different: string[] = [];
    for (const id of this.#files.keys()) {
      const [here, there] = [await this.#read(id, one), await this.#read(id, other)];
      const isAlike = here instanceof Error ? false : isSame(here, there);
      if (!isAlike) {
        different.push(
          `${id}: ${told(here)} at ${one.address}, ${told(there)} at ${other.address}`,
        );
        this.#suspects.add(id);
      }
    }
    return different;
  }

  /** What happened to the files that were found wrong. */
  histories(): Map<string, readonly string[]> {
    return new Map([...this.#suspects].map((id) => [id, this.#files.get(id)!.history]));
  }

  /** Counts what the members have in the end. */
  countLost(lacking: readonly string[]): void {
    for (const each of lacking) {
      if (/: no file,/.test(each)) this.counts.lost += 1;
      else this.counts.altered += 1;
    }
  }

  #judge(id: string, { states }: Promised, read: State | FastdfsError, where: string): void {
    if (states.some((state) => isSame(state, read))) return;
    this.#suspects.add(id);
    this.wrong.push(`${id} at ${where}: ${told(read)}, not ${states.map(told)}`);
    if (read instanceof Error || !read) this.counts.failedReads += 1;
    else this.counts.altered += 1;
  }

  async #read(fileId: string, storage?: ServerAddress): Promise<State | FastdfsError> {
    try {
      if (!fileId.endsWith(DESCRIBED)) {
        return await this.#client.downloadBytes(fileId, storage ? { storage } : {});
      }
      const { mark } = storage
        ? await metadataAt(fileId, storage)
        : await this.#client.getMetadata(fileId);
      return Buffer.from(mark ?? '');
    } catch (error) {
      if (!(error instanceof FastdfsError)) throw error;
      return error.code === 'not_found' ? undefined : error;
    }
  }

  async #write(): Promise<void> {
    const random = this.#random;
    const idle = [...this.#files].filter(([, { isBusy, states }]) => !isBusy && states[0]);
    const choice = random.below(20);
    if (idle.length < 8 || choice < 8 || this.areChangesHeld) return this.#upload();
    const [id, file] = random.pick(idle);
    const content = file.states[0]!;
    if (id.endsWith(DESCRIBED)) {
      const mark = String(random.below(2 ** 31));
      return this.#change(file, Buffer.from(mark), 'metadata', () =>
        this.#client.setMetadata(id, { mark }),
      );
    }
    if (choice > 17) {
      return this.#change(file, undefined, 'deletions', () => this.#client.delete(id));
    }
    if (!id.endsWith(APPENDER)) return this.#slave(id);
    if (choice < 14) {
      const more = this.#bytes(2000);
      return this.#change(file, Buffer.concat([content, more]), 'appends', () =>
        this.#client.append(id, more),
      );
    }
    if (choice < 16) {
      const size = 1 + random.below(content.length + 500);
      const after = Buffer.concat([content, Buffer.alloc(500)]).subarray(0, size);
      return this.#change(file, after, 'truncations', () => this.#client.truncate(id, size));
    }
    const offset = random.below(content.length + 1);
    const bytes = this.#bytes(2000);
    const parts = [content.subarray(0, offset), bytes, content.subarray(offset + bytes.length)];
    return this.#change(file, Buffer.concat(parts), 'modifications', () =>
      this.#client.modify(id, offset, bytes),
    );
  }

  async #upload(): Promise<void> {
    const content = this.#bytes(this.#random.below(8) === 0 ? 300_000 : 5000);
    const extension = this.#random.pick(['log', 'log', 'bin', 'met']);
    const id = await (extension === 'log'
      ? this.#client.uploadAppender(content, { extension })
      : this.#client.upload(content, { extension }));
    this.counts.files += 1;
    const state = extension === 'met' ? Buffer.alloc(0) : content;
    this.#files.set(id, { states: [state], isBusy: false, version: 0, history: [noted('made')] });
  }

  async #slave(master: string): Promise<void> {
    const content = this.#bytes(3000);
    const prefix = `_s${this.#random.below(2 ** 31)}`;
    const id = await this.#client.uploadSlave(master, prefix, content, { extension: 'bin' });
    this.counts.slaves += 1;
    this.#files.set(id, { states: [content], isBusy: false, version: 0, history: [noted('made')] });
  }

  async #change(
    file: Promised,
    after: State,
    kind: Kind,
    change: () => Promise<void>,
  ): Promise<void> {
    file.isBusy = true;
    file.version += 1;
    try {
      await change();
    } catch (error) {
      file.history.push(noted(`${kind} to ${told(after)}: ${error}`));
      file.states = [...file.states, after];
      file.version += 1;
      throw error;
    }
    file.history.push(noted(`${kind} to ${told(after)}`));
    file.states = [after];
    file.isBusy = false;
    file.version += 1;
    this.counts[kind] += 1;
  }

  /** No two pieces are alike. */
  #bytes(most: number): Buffer {
    const size = 1 + this.#random.below(most);
    return Buffer.alloc(size, `${this.#random.below(2 ** 31)} `);
  }
}

function changes(id: string): boolean {
  return id.endsWith(APPENDER) || id.endsWith(DESCRIBED);
}

/** What a member itself says; a client asks whom the tracker names. */
async function metadataAt(
  fileId: string,
  { address, port }: ServerAddress,
): Promise<{ readonly mark?: string }> {
  const { group, name } = parseFileId(fileId)!;
  const client = await RawClient.open(port, address);
  const { answer } = await client.ask(getMetadata, { group, name });
  client.socket.destroy();
  return answer ? decodeMetadata(answer) : {};
}

function isSame(state: State, read: State | Error): boolean {
  if (read instanceof Error) return false;
  return state && read ? state.equals(read) : state === read;
}

function told(read: State | Error): string {
  if (read instanceof Error) return read.message;
  return read ? `${read.length} bytes` : 'no file';
}

function noted(what: string): string {
  return `${new Date().toISOString()} ${what}`;
}
