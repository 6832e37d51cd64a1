import {
  appendFile,
  type Command,
  deleteFile,
  downloadFile,
  encodeMetadata,
  type FileName,
  getMetadata,
  makeSliceId,
  modifyFile,
  type PayloadCommand,
  parseFileName,
  queryFileInfo,
  regenerateAppender,
  Status,
  setMetadata,
  slaveName,
  truncateFile,
  uploadAppenderFile,
  uploadFile,
  uploadSlaveFile,
} from '@stevedore/protocol';
import { writeTrunk } from '@stevedore/staging';
import type { OpenFile } from '../../../../packages/storage/dist/files/open-files.js';
import { type OpenedStorage, openStorage } from '../../../../packages/storage/dist/open-storage.js';
import { openFile } from '../../../../packages/storage/dist/service.js';
import { storageSettings } from '../../../../packages/storage/dist/storage-options.js';
import { statusOf } from '../../../../packages/wire/dist/errors.js';
import type { Random } from '../../random.js';
import { trunkOf } from '../../storage/trunks.js';
import { DiskStopped, SimulatedDisk } from '../disk.js';
import type { Crash, Host, Reads, Undecided } from '../subject.js';
import { checkDisk, checkFiles } from './check.js';
import { ABSENT, type Entry, type NewEntry, StorageLedger, type Version } from './ledger.js';
import { handleFile, handleRequest } from './requests.js';
import { someBytes } from './scripts.js';

/**
 * A machine with a simulated disk on which a storage runs, without sockets: requests
 * go to its handlers. It can be restarted, and it can crash, which gives another
 * machine with what survived. Every request is noted in the ledger, with its answer.
 */

const ROOT = '/store';

/** All that outlives a crash, as it was at one moment. */
export interface StorageState {
  readonly disk: SimulatedDisk;
  readonly ledger: StorageLedger;
  readonly clock: number;
}

export interface Answered<Answer> {
  readonly status: number;
  readonly answer: Answer | undefined;
}

/** The process has ended; nobody is answered any more. */
class Gone extends Error {}

/** The client was never told the name of the file that it would go on with. */
class Untold extends Error {}

/** Times that the client of a tolerant host sends a file. */
const ATTEMPTS = 3;

export class StorageHost implements Host {
  readonly random: Random;
  readonly errors: Error[] = [];
  disk = new SimulatedDisk(ROOT);
  ledger = new StorageLedger();
  /** Milliseconds; a little later at each look. */
  clock = 1_700_000_000_000;
  /** A request that is refused is all right. */
  isTolerant = false;
  onPoint: (what: string) => void = () => undefined;
  #opened: OpenedStorage | undefined;
  #isGone = false;

  constructor(random: Random) {
    this.random = random;
    this.#watch();
  }

  static after(state: StorageState, { mode }: Crash, random: Random): StorageHost {
    const host = new StorageHost(random);
    host.disk = state.disk.crash(mode, random);
    host.#watch();
    host.ledger = state.ledger.copy();
    host.clock = state.clock;
    return host;
  }

  get version(): number {
    return this.ledger.version;
  }

  get isRunning(): boolean {
    return this.#opened !== undefined;
  }

  async start(): Promise<void> {
    const settings = storageSettings({
      storePaths: [ROOT],
      address: '10.0.0.1',
      subdirectoriesPerPath: 2,
      maxIdleFiles: 4,
      cacheBytes: 2 ** 17,
      disk: this.disk,
      environment: {
        now: () => {
          this.clock += 1;
          return this.clock;
        },
        uptimeMs: () => this.clock,
        random: (limit) => this.random.below(limit),
      },
      onError: (error) => this.errors.push(error),
    });
    const opened = await openStorage(settings);
    await opened.saveState();
    this.#opened = opened;
  }

  /** Ends the process in good order. */
  async close(): Promise<void> {
    const opened = this.#opened;
    this.#opened = undefined;
    await opened?.close();
  }

  /** Ends the process here and now. */
  dispose(): void {
    this.#isGone = true;
    this.disk.stop();
  }

  state(): StorageState {
    const { clock } = this;
    return { disk: this.disk.crash('killed', this.random), ledger: this.ledger.copy(), clock };
  }

  crash(crash: Crash): StorageHost {
    const host = StorageHost.after(this.state(), crash, this.random);
    this.dispose();
    return host;
  }

  /** Asks as a client does; a refusal is a status, and a process that is gone answers nobody. */
  async ask<Request, Answer>(
    command: Command<Request, Answer>,
    request: Request,
  ): Promise<Answered<Answer>> {
    return this.#answer(command, (opened) => handleRequest(opened, command, request));
  }

  /** As `ask`, with a file; the client leaves after `sent` bytes of it. */
  async send<Request, Answer>(
    command: PayloadCommand<Request, Answer>,
    request: Request,
    file: Buffer,
    sent = file.length,
  ): Promise<Answered<Answer>> {
    return this.#answer(command, (opened) => handleFile(opened, command, request, file, sent));
  }

  async upload(bytes: Buffer, extension = 'bin', sent?: number): Promise<Entry> {
    const head = { storePathIndex: 0, size: bytes.length, extension };
    return this.#add({ kind: 'normal', bytes }, () => this.send(uploadFile, head, bytes, sent));
  }

  /** As a program does that shares the disk: it writes the file itself, in these pieces. */
  async hand(bytes: Buffer, extension = 'merged'): Promise<Entry> {
    const file = { size: bytes.length, extension, pieces: () => piecesOf(bytes) };
    return this.#add({ kind: 'normal', bytes }, () =>
      this.#answer({ reply: uploadFile.reply }, async (opened) => {
        const signal = new AbortController().signal;
        const write = (path: string) => writeTrunk(path, file, signal, this.disk);
        const id = await opened.take({ bytes: bytes.length, extension, spareBytes: 0, write });
        return uploadFile.reply.encode({ group: id.group, name: id.name });
      }),
    );
  }

  async uploadAppender(bytes: Buffer): Promise<Entry> {
    const head = { storePathIndex: 0, size: bytes.length, extension: 'log' };
    const about = { kind: 'appender', bytes } as const;
    return this.#add(about, () => this.send(uploadAppenderFile, head, bytes));
  }

  async uploadTrunk(contents: readonly Buffer[]): Promise<Entry> {
    const { bytes, entries } = trunkOf(contents);
    const entry = await this.upload(bytes, 'merged');
    const slices = entries.map((each, index) => ({ ...each, bytes: contents[index]! }));
    entry.slices = slices.map((slice) => ({ ...slice, possible: [true] }));
    return entry;
  }

  async uploadSlave(master: Entry, prefix: string, bytes: Buffer): Promise<Entry> {
    const { group, name } = fileOf(master);
    const file = { group, name: slaveName(name, prefix, 'png') };
    const entry = this.ledger.add({ kind: 'slave', bytes, file });
    const head = { master: name, size: bytes.length, prefix, extension: 'png' };
    const { answer } = await this.#told(this.send(uploadSlaveFile, head, bytes));
    if (answer) this.ledger.added(entry.id, answer);
    return entry;
  }

  async append(entry: Entry, bytes: Buffer, sent?: number): Promise<void> {
    const head = { name: fileOf(entry).name, size: bytes.length };
    const done = this.#begin(entry, (version, old) => ({
      ...version,
      bytes: Buffer.concat([old, bytes]),
    }));
    done(await this.#told(this.send(appendFile, head, bytes, sent)));
  }

  async modify(entry: Entry, offset: number, bytes: Buffer): Promise<void> {
    const head = { name: fileOf(entry).name, offset, size: bytes.length };
    const done = this.#begin(entry, (version, old) => {
      if (offset > old.length) return version;
      const changed = Buffer.alloc(Math.max(old.length, offset + bytes.length));
      old.copy(changed);
      bytes.copy(changed, offset);
      return { ...version, bytes: changed };
    });
    done(await this.#told(this.send(modifyFile, head, bytes)));
  }

  async truncate(entry: Entry, size: number): Promise<void> {
    const { name } = fileOf(entry);
    const done = this.#begin(entry, (version, old) => {
      const changed = Buffer.alloc(size);
      old.copy(changed);
      return { ...version, bytes: changed };
    });
    done(await this.#told(this.ask(truncateFile, { name, size })));
  }

  /** Gives the entry under which the file goes on. */
  async regenerate(entry: Entry): Promise<Entry> {
    const { name } = fileOf(entry);
    const next = this.ledger.add({ kind: 'normal', bytes: undefined });
    next.possible = [ABSENT, ...entry.possible.filter(({ bytes }) => bytes)];
    const done = this.#begin(entry, () => ({ bytes: undefined, movedTo: next.id }));
    const answered = await this.#told(this.ask(regenerateAppender, { name }));
    done(answered);
    if (answered.answer) this.ledger.added(next.id, answered.answer);
    return next;
  }

  async delete(entry: Entry): Promise<void> {
    const file = fileOf(entry);
    const done = this.#begin(entry, () => ABSENT);
    done(await this.#told(this.ask(deleteFile, file)));
  }

  async setMetadata(entry: Entry, metadata: Record<string, string>): Promise<void> {
    const file = fileOf(entry);
    const text = encodeMetadata(metadata);
    const value = text.length === 0 ? undefined : text.toString('latin1');
    const done = this.#begin(entry, (version) => ({ ...version, metadata: value }));
    const request = { ...file, mode: 'overwrite', metadata: text } as const;
    done(await this.#told(this.ask(setMetadata, request)));
  }

  async deleteSlice(trunk: Entry, index: number): Promise<void> {
    const name = this.sliceName(trunk, index);
    const before = trunk.slices[index]!.possible;
    this.ledger.setSlice(trunk.id, index, [...new Set([...before, false])]);
    const { status } = await this.#told(this.ask(deleteFile, name));
    if (status === 0) this.ledger.setSlice(trunk.id, index, [false]);
  }

  sliceName(trunk: Entry, index: number): FileName {
    const { group, name } = fileOf(trunk);
    const id = parseFileName(group, name)!;
    const text = makeSliceId(id, trunk.slices[index]!, 'txt');
    const slash = text.indexOf('/');
    return { group: text.slice(0, slash), name: text.slice(slash + 1) };
  }

  /** Runs while a client reads the file, which must give the bytes that it had before. */
  async reading(entry: Entry, work: () => Promise<void>): Promise<void> {
    const { group, name } = fileOf(entry);
    const file = parseFileName(group, name)!;
    let opened: OpenFile;
    try {
      opened = await openFile(this.#opened!.service, file);
    } catch (error) {
      if (!this.isTolerant) throw error;
      await work();
      return;
    }
    try {
      const before = await readWhole(opened);
      await work();
      const after = await readWhole(opened);
      if (before && after && !before.equals(after)) throw new Error('a reader gets other bytes');
    } finally {
      opened.release();
    }
  }

  /** What a client finds under the name; undefined where the disk fails. */
  async look(file: FileName): Promise<Version | undefined> {
    const found = await this.read(file);
    if (!found?.bytes) return found;
    const metadata = await this.ask(getMetadata, file);
    if (metadata.status !== 0 && metadata.status !== Status.notFound) return undefined;
    return { ...found, metadata: metadata.answer?.toString('latin1') };
  }

  /** As `look`, without metadata. An empty file, or slice, has a size and no range to send. */
  async read(file: FileName): Promise<Version | undefined> {
    const info = await this.ask(queryFileInfo, file);
    if (info.status === Status.notFound) return ABSENT;
    const { status, answer = Buffer.alloc(0) } = await this.ask(downloadFile, {
      ...file,
      offset: 0,
      length: 0,
    });
    const isEmpty = status === Status.invalid && info.answer?.size === 0;
    if (info.status !== 0 || (status !== 0 && !isEmpty)) return undefined;
    if (info.answer?.size !== answer.length) throw new Error(`${file.name}: two sizes`);
    return { bytes: answer, metadata: undefined };
  }

  /** Holds files and disk against the ledger. `settles`: what is found must stay. */
  async check(reads: Reads = 'must work', settles = false): Promise<void> {
    await checkFiles(this, reads, settles);
  }

  /** What a power failure has left is durable by now, and must stay. */
  async started(undecided: Undecided, crash?: Crash): Promise<void> {
    if (this.disk.isFailing) return;
    await this.audit();
    const settles = undecided !== 'none' && crash !== undefined && crash.mode !== 'killed';
    await this.check('must work', settles);
  }

  async goOn(): Promise<void> {
    await this.upload(someBytes(this, 100));
    for (const entry of this.ledger.living('appender')) {
      await this.append(entry, someBytes(this, 40));
      await this.modify(entry, 0, someBytes(this, 20));
    }
    await this.check();
  }

  isExcused(error: unknown): boolean {
    return !this.isRunning || error instanceof Untold;
  }

  /** No request is under way and none has failed: nothing may lie about. */
  async audit(): Promise<void> {
    checkDisk(this);
  }

  #watch(): void {
    this.disk.onPoint = (when, what) => this.onPoint(`${when} ${what}`);
  }

  /** An upload under a name that the storage chooses; a tolerant host sends it again. */
  async #add(about: NewEntry, send: () => Promise<Answered<FileName>>): Promise<Entry> {
    for (let attempt = 1; ; attempt++) {
      const entry = this.ledger.add(about);
      const { answer } = await this.#told(send());
      if (answer) this.ledger.added(entry.id, answer);
      if (answer || attempt === ATTEMPTS) return entry;
    }
  }

  #begin(
    entry: Entry,
    change: (version: Version, bytes: Buffer) => Version,
  ): (answered: Answered<unknown>) => void {
    const done = this.ledger.change(entry.id, (version) =>
      version.bytes ? change(version, version.bytes) : version,
    );
    return ({ status }) => {
      if (status === 0) done();
    };
  }

  /** The answer, unless the process is gone; a refusal is an error unless it is tolerated. */
  async #told<Answer>(answer: Promise<Answered<Answer>>): Promise<Answered<Answer>> {
    const { status, answer: told } = await answer;
    if (status !== 0 && !this.isTolerant) {
      throw new Error(`status ${status}; ${this.errors.at(-1)?.message}`);
    }
    return { status, answer: told };
  }

  async #answer<Answer>(
    command: Command<never, Answer> | { readonly reply: Command<never, Answer>['reply'] },
    handle: (opened: OpenedStorage) => Promise<Buffer>,
  ): Promise<Answered<Answer>> {
    const opened = this.#opened;
    if (!opened) throw new Gone('the storage is not running');
    try {
      const reply = await handle(opened);
      if (this.#isGone) throw new Gone('the process is gone');
      return { status: 0, answer: command.reply.decode(reply) };
    } catch (error) {
      if (this.#isGone || error instanceof DiskStopped) throw new Gone('the process is gone');
      if (error instanceof TypeError || error instanceof RangeError) throw error;
      this.errors.push(error as Error);
      return { status: statusOf(error), answer: undefined };
    }
  }
}

function fileOf({ id, file }: Entry): FileName {
  if (!file) throw new Untold(`nobody was told the name of ${id}`);
  return file;
}

/** Undefined where the disk fails. */
async function readWhole({ file, stat }: OpenFile): Promise<Buffer | undefined> {
  const bytes = Buffer.alloc(stat.size);
  try {
    return bytes.subarray(0, await file.readAt(bytes, 0));
  } catch {
    return undefined;
  }
}

/** Several pieces at a time, in memory that is used again. */
async function* piecesOf(bytes: Buffer) {
  const room = Buffer.alloc(4_096);
  for (let at = 0; at < bytes.length; at += room.length) {
    const some = room.subarray(0, bytes.copy(room, 0, at));
    const half = Math.ceil(some.length / 2);
    yield [some.subarray(0, half), some.subarray(half)];
    room.fill(0);
  }
}
