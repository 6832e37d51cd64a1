import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { applySchema, openDatabase } from '@stevedore/disk/sqlite';
import { expect, onTestFinished, test } from 'vitest';
import { FileMap } from '../../../../packages/staging/dist/filemap/filemap.js';
import { NEXT_STATES, type TrunkState } from '../../../../packages/staging/dist/filemap/rows.js';
import { FILEMAP_SCHEMA, STATE_TRIGGER } from '../../../../packages/staging/dist/filemap/schema.js';
import { temporaryFolder } from '../../../support/temporary.js';

test('a trunk changes its state as the table says, and in no other way', () => {
  const database = openDatabase(':memory:');
  onTestFinished(() => void database.close());
  applySchema(database, FILEMAP_SCHEMA);
  database.exec(STATE_TRIGGER);
  const add = database.prepare(
    "INSERT INTO trunks (taskId, kind, state, size, files, recordSegment) VALUES (?, 'trunk', ?, 1, 1, 1)",
  );
  const change = database.prepare('UPDATE trunks SET state = ? WHERE id = ?');
  const states = Object.keys(NEXT_STATES) as TrunkState[];
  for (const from of states) {
    const possible = states.filter((to) => {
      const { lastInsertRowid } = add.run(randomBytes(16), from);
      try {
        change.run(to, lastInsertRowid);
        return true;
      } catch (error) {
        expect(String(error)).toContain('the state of a trunk cannot change in this way');
        return false;
      }
    });
    expect(possible.sort()).toEqual([from, ...NEXT_STATES[from]].sort());
  }
});

test('a change that cannot be is undone whole', () => {
  const fileMap = FileMap.open(join(temporaryFolder(), 'filemap.sqlite'));
  onTestFinished(() => fileMap.close());
  const taskId = randomBytes(16);
  const about = { kind: 'trunk' as const, taskId, fileId: 'group1/M00/one', files: 1, size: 1 };
  fileMap.apply([{ what: 'stored', ...about, crc32: 1, file: undefined }], 1, 1);
  const { id } = fileMap.trunkByTask(taskId)!;
  const confirmed = { files: 2, bytes: 2, oldestSegment: 1 };
  expect(() => fileMap.finishTrunk(id, 1, 1, undefined, confirmed)).toThrow('than was planned');
  expect(fileMap.trunkByTask(taskId)).toMatchObject({ state: 'stored', contentBytes: 0 });
  fileMap.apply([{ what: 'retired', ...about }], 1, 1);
  expect(() => fileMap.finishTrunk(id, 1, 1)).toThrow('cannot change in this way');
  expect(fileMap.trunkByTask(taskId)).toMatchObject({ state: 'retiring', contentBytes: 0 });
});
