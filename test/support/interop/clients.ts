import { createHash, randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { open } from '@stevedore/client';
import { FastdfsClient } from '@stevedore/fastdfs';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { content, type Node, type Owner, withMoved } from '../two-groups.js';

/**
 * The cases that other people's clients go through against our tracker and storage.
 * A client's program runs all it can in one go; each case is then a test of its own,
 * and our client reads what the program stored.
 */

const CASES = {
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
  movedRead: 'reads files whose bytes a storage of another group has',
  movedRange: 'reads parts of such files',
  movedInfo: 'is told size and CRC-32 of such files',
  movedMetadata: 'reads and replaces metadata of such files',
  movedDelete: 'deletes such a file, which is gone then',
} as const;

const MOVED_FILES = 4;

export type Case = keyof typeof CASES;

/** What the program is given. */
export interface ClientNode {
  readonly host: string;
  readonly port: number;
  /** A file with a line `id path` for each small file: its slice id and where its bytes are. */
  readonly slices: string;
  readonly folder: string;
  readonly moved: MovedFiles;
}

/** Files of one group whose bytes have gone to another one, in a cluster of their own. */
interface MovedFiles {
  /** Of its tracker. */
  readonly port: number;
  /** As `slices`; the metadata of each is `n`: its place in the list. */
  readonly files: string;
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
  const closes: (() => Promise<void>)[] = [];
  /** Downloads that the storages of moved files have answered: their home, and the other one. */
  const answered = { home: 0, other: 0 };
  let ours: FastdfsClient;

  beforeAll(async () => {
    const { node, closeNode } = await startNode();
    closes.push(closeNode);
    ours = new FastdfsClient({ trackers: [`${node.host}:${node.port}`] });
    closes.push(() => ours.close());
    const { home, other, ...moved } = await startMoved(node.folder, (close) => {
      closes.push(close);
    });
    const before = [downloads(home), downloads(other)] as const;
    for (const line of await run({ ...node, moved })) {
      if ('case' in line) results.set(line.case, line.error);
      else kept.push({ id: line.kept, sha256: line.sha256 });
    }
    answered.home = downloads(home) - before[0];
    answered.other = downloads(other) - before[1];
  }, 300_000);
  afterAll(async () => {
    for (const close of closes.reverse()) await close();
  });

  test.each(cases.map((name) => [CASES[name], name] as const))('%s', (_, name) => {
    expect(results.has(name), `the program ran the case ${name}`).toBe(true);
    expect(results.get(name)).toBe(null);
  });

  test('the bytes of moved files came from the other group, through their home', () => {
    expect(answered.home).toBeGreaterThanOrEqual(MOVED_FILES);
    expect(answered.other).toBeGreaterThanOrEqual(MOVED_FILES);
  });

  test('what it has stored is the same for our client', async () => {
    expect(kept.length).toBeGreaterThan(0);
    for (const { id, sha256 } of kept) {
      const bytes = await ours.downloadBytes(id);
      expect(createHash('sha256').update(bytes).digest('hex'), id).toBe(sha256);
    }
  });
}

/** Files of 40 bytes whose bytes are in the other group. */
async function startMoved(folder: string, owner: Owner) {
  const folders = { home: join(folder, 'home'), other: join(folder, 'other') };
  const options = { owner, folders, normal: true };
  const { tracker, home, other, ids } = await withMoved(MOVED_FILES, options);
  const lines: string[] = [];
  for (const [n, id] of ids.entries()) {
    const path = join(folder, `moved-${n}`);
    writeFileSync(path, content(n));
    lines.push(`${id} ${path}`);
  }
  const files = join(folder, 'moved');
  writeFileSync(files, `${lines.join('\n')}\n`);
  return { port: tracker, files, home, other };
}

function downloads({ storage }: Node): number {
  return storage.statistics().operations.download.total;
}

/** A store with its embedded node, and twenty small files merged into one trunk. */
async function startNode() {
  const folder = await mkdtemp(join(tmpdir(), 'stevedore-'));
  const store = await open({
    idMaxAge: 0,
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
  const node: Omit<ClientNode, 'moved'> = { host, port: Number(port), slices, folder };
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
