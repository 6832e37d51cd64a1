import { open, rm, statfs } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { arch, cpus, loadavg, platform, release, totalmem } from 'node:os';
import { join } from 'node:path';
import { median } from './figures.js';

/** Facts of the machine and the versions, without which no figure means anything. */

export interface Machine {
  readonly platform: string;
  readonly arch: string;
  readonly release: string;
  readonly cpu: string;
  readonly cores: number;
  readonly memoryBytes: number;
  /** Runnable processes, one minute's average, when the benchmark began. */
  readonly loadAverage: number;
  /** True if the data is in memory: syncs cost nothing then. */
  readonly dataInMemory: boolean;
  /** Median of appending 4 KiB and making them durable, milliseconds. */
  readonly syncMs: number;
  /** Appending 4 MiB at a time and making them durable, MB/s. */
  readonly sequentialMBps: number;
}

export type Versions = Readonly<Record<string, string>>;

const TMPFS = 0x01021994;
const SYNCS = 50;
const SMALL_BYTES = 4096;
const LARGE_BYTES = 4 * 2 ** 20;
const LARGE_WRITES = 16;

/** `directory` is where the data will be. */
export async function describeMachine(directory: string): Promise<Machine> {
  const { syncMs, sequentialMBps } = await measureDisk(join(directory, 'disk-probe'));
  return {
    platform: platform(),
    arch: arch(),
    release: release(),
    cpu: cpus()[0]?.model.trim() ?? 'unknown',
    cores: cpus().length,
    memoryBytes: totalmem(),
    loadAverage: loadavg()[0] ?? 0,
    dataInMemory: (await statfs(directory)).type === TMPFS,
    syncMs,
    sequentialMBps,
  };
}

/** Ours, Node's, and those of the packages. */
export function describeVersions(packages: readonly string[]): Versions {
  const require = createRequire(import.meta.url);
  const versionIn = (manifest: string) => (require(manifest) as { version: string }).version;
  const { node, v8, uv, openssl } = process.versions;
  return {
    stevedore: versionIn('../../package.json'),
    ...Object.fromEntries(packages.map((name) => [name, versionIn(`${name}/package.json`)])),
    node,
    v8,
    uv: uv ?? '',
    openssl: openssl ?? '',
  };
}

async function measureDisk(path: string): Promise<{ syncMs: number; sequentialMBps: number }> {
  const file = await open(path, 'wx');
  try {
    let position = 0;
    const append = async (bytes: Buffer) => {
      const start = performance.now();
      await file.write(bytes, 0, bytes.length, position);
      await file.datasync();
      position += bytes.length;
      return performance.now() - start;
    };
    const small = Buffer.alloc(SMALL_BYTES, 0x5a);
    const times: number[] = [];
    for (let i = 0; i < SYNCS; i += 1) times.push(await append(small));
    const large = Buffer.alloc(LARGE_BYTES, 0xa5);
    let largeMs = 0;
    for (let i = 0; i < LARGE_WRITES; i += 1) largeMs += await append(large);
    return {
      syncMs: median(times),
      sequentialMBps: (LARGE_BYTES * LARGE_WRITES) / largeMs / 1000,
    };
  } finally {
    await file.close();
    await rm(path, { force: true });
  }
}
