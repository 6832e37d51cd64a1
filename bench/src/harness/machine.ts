import { open, rm, statfs } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { arch, cpus, loadavg, platform, release, totalmem } from 'node:os';
import { join } from 'node:path';
import { mean, median } from './figures.js';

/** Facts of the machine and the versions, without which no figure means anything. */

export type Machine = Awaited<ReturnType<typeof describeMachine>>;
export type Versions = Readonly<Record<string, string>>;

const TMPFS = 0x01021994;
const SMALL = { bytes: 4096, writes: 50 };
const LARGE = { bytes: 4 * 2 ** 20, writes: 16 };

/** `directory` is where the data will be. */
export async function describeMachine(directory: string) {
  const disk = await measureDisk(join(directory, 'disk-probe'));
  return {
    ...{ platform: platform(), arch: arch(), release: release() },
    cpu: cpus()[0]?.model.trim() ?? 'unknown',
    ...{ cores: cpus().length, memoryBytes: totalmem() },
    /** Runnable processes, one minute's average, when the benchmark began. */
    loadAverage: loadavg()[0] ?? 0,
    /** True if the data is in memory: syncs cost nothing then. */
    dataInMemory: (await statfs(directory)).type === TMPFS,
    ...disk,
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
    ...{ node, v8, uv: uv ?? '', openssl: openssl ?? '' },
  };
}

async function measureDisk(path: string) {
  await using file = await open(path, 'wx');
  const append = async ({ bytes, writes }: typeof SMALL): Promise<number[]> => {
    const content = Buffer.alloc(bytes, 0x5a);
    const times: number[] = [];
    for (let at = 0; at < writes; at += 1) {
      const start = performance.now();
      await file.write(content);
      await file.datasync();
      times.push(performance.now() - start);
    }
    return times;
  };
  const syncMs = median(await append(SMALL));
  const sequentialMBps = LARGE.bytes / mean(await append(LARGE)) / 1000;
  await rm(path, { force: true });
  /** Of appending 4 KiB durably, the median; of 4 MiB at a time, durably. */
  return { syncMs, sequentialMBps };
}
