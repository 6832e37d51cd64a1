import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { FastdfsClient, FastdfsError } from '@stevedore/fastdfs';
import { type Storage, startStorage } from '@stevedore/node';
import { startTracker, type Tracker } from '@stevedore/tracker';
import { afterAll, beforeAll, onTestFinished } from 'vitest';

/**
 * The cluster of this folder's tests: the one that FASTDFS_TRACKERS names, or a
 * tracker and a storage of ours. What a test stores is deleted again at its end,
 * so that a cluster in use is left as it was.
 */
export class TestCluster {
  #trackers: readonly string[] = [];
  #client: FastdfsClient | undefined;
  #folder: string | undefined;
  #daemons: { readonly tracker: Tracker; readonly storage: Storage } | undefined;

  get trackers(): readonly string[] {
    return this.#trackers;
  }

  get client(): FastdfsClient {
    if (!this.#client) throw new Error('the cluster is not started');
    return this.#client;
  }

  /** Deletes the file at the end of the test; gives its id back. */
  owned(fileId: string): string {
    onTestFinished(() => this.remove(fileId));
    return fileId;
  }

  async remove(fileId: string): Promise<void> {
    await this.client.delete(fileId).catch((error: unknown) => {
      if (!isNotFound(error)) throw error;
    });
  }

  /** Resolves once no storage has the file any more. */
  async gone(fileId: string): Promise<void> {
    while (await this.has(fileId)) await new Promise((resolve) => setTimeout(resolve, 20));
  }

  async has(fileId: string): Promise<boolean> {
    try {
      await this.client.info(fileId);
      return true;
    } catch (error) {
      if (isNotFound(error)) return false;
      throw error;
    }
  }

  /** Whether any storage of the cluster has an earlier version: `6.15.1`. */
  async isBefore(version: string): Promise<boolean> {
    const groups = await this.client.listGroups();
    const lists = await Promise.all(groups.map(({ name }) => this.client.listStorages(name)));
    return lists.flat().some((storage) => isEarlier(storage.version, version));
  }

  async start(): Promise<void> {
    this.#trackers = namedTrackers() ?? (await this.#startDaemons());
    this.#client = new FastdfsClient({ trackers: this.#trackers });
  }

  async stop(): Promise<void> {
    await this.#client?.close();
    await this.#daemons?.storage.close();
    await this.#daemons?.tracker.close();
    if (this.#folder) rmSync(this.#folder, { recursive: true, force: true });
  }

  async #startDaemons(): Promise<readonly string[]> {
    this.#folder = mkdtempSync(join(tmpdir(), 'stevedore-'));
    const tracker = await startTracker({ port: 0 });
    const trackers = [`127.0.0.1:${tracker.port}`];
    const storage = await startStorage({ storePaths: [this.#folder], port: 0, trackers });
    this.#daemons = { tracker, storage };
    await storage.active();
    return trackers;
  }
}

/** One cluster for all tests of a file. */
export function testCluster(): TestCluster {
  const cluster = new TestCluster();
  beforeAll(() => cluster.start());
  afterAll(() => cluster.stop());
  return cluster;
}

function namedTrackers(): readonly string[] | undefined {
  const named = process.env.FASTDFS_TRACKERS?.split(',').map((text) => text.trim());
  const trackers = named?.filter((text) => text !== '');
  return trackers?.length ? trackers : undefined;
}

function isNotFound(error: unknown): boolean {
  return error instanceof FastdfsError && error.code === 'not_found';
}

function isEarlier(version: string, than: string): boolean {
  const [a, b] = [version, than].map((text) => text.split('.').map(Number));
  for (const [index, wanted] of b!.entries()) {
    const part = a![index] ?? 0;
    if (part !== wanted) return part < wanted;
  }
  return false;
}
