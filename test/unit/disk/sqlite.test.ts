import { statSync } from 'node:fs';
import { join } from 'node:path';
import { applySchema, LOG_LIMIT_BYTES, openDatabase } from '@stevedore/disk/sqlite';
import { expect, onTestFinished, test } from 'vitest';
import { spawnSync } from '../../support/child-process.js';
import { temporaryFolder } from '../../support/temporary.js';

/** The databases of staging and storage. */

function open() {
  const database = openDatabase(join(temporaryFolder(), 'a.db'));
  onTestFinished(() => void database.close());
  return database;
}

test('pragmas answer as those of better-sqlite3 do', () => {
  const database = open();
  expect(database.pragma('journal_mode = WAL')).toEqual([{ journal_mode: 'wal' }]);
  database.pragma('synchronous = FULL');
  expect(database.pragma('synchronous', { simple: true })).toBe(2);
  database.pragma('synchronous = NORMAL');
  expect(database.pragma('synchronous', { simple: true })).toBe(1);
  database.pragma('user_version = 7');
  expect(database.pragma('user_version', { simple: true })).toBe(7);
  database.exec('CREATE TABLE t (a)');
  for (let round = 0; round < 3; round++) {
    database.prepare('INSERT INTO t VALUES (?)').run(round);
    expect(database.pragma('wal_checkpoint(TRUNCATE)')).toEqual([
      { busy: 0, log: 0, checkpointed: 0 },
    ]);
  }
  expect(database.pragma('no_such_pragma', { simple: true })).toBeUndefined();
});

test('a schema is brought up step by step, once, and a later one is refused', () => {
  const database = open();
  const first = 'CREATE TABLE t (a); INSERT INTO t VALUES (1)';
  const second = 'ALTER TABLE t ADD COLUMN b DEFAULT 2; INSERT INTO t VALUES (3, 4)';
  applySchema(database, [first]);
  applySchema(database, [first, second]);
  applySchema(database, [first, second]);
  const rows = database.prepare('SELECT a, b FROM t ORDER BY a').all();
  expect(rows).toEqual([
    { a: 1, b: 2 },
    { a: 3, b: 4 },
  ]);
  expect(() => applySchema(database, [first])).toThrow('version 2, this program knows 1');
  expect(() => applySchema(database, [first, second, 'no such statement'])).toThrow('syntax error');
  expect(database.pragma('user_version', { simple: true })).toBe(2);
});

test('a log that grew while a reader held it is cut back when the reader is gone', () => {
  const writer = open();
  writer.pragma('journal_mode = WAL');
  writer.exec('CREATE TABLE t (a)');
  const insert = writer.prepare('INSERT INTO t VALUES (randomblob(1048576))');
  const reader = openDatabase(writer.name, { readonly: true });
  onTestFinished(() => void reader.close());
  reader.exec('BEGIN');
  reader.prepare('SELECT count(*) FROM t').get();
  for (let mebibytes = 0; mebibytes < 40; mebibytes += 1) insert.run();
  const logBytes = () => statSync(`${writer.name}-wal`).size;
  expect(logBytes()).toBeGreaterThan(LOG_LIMIT_BYTES);
  reader.exec('COMMIT');
  // The first commit checkpoints the whole log, the second begins it anew.
  insert.run();
  insert.run();
  expect(logBytes()).toBeLessThanOrEqual(LOG_LIMIT_BYTES);
});

// Node from 24.19 on aborts when such an object is collected at an idle moment.
test('nothing of a database is ever collected, closed or not', () => {
  const script = `
    import { applySchema, openDatabase } from ${JSON.stringify(import.meta.resolve('@stevedore/disk/sqlite'))};
    import { setImmediate as turn } from 'node:timers/promises';
    const seen = [];
    (function use() {
      for (const close of [true, false]) {
        const database = openDatabase(':memory:');
        const statement = database.prepare('SELECT 1');
        statement.get();
        database.pragma('user_version');
        database.transaction(() => statement.get())();
        seen.push(new WeakRef(database), new WeakRef(statement));
        if (close) database.close();
      }
    })();
    const other = new WeakRef({});
    for (let round = 0; round < 3; round++) { await turn(); globalThis.gc(); }
    const held = seen.filter((each) => each.deref() !== undefined).length;
    console.log(held, other.deref() === undefined);
  `;
  const args = ['--expose-gc', '--input-type=module', '--eval', script];
  const { status, stdout, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8' });
  expect({ status, stdout, stderr }).toEqual({ status: 0, stdout: '4 true\n', stderr: '' });
});
