import { createHash, randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { open } from '@stevedore/client';
import { FastdfsClient } from '@stevedore/fastdfs';
import { afterAll, beforeAll, expect, test } from 'vitest';

/**
 * The cases that other people's clients go through against our tracker and storage.
 * A client's program runs all it can in one go; each case is then a test of its own,
 * and our client reads what the program stored.
 */

export const CASES = {
  upload: 'stores a file and reads it back',
  large: 'stores and reads 3 MB',
  empty: 'stores a file of 0 bytes',
  range: 'reads parts of a file',
  info: 'is told size and CRC-32',
  delete: 'deletes a file, which is gone then',
  append: 'appends to an appender file',
  modify: 'overwrites bytes of an appender file',
  truncate: 'truncates an appender file',
  regenerate: 'turns an appender file into a normal one',
  slave: 'stores a slave file',
  metadata: 'sets, replaces and reads metadata',
  merge: 'merges metadata',
  sliceRead: 'reads small files out of a trunk by their slice ids',
  sliceRange: 'reads parts of small files by their slice ids',
  sliceInfo: 'is told size and CRC-32 of small files',
  forgedSlice: 'gets nothing for a slice id that was tampered with',
} as const;

export type Case = keyof typeof CASES;

/** What the program is given. */
export interface ClientNode {
  readonly host: string;
  readonly port: number;
  /** A file with a line `id path` for each small file: its slice id and where its bytes are. */
  readonly slices: string;
  readonly folder: string;
}

/** A line of the program's output: how a case ended, or a file that it has left in the storage. */
export type Line =
  | { readonly case: Case; readonly error: string | null }
  | { readonly kept: string; readonly sha256: string };

/** Defines the tests of one client; `cannot` says why for each case that it leaves out. */
export function clientSuite(
  run: (node: ClientNode) => Promise<readonly Line[]>,
  cannot: Readonly<Partial<Record<Case, string>>>,
): void {
  const cases = (Object.keys(CASES) as Case[]).filter((name) => cannot[name] === undefined);
  const results = new Map<string, string | null>();
  const kept: { readonly id: string; readonly sha256: string }[] = [];
  let ours: FastdfsClient;
  let close: () => Promise<void> = () => Promise.resolve();

  beforeAll(async () => {
    const { node, closeNode } = await startNode();
    ours = new FastdfsClient({ trackers: [`${node.host}:${node.port}`] });
    close = async () => {
      await ours.close();
      await closeNode();
    };
    for (const line of await run(node)) {
      if ('case' in line) results.set(line.case, line.error);
      else kept.push({ id: line.kept, sha256: line.sha256 });
    }
  }, 300_000);
  afterAll(() => close());

  test.each(cases.map((name) => [CASES[name], name] as const))('%s', (_, name) => {
    expect(results.has(name), `the program ran the case ${name}`).toBe(true);
    expect(results.get(name)).toBe(null);
  });

  test('what it has stored is the same for our client', async () => {
    expect(kept.length).toBeGreaterThan(0);
    for (const { id, sha256 } of kept) {
      const bytes = await ours.downloadBytes(id);
      expect(createHash('sha256').update(bytes).digest('hex'), id).toBe(sha256);
    }
  });
}

/** A store with its embedded node, and twenty small files merged into one trunk. */
async function startNode() {
  const folder = await mkdtemp(join(tmpdir(), 'stevedore-'));
  const store = await open({
    directory: join(folder, 'data'),
    trunkSize: '1MiB',
    smallFileLimit: '256KiB',
  });
  const lines: string[] = [];
  const files: { readonly key: string; readonly path: string }[] = [];
  for (let index = 1; index <= 20; index++) {
    const bytes = randomBytes(index * 1000);
    const path = join(folder, `${index}.jpg`);
    writeFileSync(path, bytes);
    files.push({ key: (await store.put(bytes, { name: `${index}.jpg` })).key, path });
  }
  await store.flush();
  for (const { key, path } of files) lines.push(`${await store.settled(key)} ${path}`);
  const slices = join(folder, 'slices');
  writeFileSync(slices, `${lines.join('\n')}\n`);
  const [host, port] = store.trackers[0]!.split(':') as [string, string];
  const node: ClientNode = { host, port: Number(port), slices, folder };
  const closeNode = async () => {
    await store.close();
    await rm(folder, { recursive: true, force: true });
  };
  return { node, closeNode };
}

/** The output of a program: one JSON text a line. */
export function parseLines(output: string): Line[] {
  const lines = output.split('\n').filter((line) => line.startsWith('{'));
  return lines.map((line) => JSON.parse(line) as Line);
}
