import { randomBytes } from 'node:crypto';
import { parseSliceId } from '@stevedore/protocol';
import { onTestFinished } from 'vitest';
import { Random } from '../../random.js';
import type { TestCluster } from './cluster.js';

/** What the rounds through SDK and gateway have in common: files, and the trunks they end in. */

/** Small, so that a few files fill several trunks; no local copies, so that reads go to the cluster. */
export const ROUND_OPTIONS = {
  trunkSize: '2MiB',
  smallFileLimit: '512KiB',
  retain: '0B',
  cacheSize: '0B',
} as const;

export interface RoundFile {
  readonly name: string;
  readonly group: string | undefined;
  readonly bytes: Buffer;
  key: string;
  /** Its FastDFS id, once it is merged. */
  fileId: string;
}

/** `count` files of 2 to 100 KB, some of them in groups, and those at the limits. */
export function roundFiles(count: number): RoundFile[] {
  const random = new Random(20_480);
  const sizes = Array.from({ length: count }, () => 2_000 + random.below(98_000));
  return [...sizes, 0, 1, 2 ** 19, 2 ** 19 + 1, 10_000_000].map((size, index) => ({
    name: `${index}${random.pick(['.jpg', '.webp', '.tar.gz', ''])}`,
    group: index % 3 === 0 ? `page-${index % 30}` : undefined,
    bytes: randomBytes(size),
    key: '',
    fileId: '',
  }));
}

/** The file of the cluster that holds the bytes of a merged one: a trunk, or the file itself. */
export function carrierOf(fileId: string): string {
  const slice = parseSliceId(fileId);
  return slice ? `${slice.trunk.group}/${slice.trunk.name}` : fileId;
}

/** Files of the cluster that a test finds out about; what is left of them goes with the test. */
export class Carriers {
  readonly #cluster: TestCluster;
  readonly #ids = new Set<string>();

  constructor(cluster: TestCluster) {
    this.#cluster = cluster;
    onTestFinished(async () => {
      for (const id of this.#ids) await cluster.remove(id);
    });
  }

  get size(): number {
    return this.#ids.size;
  }

  add(fileId: string): void {
    this.#ids.add(carrierOf(fileId));
  }

  /** Resolves once the cluster has none of them any more. */
  async gone(): Promise<void> {
    for (const id of this.#ids) await this.#cluster.gone(id);
  }
}
