import { strict as assert } from 'node:assert';
import { createHash } from 'node:crypto';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import { crc32 } from 'node:zlib';
import {
  Staging,
  type StagingOptions,
  smallFile,
  spooledFile,
  type TrunkStore,
} from '@stevedore/staging';
import { MemoryTrunkStore } from '../../memory-trunk-store.js';
import type { Random } from '../../random.js';
import { digestOf, SimulatedDisk } from '../disk.js';
import type { Crash, Host, Reads, Undecided } from '../subject.js';
import {
  type FileMapHarm,
  type FileMapImage,
  fileMapImage,
  writeFileMap,
} from './file-map-image.js';
import { Ledger } from './ledger.js';
import { some } from './scripts.js';

/**
 * A machine with a simulated disk on which Staging runs: it can be restarted, and
 * it can crash, which gives another machine with what survived. The FileMap and the
 * lock are SQLite's, in a real folder of the machine's own; a crash copies the
 * FileMap, whole or harmed, and what goes on in the crashed process harms nobody.
 */

export type HostOptions = Partial<
  Pick<
    StagingOptions,
    'trunkSize' | 'segmentBytes' | 'retain' | 'containerSize' | 'mergeMaxAge' | 'durability'
  >
>;

/** All that outlives a crash, as it was at one moment. */
export interface HostState {
  readonly disk: SimulatedDisk;
  readonly fileMap: FileMapImage;
  readonly trunks: ReadonlyMap<string, Buffer>;
  /** Of trunks that are there, and of those that were. */
  readonly givenIds: readonly string[];
  readonly ledger: Ledger;
  readonly clock: number;
  readonly possible: readonly string[];
}

export interface StagingCrash extends Crash {
  /** What becomes of the FileMap. */
  readonly harm: FileMapHarm;
}

/** What a start after the crash finds: crashes that agree in it are the same. */
export function situationOf(
  { disk, fileMap, ledger, trunks }: HostState,
  { mode, harm }: StagingCrash,
  random: Random,
): string {
  const { main, wal, durableBytes } = fileMap;
  const parts = {
    kept: [main, wal],
    stale: [main, wal?.subarray(0, durableBytes)],
    torn: [wal],
    damaged: [],
    deleted: [],
  };
  const hash = createHash('sha1').update(digestOf(disk.crash(mode, random)));
  for (const part of parts[harm]) hash.update(part ?? '');
  const others = `${mode === 'killed'} ${harm} ${ledger.version} ${[...trunks.keys()]}`;
  return `${others} ${hash.digest('hex')}`;
}

export interface NewContent {
  readonly bytes: Buffer;
  readonly large?: boolean;
  readonly group?: string;
}

const MEMORY_FOLDER = '/dev/shm';
const PATIENT_MS = 60_000;
const STORE_ATTEMPTS = 60;
const ROTTEN = '10.1.2.4:23000';
const ROT_MARK_BYTES = 50;
const IMPATIENT_MS = 300;

export class StagingHost implements Host {
  readonly options: HostOptions;
  readonly random: Random;
  readonly folder = mkdtempSync(
    join(existsSync(MEMORY_FOLDER) ? MEMORY_FOLDER : tmpdir(), 'stevedore-'),
  );
  readonly errors: Error[] = [];
  disk = new SimulatedDisk(this.folder);
  store = new MemoryTrunkStore();
  ledger = new Ledger();
  /** Milliseconds; a little later at each look. */
  clock = 1_700_000_000_000;
  /** Puts and deletions that are rejected are noted in the ledger and go no further. */
  isTolerant = false;
  /** Called before and after each operation of disk and trunk store has its effect. */
  onPoint: (what: string) => void = () => undefined;
  #staging: Staging | undefined;
  /** Copies of large files that were told of and left. */
  readonly #possible = new Set<string>();
  #isGone = false;
  #names = 0;

  constructor(options: HostOptions, random: Random) {
    this.options = options;
    this.random = random;
    this.store.now = () => this.clock;
    this.#watch();
  }

  get staging(): Staging {
    if (!this.#staging) throw new Error('the host is not running');
    return this.#staging;
  }

  get version(): number {
    return this.ledger.version;
  }

  get isRunning(): boolean {
    return this.#staging !== undefined;
  }

  async start(): Promise<void> {
    this.#staging = await Staging.open({
      directory: this.folder,
      disk: this.disk,
      connect: async () => this.#connection(),
      trunkSize: 64 * 1024,
      mergeMaxAge: 3_600_000,
      containerSize: 2 ** 24,
      retain: 2 ** 20,
      durability: 'sync',
      // Slabs of 64 KiB, so that they come round.
      tailBytes: 2 ** 18,
      listingGraceMs: 0,
      now: () => {
        this.clock += 1;
        return this.clock;
      },
      randomFill: (target) => {
        for (let at = 0; at < target.length; at++) target[at] = this.random.below(256);
      },
      packingSeed: 1,
      ...this.options,
    });
    this.#staging.changes.on('error', (error) => this.errors.push(error));
  }

  /** Ends the process in good order. */
  async close(): Promise<void> {
    const staging = this.#staging;
    this.#staging = undefined;
    await staging?.close();
  }

  /** Ends the process if it runs and removes the real folder. */
  async dispose(): Promise<void> {
    this.#isGone = true;
    this.disk.stop();
    await this.close().catch(() => undefined);
    rmSync(this.folder, { recursive: true, force: true });
  }

  /** Puts files with one call; they are in the ledger whatever comes of it. */
  async put(contents: readonly NewContent[]): Promise<void> {
    const { ledger, staging } = this;
    const entries = contents.map(({ bytes, large = false, group }) => {
      this.#names += 1;
      const name = `${this.#names}.${large ? 'large' : 'small'}`;
      return { key: staging.keys.next(), bytes, large, group, name };
    });
    for (const entry of entries) ledger.add(entry);
    try {
      for (const entry of entries) if (entry.large) await this.#spool(entry.key, entry.bytes);
      await staging.acceptance.stage(
        entries.map(({ key, bytes, large, group, name }) => {
          const about = { key, name, group, type: 'application/octet-stream' };
          const facts = { size: bytes.length, crc32: crc32(bytes), stagedAt: this.clock };
          return large
            ? spooledFile({ ...about, ...facts })
            : smallFile({ ...about, ...facts }, [bytes]);
        }),
      );
    } catch (error) {
      if (!this.#isGone) for (const { key } of entries) ledger.set(key, 'refused');
      if (this.isTolerant) return;
      throw error;
    }
    if (!this.#isGone) for (const { key } of entries) ledger.set(key, 'kept');
  }

  async delete(key: Buffer): Promise<void> {
    const { ledger } = this;
    ledger.set(key, 'deleting');
    try {
      await this.staging.deletions.delete(key);
    } catch (error) {
      if (!this.#isGone) ledger.set(key, 'undeleted');
      if (this.isTolerant) return;
      throw error;
    }
    if (!this.#isGone) ledger.set(key, 'deleted');
  }

  /** Merges what waits; a tolerant host gives up when the disk goes on failing. */
  async flush(): Promise<void> {
    const patient = !this.isTolerant || !this.disk.isFailing;
    const signal = AbortSignal.timeout(patient ? PATIENT_MS : IMPATIENT_MS);
    try {
      await this.staging.merging.flush(signal);
    } catch (error) {
      if (patient || !signal.aborted) throw error;
    }
  }

  /** Checks and repairs while everything else goes on; a file must not be found lost. */
  async repair(): Promise<void> {
    const { problems, possibleOrphans } = await this.staging.fsck({ repair: true });
    for (const { fileId } of possibleOrphans) this.#possible.add(fileId);
    const lost = problems.filter(({ code }) => code === 'file_lost');
    assert.deepEqual(lost, []);
  }

  /** One of two storages has damaged the stored file, and the scrub finds that. */
  async mend(key: Buffer): Promise<void> {
    const { bytes } = this.ledger.get(key);
    const { copiesOf, rot } = this.store;
    this.store.copiesOf = () => ({ holders: ['10.1.2.3:23000', ROTTEN], members: 2 });
    this.store.rot = (part, holder) => {
      const at = part.indexOf(bytes.subarray(0, ROT_MARK_BYTES));
      if (holder === ROTTEN && at >= 0) part[at + 7]! ^= 1;
      return part;
    };
    try {
      await this.staging.scrub({ repair: true, bytesPerSecond: 2 ** 30 });
    } catch (error) {
      if (!this.isTolerant) throw error;
    } finally {
      this.store.copiesOf = copiesOf;
      this.store.rot = rot;
    }
  }

  /** Waits for work in the background; on a failing disk it may never come to its end. */
  async until(condition: () => boolean, isSure = !this.isTolerant): Promise<void> {
    const deadline = Date.now() + (isSure ? PATIENT_MS : IMPATIENT_MS);
    while (!condition() && Date.now() < deadline) await sleep(2);
    if (!condition() && isSure) throw new Error('it did not happen in time');
  }

  async started(undecided: Undecided): Promise<void> {
    this.ledger.settle(this.staging, undecided);
    await this.check(this.disk.isFailing ? 'may fail' : 'must work');
  }

  /** Ledger and counters, held against Staging. */
  async check(reads?: Reads): Promise<void> {
    await this.ledger.check(this.staging, this.store, reads);
    this.ledger.checkCounters(this.staging);
  }

  async goOn(): Promise<void> {
    await this.put(some(this, 1));
    await this.flush();
    await this.check();
  }

  /** A script goes on with files that it was refused. */
  isExcused(): boolean {
    return true;
  }

  /**
   * Mends what the check finds and holds the trunk store against what is recorded: no
   * trunk that no record names, none that is stored twice, every byte accounted for.
   */
  async audit(): Promise<void> {
    for (let attempt = 1; ; attempt++) {
      await this.flush();
      try {
        await this.#auditOnce();
        return;
      } catch (error) {
        // A trunk may be on its way again: compaction goes on by itself.
        if (attempt === STORE_ATTEMPTS || !(error instanceof assert.AssertionError)) throw error;
        await sleep(2 * attempt);
      }
    }
  }

  async #auditOnce(): Promise<void> {
    const { staging, store } = this;
    await this.repair();
    const report = await staging.fsck({ repair: false });
    assert.deepEqual(report.problems, [], 'the check finds what it has mended');
    assert.equal(report.openPlans, 0, 'plans are open');
    let bytes = 0;
    for (const [fileId, content] of store.files) {
      const trunk = staging.fileMap.trunkByFileId(fileId);
      if (trunk && trunk.state !== 'retired') bytes += content.length;
      else assert.ok(this.#isPossible(fileId, content), `${fileId} is in no record`);
    }
    assert.equal(report.storedBytes, bytes, 'bytes are not accounted for');
    const { liveBytes, deadBytes, overheadBytes, unreadBytes, orphanBytes } = report;
    const sum = liveBytes + deadBytes + overheadBytes + unreadBytes + orphanBytes;
    assert.equal(sum, bytes, 'the parts are not the whole');
  }

  /** Nothing shows whose a large file is: it was told of, or has not even its bytes. */
  #isPossible(fileId: string, content: Buffer): boolean {
    if (fileId.endsWith('.merged')) return false;
    const isWhole = this.ledger.entries().some(({ bytes }) => bytes.equals(content));
    return this.#possible.has(fileId) || !isWhole;
  }

  state(): HostState {
    return {
      disk: this.disk.crash('killed', this.random),
      fileMap: fileMapImage(this.folder),
      trunks: new Map(this.store.files),
      givenIds: [...this.store.givenIds],
      ledger: this.ledger.copy(),
      clock: this.clock,
      possible: [...this.#possible],
    };
  }

  /** The process ends here and now; what survives is found on another machine. */
  crash(crash: StagingCrash): StagingHost {
    const host = StagingHost.after(this.state(), this.options, crash, this.random);
    host.#names = this.#names;
    void this.dispose();
    return host;
  }

  static after(
    state: HostState,
    options: HostOptions,
    { mode, harm }: StagingCrash,
    random: Random,
  ): StagingHost {
    const host = new StagingHost(options, random);
    host.disk = state.disk.crash(mode, random, host.folder);
    host.#watch();
    for (const [fileId, bytes] of state.trunks) host.store.files.set(fileId, bytes);
    for (const fileId of state.givenIds) host.store.givenIds.add(fileId);
    host.ledger = state.ledger.copy();
    host.clock = state.clock;
    for (const fileId of state.possible) host.#possible.add(fileId);
    writeFileMap(host.folder, state.fileMap, harm, mode, random);
    return host;
  }

  /** While no process runs: the FileMap alone comes to harm. */
  harmFileMap(harm: FileMapHarm): void {
    writeFileMap(this.folder, fileMapImage(this.folder), harm, 'killed', this.random);
  }

  async #spool(key: Buffer, bytes: Buffer): Promise<void> {
    const writer = await this.staging.acceptance.beginSpooled(key, bytes.length);
    try {
      const half = bytes.length >> 1;
      await writer.write([bytes.subarray(0, half)]);
      await writer.write([bytes.subarray(half)]);
      await writer.finish(true);
    } catch (error) {
      await writer.discard().catch(() => undefined);
      throw error;
    }
  }

  #watch(): void {
    this.disk.onPoint = (when, what) => this.onPoint(`${when} ${what}`);
  }

  /** The trunk store as one process sees it: gone with the process. */
  #connection(): TrunkStore {
    const call = async (name: string, work: () => unknown): Promise<unknown> => {
      if (this.#isGone) throw new Error('the process is gone');
      this.onPoint(`before ${name} of a trunk`);
      const result = await work();
      if (this.#isGone) throw new Error('the process is gone');
      this.onPoint(`after ${name} of a trunk`);
      await nextTurn();
      return result;
    };
    return new Proxy<MemoryTrunkStore>(this.store, {
      get: (store, name) => {
        const method: unknown = Reflect.get(store, name, store);
        if (typeof method !== 'function') return method;
        return (...given: unknown[]) =>
          call(String(name), () => Reflect.apply(method, store, given) as unknown);
      },
    });
  }
}
