import { crc32 } from 'node:zlib';
import type { StoreError } from '@stevedore/client';
import { SiblingView } from '@stevedore/staging';
import { describe, expect, it } from 'vitest';
import { FileMapFiles } from '../../../packages/client/dist/holders/filemap-files.js';
import type { Holder } from '../../../packages/client/dist/holders/holder.js';
import {
  AWAY,
  CONTENT,
  has,
  KEY,
  mapped,
  refuse,
  say,
  scene,
} from '../../support/client/elsewhere.js';
import { openStaging, stageFile } from '../../support/staging.js';
import { temporaryFolder } from '../../support/temporary.js';

/** What every holder of files promises, whatever place it stands for. */

/** of the file: it is there, was never there, was deleted, has expired; or the place is away. */
type State = 'there' | 'unknown' | 'deleted' | 'expired' | 'away';

interface Held {
  readonly holder: Holder;
  readonly key: Buffer;
  /** True once it is deleted for all servers. */
  readonly isDeleted: () => Promise<boolean>;
}

const LONG_AGO = new Date(1).toISOString();

async function inFileMap(state: State, isSibling: boolean): Promise<Held> {
  const directory = temporaryFolder();
  const { staging } = await openStaging(directory);
  const expires = state === 'expired' ? { expiresAt: 1 } : {};
  const staged = await stageFile(staging, CONTENT, { name: 'f.bin', ...expires });
  if (state === 'deleted') await staging.deletions.delete(staged);
  const isAway = state === 'away';
  const view = isSibling ? new SiblingView(isAway ? temporaryFolder() : directory) : staging;
  const rebuilding = { fileMap: staging.fileMap, rebuild: { isComplete: false } };
  const { reader } = await scene({ map: [undefined] });
  const here = isAway && !isSibling ? (rebuilding as never) : view;
  const context = { reader, now: Date.now, deployment: undefined };
  const holder = new FileMapFiles(here, context, (key) => staging.deletions.delete(key));
  return {
    holder,
    key: state === 'there' || state === 'deleted' || state === 'expired' ? staged : KEY,
    isDeleted: async () => staging.fileMap.isDeleted(staged),
  };
}

const FILE = { ...mapped('trunk', CONTENT), about: JSON.stringify({ name: 'f.bin' }) };

async function inMap(state: State): Promise<Held> {
  const answers = {
    there: [FILE],
    unknown: [undefined],
    deleted: ['removed' as const],
    expired: [{ ...FILE, expiresAt: 1 }],
    away: AWAY,
  };
  const { files, removed } = await scene({ map: answers[state], places: [FILE] });
  return { holder: files.mapped, key: KEY, isDeleted: async () => removed.length > 0 };
}

async function atPeer(state: State): Promise<Held> {
  const gateway = {
    there: has(),
    unknown: 'unknown' as const,
    deleted: say('not_found'),
    expired: has({ expiresAt: LONG_AGO }),
    away: refuse,
  };
  const { files, removed } = await scene({ map: [undefined], gateway: gateway[state] });
  return { holder: files.peers, key: KEY, isDeleted: async () => removed.length > 0 };
}

async function inSecondCopy(state: State): Promise<Held> {
  const row = { key: KEY, name: 'f.bin', size: CONTENT.length, type: 'text/plain', stagedAt: 0 };
  const file = (expiresAt?: number) => ({
    row: { ...row, crc32: crc32(CONTENT), expiresAt },
    bytes: CONTENT,
  });
  const held = {
    there: file(),
    unknown: 'nothing' as const,
    deleted: 'deleted' as const,
    expired: file(1),
    away: 'nothing' as const,
  };
  const heldAt = state === 'away' ? 'http://127.0.0.1:1' : '';
  const { files, removed } = await scene({ map: [undefined], held: held[state], heldAt });
  return { holder: files.copies, key: KEY, isDeleted: async () => removed.length > 0 };
}

const HOLDERS: Readonly<Record<string, (state: State) => Promise<Held>>> = {
  'the FileMap': (state) => inFileMap(state, false),
  "a sibling's FileMap": (state) => inFileMap(state, true),
  'the map': inMap,
  'another gateway': atPeer,
  'a second copy': inSecondCopy,
};

const outcome = async <Result>(asked: Promise<Result>): Promise<Result | string> =>
  asked.catch((error: StoreError) => error.code);

describe.each(Object.entries(HOLDERS))('%s', (_, held) => {
  it('finds a file by its key: its facts, and its bytes for each reader', async () => {
    const { holder, key } = await held('there');
    const name = key.toString('base64url');
    const facts = { key: name, name: 'f.bin', size: CONTENT.length, crc32: crc32(CONTENT) };
    expect(await holder.find(key, { isStat: true })).toMatchObject(facts);
    const file = (await holder.find(key, {}))!;
    expect(file).toMatchObject(facts);
    expect(await file.content()).toEqual(CONTENT);
    expect(file.contentNow() ?? CONTENT).toEqual(CONTENT);
    (await file.bytes()).fill(0);
    (await file.bytes({ range: { start: 4, end: 10 } })).fill(0);
    expect(await file.bytes()).toEqual(CONTENT);
    expect(await file.bytes({ range: { start: 4, end: 10 } })).toEqual(CONTENT.subarray(4, 11));
  });

  it('says that a file is not there only if no other place can have it', async () => {
    for (const state of ['deleted', 'expired'] as const) {
      const { holder, key } = await held(state);
      expect([state, await outcome(holder.find(key, {}))]).toEqual([state, 'not_found']);
      expect([state, await outcome(holder.find(key, { isStat: true }))]).toEqual([
        state,
        'not_found',
      ]);
    }
    const away = await held('away');
    expect([undefined, 'storage_unavailable']).toContain(await outcome(away.holder.find(KEY, {})));
    const { holder } = await held('unknown');
    // A FileMap is asked for keys that it must know.
    const unknown = holder instanceof FileMapFiles ? 'not_found' : undefined;
    expect(await outcome(holder.find(KEY, {}))).toBe(unknown);
  });

  it('deletes a file for all servers, and no other', async () => {
    const there = await held('there');
    expect(await there.holder.delete(there.key)).toBe(true);
    expect(await there.isDeleted()).toBe(true);
    for (const state of ['unknown', 'deleted', 'away'] as const) {
      const { holder, key, isDeleted } = await held(state);
      expect([state, await outcome(holder.delete(key))]).not.toEqual([state, true]);
      expect([state, await isDeleted()]).toEqual([state, state === 'deleted' && isFileMap(holder)]);
    }
  });
});

function isFileMap(holder: Holder): boolean {
  return holder instanceof FileMapFiles;
}
