import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import {
  type DeploymentMap,
  type MappedFile,
  openMap,
  originOf,
  type Removal,
  type Topic,
} from '@stevedore/map';
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { needsPgbouncer, pooled } from '../../support/map/pgbouncer.js';
import { file, instance, key, newcomer, TRUNK } from '../../support/map/placed-files.js';
import { needsPostgres, PostgresServer } from '../../support/map/postgres-server.js';
import { temporaryFolder } from '../../support/temporary.js';

/** What every map does, whatever keeps it. */

const OTHER_TRUNK = 'group1/M00/00/01/fwAAAWsDag6ASV9jAAAAD5pI2Zc168.merged';

const STAGED = { files: 7, bytes: 140_000 };

async function prune(map: DeploymentMap, before: number): Promise<void> {
  while (await map.prune(before, 2));
}

function contract(open: () => Promise<DeploymentMap>): void {
  async function joined() {
    const map = await open();
    onTestFinished(() => map.close());
    const { origin, secret } = await map.join(newcomer());
    return { map, origin, secret };
  }

  it('gives every directory an origin of its own, and the same again', async () => {
    const { map, secret } = await joined();
    const mine = { ...newcomer(), url: 'http://10.0.0.1:8080' };
    const first = await map.join(mine);
    expect(await map.join({ ...mine, origin: first.origin })).toEqual(first);
    expect(first.secret).toBe(secret);
    const other = await map.join({ ...mine, instance: instance() });
    expect(other.origin).not.toBe(first.origin);
    expect((await map.heartbeat(first.origin, 'here', STAGED)).isOurs).toBe(true);
    expect((await map.heartbeat(first.origin, 'elsewhere', STAGED)).isOurs).toBe(false);
    const listed = (await map.gateways()).find(({ origin }) => origin === first.origin)!;
    expect(listed.url).toBe('http://10.0.0.1:8080');
    expect(Math.abs(listed.seenAt - (await map.now()))).toBeLessThan(60_000);
  });

  it('keeps settings, and a final one that was removed stays removed', async () => {
    const { map } = await joined();
    const before = await map.now();
    const body = '{"id":"a"}';
    const one = { kind: 'keys', name: 'a', body };
    await map.setSettings([one, { kind: 'policies', name: 'a', body: '{}' }], true);
    await map.setSettings([{ ...one, body: null }], true);
    await map.setSettings([one], true);
    const kept = await map.settingsSince(before);
    const named = kept.map(({ kind, name, body }) => [kind, name, body]);
    expect(named).toEqual(
      expect.arrayContaining([
        ['keys', 'a', null],
        ['policies', 'a', '{}'],
      ]),
    );
    await map.setSettings([{ kind: 'policies', name: 'a', body: null }], false);
    await map.setSettings([{ kind: 'policies', name: 'a', body: '{"maxFiles":1}' }], false);
    const again = await map.settingsSince(before);
    expect(again.find(({ kind }) => kind === 'policies')?.body).toBe('{"maxFiles":1}');
  });

  it('refuses an origin that another directory has, and a directory with another origin', async () => {
    const { map, origin } = await joined();
    const wrong = { instance: instance(), origin, url: undefined, place: 'here' };
    await expect(map.join(wrong)).rejects.toMatchObject({ code: 'origin_taken' });
    const mine = newcomer();
    const { origin: own } = await map.join(mine);
    const copied = map.join({ ...mine, origin: (own % 0xffff) + 1 });
    await expect(copied).rejects.toMatchObject({ code: 'origin_taken' });
  });

  it('refuses a directory that is in use at another place, until it has left there', async () => {
    const { map } = await joined();
    const mine = newcomer('one');
    const { origin } = await map.join(mine);
    await expect(map.join({ ...mine, place: 'other' })).rejects.toMatchObject({
      code: 'origin_taken',
    });
    expect((await map.join(mine)).origin).toBe(origin);
    await map.leave(origin, 'elsewhere');
    await expect(map.join({ ...mine, place: 'other' })).rejects.toMatchObject({
      code: 'origin_taken',
    });
    await map.leave(origin, 'one');
    expect((await map.join({ ...mine, place: 'other' })).origin).toBe(origin);
  });

  it('says that a trunk is thin until it is placed as one that is not', async () => {
    const { map, origin } = await joined();
    const [one, two] = [file(origin, 0), file(origin, 100)];
    const trunk = { id: randomBytes(16), fileId: TRUNK };
    const isThin = async () => (await map.find([one.key]))[0];
    await map.place({ ...trunk, isThin: true }, [one]);
    expect(await isThin()).toMatchObject({ isThin: true });
    // A repair of the map reads only the trunk's directory, which does not say.
    await map.place(trunk, [one, two]);
    expect(await isThin()).toMatchObject({ isThin: true });
    expect((await map.files(undefined, 2)).map((each) => each.isThin)).toEqual([true, true]);
    await map.place({ ...trunk, isThin: false }, []);
    expect(await isThin()).toMatchObject({ isThin: false });
  });

  it('keeps every character of what is said about a file', async () => {
    const { map, origin } = await joined();
    const awkward = [
      '"',
      '\\',
      '\\n',
      '\n',
      '\t',
      '\u0001',
      '{,}',
      'NULL',
      'null',
      '',
      ' ',
      "'",
      'ü😀',
    ];
    const files = awkward.map((about) => ({ ...file(origin, 0), about }));
    await map.place({ id: randomBytes(16), fileId: TRUNK }, files);
    const found = await map.find(files.map((each) => each.key));
    expect(found.map((each) => (each as MappedFile).about)).toEqual(awkward);
  });

  it('finds what was placed, in the order of the question', async () => {
    const { map, origin } = await joined();
    const files = Array.from({ length: 3000 }, (_, index) => file(origin, index * 2 ** 20));
    const expiring = { ...file(origin, 5), expiresAt: 1_900_000_000_123 };
    const empty = { ...file(origin, 6), size: 0, crc32: 0 };
    const trunk = { id: randomBytes(16), fileId: TRUNK };
    await map.place(trunk, [...files, expiring, empty]);
    const asked = [expiring.key, key(origin), files[7]!.key, empty.key, files[2999]!.key];
    const { key: _, ...own } = files[7]!;
    const rest = { ...own, isThin: false };
    expect(await map.find(asked)).toEqual([
      { ...rest, offset: 5, expiresAt: 1_900_000_000_123, trunkFileId: TRUNK },
      undefined,
      { ...rest, offset: 7 * 2 ** 20, trunkFileId: TRUNK },
      { ...rest, offset: 6, size: 0, crc32: 0, trunkFileId: TRUNK },
      { ...rest, offset: 2999 * 2 ** 20, trunkFileId: TRUNK },
    ]);
  });

  it('moves files to another trunk, and takes everything twice', async () => {
    const { map, origin } = await joined();
    const [first, second] = [file(origin), file(origin, 100)];
    const from = { id: randomBytes(16), fileId: TRUNK };
    const to = { id: randomBytes(16), fileId: OTHER_TRUNK };
    for (let times = 0; times < 2; times++) await map.place(from, [first, second]);
    for (let times = 0; times < 2; times++) {
      await map.place(to, [{ ...first, offset: 77 }]);
      await map.remove([second], true);
      await map.retire(from.id);
    }
    expect(await map.find([first.key, second.key])).toMatchObject([
      { trunkFileId: OTHER_TRUNK, offset: 77 },
      'removed',
    ]);
  });

  it('lets a removal win over what is placed after it', async () => {
    const { map, origin } = await joined();
    const gone = file(origin);
    await map.remove([gone], false);
    await map.place({ id: randomBytes(16), fileId: TRUNK }, [gone]);
    expect(await map.find([gone.key])).toEqual(['removed']);
  });

  it('keeps removals for the gateway that has to make them, until it has', async () => {
    const { map, origin } = await joined();
    const gone = [file(origin), file(origin), file(origin)];
    const elsewhere = file((origin % 0xffff) + 1);
    const before = await map.now();
    await map.remove([...gone, elsewhere], false);
    const hex = (keys: readonly Uint8Array[]) =>
      keys.map((each) => Buffer.from(each).toString('hex')).sort();
    expect(hex(await map.removalsFor([origin], 100))).toEqual(hex(gone.map((each) => each.key)));
    expect(await map.removalsFor([origin], 2)).toHaveLength(2);
    await map.remove([gone[0]!, gone[1]!], true);
    await map.remove([gone[0]!], false);
    expect(hex(await map.removalsFor([origin], 100))).toEqual(hex([gone[2]!.key]));
    const heard: Removal[] = [{ key: new Uint8Array(0), removedAt: before - 1 }];
    for (;;) {
      const page = await map.removalsAfter(heard.at(-1)!, 2);
      if (page.length === 0) break;
      expect(page.length).toBeLessThanOrEqual(2);
      heard.push(...page);
    }
    const mine = heard.slice(1).filter((each) => originOf(each.key) === origin);
    expect(hex(mine.map((each) => each.key))).toEqual(hex(gone.map((each) => each.key)));
    await prune(map, (await map.now()) + 1000);
    expect(hex(await map.removalsFor([origin], 100))).toEqual(hex([gone[2]!.key]));
    expect(await map.find([gone[0]!.key, gone[2]!.key])).toEqual([undefined, 'removed']);
  });

  it('keeps a removal as long as the trunk is there whose directory lists the file', async () => {
    const { map, origin } = await joined();
    const [placed, early, late] = [file(origin), file(origin, 1), file(origin, 2)];
    const trunk = { id: randomBytes(16), fileId: TRUNK };
    await map.remove([early], true);
    await map.remove([{ key: late.key, trunk: trunk.id }], true);
    await map.place(trunk, [placed, early]);
    await map.remove([placed], true);
    const keys = [placed.key, early.key, late.key];
    await prune(map, (await map.now()) + 1000);
    expect(await map.find(keys)).toEqual(['removed', 'removed', 'removed']);
    await map.retire(trunk.id);
    await prune(map, (await map.now()) + 1000);
    expect(await map.find(keys)).toEqual([undefined, undefined, undefined]);
  });

  it('prunes for one gateway at a time, a few trunks and no more than it was asked to', async () => {
    const { map, origin } = await joined();
    expect([await map.mayPrune(60_000), await map.mayPrune(60_000)]).toEqual([true, false]);
    const before = (await map.now()) + 60_000;
    await prune(map, before);
    const [keep, gone] = [0, 1].map(() => Array.from({ length: 5 }, () => file(origin))) as [
      ReturnType<typeof file>[],
      ReturnType<typeof file>[],
    ];
    const trunks = Array.from({ length: 7 }, () => randomBytes(16));
    const inTrunks = trunks.flatMap((trunk) => [0, 1].map(() => ({ ...file(origin), trunk })));
    await map.remove(keep, false);
    await map.remove([...gone, ...inTrunks], true);
    const marks = Array.from({ length: 20 }, () => randomBytes(16));
    for (const mark of marks) await map.claim(mark, 1, -1);
    const left = async (files: readonly { readonly key: Uint8Array }[]) =>
      (await map.find(files.map((each) => each.key))).filter((each) => each === 'removed').length;
    // Their trunks are not retired yet, as far as the map knows.
    await prune(map, before);
    expect([await left(inTrunks), await left(gone), await left(keep)]).toEqual([14, 0, 5]);
    for (const trunk of trunks) await map.retire(trunk);
    await prune(map, (await map.now()) - 60_000);
    expect(await left(inTrunks)).toBe(14);
    expect(await map.prune(before, 3)).toBe(true);
    expect(await left(inTrunks)).toBe(4);
    await prune(map, before);
    expect([await left(inTrunks), await left(keep)]).toEqual([0, 5]);
    // The claims are forgotten too, all of them.
    for (const mark of marks) expect((await map.claim(mark, 2, -1)).version).toBe(1);
  });

  it('gives an upload to one gateway at a time, and to another only as it was asked', async () => {
    const { map } = await joined();
    const mark = randomBytes(16);
    expect(await map.claim(mark, 1, 60_000)).toEqual({ origin: 1, version: 1 });
    const theirs = await map.claim(mark, 2, 60_000);
    expect(theirs).toEqual({ origin: 1, version: 1 });
    expect(await map.claim(mark, 1, 60_000)).toEqual({ origin: 1, version: 2 });
    // It was claimed again since it was asked.
    expect(await map.claim(mark, 2, 60_000, theirs)).toEqual({ origin: 1, version: 2 });
    const over = await map.claim(mark, 2, 60_000, { origin: 1, version: 2 });
    expect(over).toEqual({ origin: 2, version: 3 });
    expect(await map.claim(mark, 1, 60_000)).toEqual(over);
    const short = randomBytes(16);
    await map.claim(short, 1, -1);
    await prune(map, 0);
    expect(await map.claim(short, 2, -1)).toEqual({ origin: 2, version: 1 });
    expect((await map.claim(short, 3, 60_000)).origin).toBe(3);
  });

  it('grants all processes together no more than the limit of a key', async () => {
    const { map } = await joined();
    const [key, other] = [instance(), instance()];
    const day = Math.floor((await map.now()) / 86_400_000);
    const ask = (id: string, usedBytes: number, wantedBytes: number, limitBytes = 100) => ({
      ...{ id, usedBytes, wantedBytes, limitBytes },
    });
    const first = await map.reserveUsage(day, [ask(key, 0, 60)]);
    expect(first).toEqual([{ id: key, grantedBytes: 60, bytes: 60 }]);
    const both = await map.reserveUsage(day, [ask(other, 5, 1), ask(key, 0, 60)]);
    const byId = Object.fromEntries(both.map((grant) => [grant.id, grant]));
    expect(byId[key]).toEqual({ id: key, grantedBytes: 40, bytes: 100 });
    expect(byId[other]).toEqual({ id: other, grantedBytes: 1, bytes: 6 });
    // Used already, whatever the limit; and given back.
    expect(await map.reserveUsage(day, [ask(key, 20, 1)])).toMatchObject([{ bytes: 120 }]);
    expect(await map.reserveUsage(day, [ask(key, -50, 50)])).toMatchObject([
      { grantedBytes: 30, bytes: 100 },
    ]);
    expect(await map.reserveUsage(day, [ask(key, -200, 0)])).toMatchObject([{ bytes: 0 }]);
    expect(await map.reserveUsage(day + 1, [ask(key, 0, 7)])).toMatchObject([{ bytes: 7 }]);
    expect(await map.reserveUsage(day, [])).toEqual([]);
    const burst = await Promise.all(
      Array.from({ length: 20 }, () => map.reserveUsage(day, [ask(key, 0, 30)])),
    );
    expect(burst.flat().reduce((sum, { grantedBytes }) => sum + grantedBytes, 0)).toBe(100);
  });

  it('adopts a gateway that falls silent while the map looks why it does not', async () => {
    const { map, origin } = await joined();
    const mine = { instance: instance(), origin: undefined, url: undefined, place: 'one' };
    const { origin: away } = await map.join(mine);
    await map.leave(away, 'one');
    const driver = Reflect.get(map, 'driver') as { run(...all: unknown[]): Promise<unknown[]> };
    const run = vi.spyOn(driver, 'run').mockResolvedValueOnce([]);
    await map.adopt(away, origin);
    run.mockRestore();
    const gateways = await map.gateways();
    expect(gateways.find((each) => each.origin === away)?.adoption?.by).toBe(origin);
  });

  it('gives the files of a gateway to another one, once it is silent, and refuses it then', async () => {
    const { map, origin } = await joined();
    const mine = newcomer('one');
    const { origin: away } = await map.join(mine);
    const refused = { code: 'adoption_refused' };
    await expect(map.adopt(away, origin)).rejects.toMatchObject(refused);
    expect((await map.heartbeat(away, 'one', STAGED)).isOurs).toBe(true);
    await map.leave(away, 'one');
    for (const [one, by] of [
      [away, away],
      [away, (away % 0xffff) + 1],
      [(away % 0xffff) + 1, origin],
    ] as const) {
      await expect(map.adopt(one, by)).rejects.toMatchObject(refused);
    }
    for (let times = 0; times < 2; times++) await map.adopt(away, origin);
    await expect(map.join({ ...mine, origin: away })).rejects.toMatchObject({
      code: 'origin_adopted',
    });
    expect((await map.heartbeat(away, 'one', STAGED)).isOurs).toBe(false);
    const progress = { by: origin, isDone: false, trunks: 4, adopted: 2 };
    expect(await map.recordAdoption(away, progress)).toBe(true);
    expect(await map.recordAdoption(away, { ...progress, by: away })).toBe(false);
    const find = async () => (await map.gateways()).find((each) => each.origin === away)!;
    expect(await find()).toMatchObject({ staged: STAGED, place: '', adoption: progress });
    await map.recordAdoption(away, { ...progress, isDone: true });
    await map.adopt(away, origin);
    // A second run, begun before the first had ended, cannot undo that.
    expect(await map.recordAdoption(away, { ...progress, trouble: 'its copy is gone' })).toBe(
      false,
    );
    expect((await find()).adoption).toMatchObject({ ...progress, isDone: true });
    // It may come back: what was deleted since must stay deleted.
    const key = Buffer.alloc(16, 7);
    key.writeUInt16BE(away, 6);
    await map.remove([{ key }], true);
    await map.prune((await map.now()) + 1, 100);
    expect(await map.find([key])).toEqual(['removed']);
    await map.reopenAdoption(away);
    expect((await find()).adoption!.isDone).toBe(false);
    await map.recordAdoption(away, { ...progress, isDone: true });
    const { origin: third } = await map.join({ ...mine, instance: instance(), place: 'three' });
    await expect(map.adopt(away, third)).rejects.toMatchObject(refused);
    await map.leave(origin, 'here');
    await map.adopt(origin, third);
    // What it had adopted goes with it.
    expect((await find()).adoption).toEqual({ by: third, isDone: false, trunks: 0, adopted: 0 });
  });

  it('lets only the holder of the copies adopt a gateway, until that one is adopted itself', async () => {
    const { map, origin: holder } = await joined();
    const mine = { origin: undefined, url: undefined, place: 'one' };
    const { origin: away } = await map.join({ ...mine, instance: instance() });
    const { origin: third } = await map.join({ ...mine, instance: instance() });
    const find = async (origin = away) =>
      (await map.gateways()).find((each) => each.origin === origin)!;
    expect((await find()).holder).toBeUndefined();
    expect((await map.heartbeat(away, 'one', STAGED, third)).isOurs).toBe(true);
    expect((await map.heartbeat(away, 'one', STAGED, holder)).isOurs).toBe(true);
    expect((await map.heartbeat(away, 'one', STAGED)).isOurs).toBe(true);
    expect((await find()).holder).toBe(holder);
    await map.heartbeat(third, 'one', STAGED, null);
    expect((await find(third)).holder).toBeUndefined();
    await map.leave(away, 'one');
    await expect(map.adopt(away, third)).rejects.toMatchObject({
      code: 'adoption_refused',
      message: expect.stringContaining('holds the copies'),
    });
    await map.adopt(away, holder);
    const progress = { by: holder, isDone: false, trunks: 4, adopted: 2 };
    await map.recordAdoption(away, { ...progress, trouble: 'its disk cannot be read' });
    expect((await find()).adoption).toEqual({ ...progress, trouble: 'its disk cannot be read' });
    await map.recordAdoption(away, progress);
    expect((await find()).adoption).toEqual(progress);
    // The holder will not return either, and nor will its copies.
    const { origin: other } = await map.join({ ...mine, instance: instance() });
    await map.heartbeat(other, 'one', STAGED, holder);
    await map.leave(other, 'one');
    await expect(map.adopt(other, third)).rejects.toMatchObject({ code: 'adoption_refused' });
    await map.leave(holder, 'here');
    await map.adopt(holder, third);
    await map.adopt(other, third);
    for (const each of [away, holder, other]) {
      expect((await find(each)).adoption).toMatchObject({ by: third, isDone: false });
    }
  });

  it('lists trunks, files and removals, and does not undo a move that comes late', async () => {
    const { map, origin } = await joined();
    const other = (origin % 0xffff) + 1;
    const [small, whole] = [file(origin, 40), file(origin)];
    const trunk = { id: key(origin), fileId: TRUNK };
    const large = { id: key(origin), fileId: 'group1/M00/00/00/large' };
    await map.place(trunk, [small]);
    await map.place(large, [whole]);
    await map.place({ id: key(other), fileId: OTHER_TRUNK }, [file(other, 50)]);
    const all = await map.trunks(Buffer.alloc(0), 100, origin);
    const ids = [trunk, large].map(({ id }) => id.toString('hex')).sort();
    expect(all.map(({ id }) => Buffer.from(id).toString('hex'))).toEqual(ids);
    const listed = all.find(({ isWhole }) => isWhole)!;
    expect(listed.fileId).toBe(large.fileId);
    expect(listed.file).toMatchObject({ size: whole.size, about: whole.about });
    expect(await map.trunks(all[0]!.id, 100, origin)).toEqual([all[1]]);
    expect((await map.trunks(Buffer.alloc(0), 2)).length).toBe(2);
    const files = await map.files(undefined, 1);
    for (let page = files; page.length > 0; ) {
      page = await map.files(files.at(-1)!.key, 1000);
      files.push(...page);
    }
    const mine = files.filter((each) => originOf(each.key) === origin);
    expect(mine.map(({ trunkFileId }) => trunkFileId).sort()).toEqual([TRUNK, large.fileId].sort());
    const moved = { ...small, offset: 7, about: JSON.stringify({ was: [[TRUNK, 40]] }) };
    const to = { id: key(origin), fileId: OTHER_TRUNK };
    await map.place(to, [moved]);
    await map.place(trunk, [small]);
    expect(await map.find([small.key])).toMatchObject([{ trunkFileId: OTHER_TRUNK, offset: 7 }]);
    await map.displace(trunk.id, [small.key]);
    expect(await map.find([small.key])).toMatchObject([{ trunkFileId: OTHER_TRUNK }]);
    await map.displace(to.id, [small.key]);
    expect(await map.find([small.key])).toEqual([undefined]);
    await map.remove([whole, small], true);
    const removed = await map.removalsOf(origin, Buffer.alloc(0), 1);
    const more = await map.removalsOf(origin, removed[0]!, 100);
    expect([...removed, ...more].length).toBe(2);
    expect((await map.trunks(Buffer.alloc(0), 9, origin)).every((each) => !each.file)).toBe(true);
    // They stay for who adopts a gateway that is away.
    await map.retire(to.id);
  });

  it('takes no files at all', async () => {
    const { map } = await joined();
    await map.place({ id: randomBytes(16), fileId: TRUNK }, []);
    await map.remove([], true);
    expect(await map.find([])).toEqual([]);
  });

  it('is made by several gateways at the same time', async () => {
    const maps = await Promise.all(Array.from({ length: 6 }, open));
    onTestFinished(async () => {
      for (const map of maps) await map.close();
    });
    const all = await Promise.all(maps.map((map) => map.join(newcomer())));
    expect(new Set(all.map(({ origin }) => origin)).size).toBe(6);
    expect(new Set(all.map(({ secret }) => secret)).size).toBe(1);
  });
}

/** What a map tells at once, where its database can. */
function tells(open: () => Promise<DeploymentMap>, cut: () => void): void {
  it('tells every gateway what another one changes, after its connection was cut too', async () => {
    const [here, there] = await Promise.all([open(), open()]);
    onTestFinished(async () => void (await Promise.all([here.close(), there.close()])));
    const heard: Topic[] = [];
    await there.prepare();
    there.listen((topic) => heard.push(topic));
    for (const isCut of [false, true]) {
      if (isCut) cut();
      const { origin } = await here.join(newcomer());
      await expect.poll(async () => (await there.gateways()) && there.isListening).toBe(true);
      heard.length = 0;
      await here.remove([{ key: key(origin) }], false);
      await expect.poll(() => heard).toContain('removals');
      await here.setSettings([{ kind: 'keys', name: 'a', body: '{}' }], true);
      await expect.poll(() => heard).toContain('settings');
      await here.join(newcomer());
      await expect.poll(() => heard).toContain('gateways');
    }
  });
}

describe('a map in SQLite', () => {
  let path: string;
  beforeEach(() => {
    path = join(temporaryFolder(), 'map.db');
  });
  contract(() => openMap(`sqlite:${path}`));
  tells(
    () => openMap(`sqlite:${path}`),
    () => undefined,
  );
});

describe.skipIf(needsPostgres.missing)('a map in PostgreSQL', () => {
  let server: PostgresServer;
  let url: string;
  beforeAll(async () => {
    server = await PostgresServer.start(true);
    url = server.newDatabase();
  });
  afterAll(() => server.stop());
  contract(() => openMap(url));
  tells(
    () => openMap(url),
    () => {
      const listening = "query ILIKE 'listen %' AND pid <> pg_backend_pid()";
      server.run(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE ${listening}`);
    },
  );

  describe.skipIf(needsPgbouncer.missing)('behind PgBouncer', () => {
    let bouncer: Awaited<ReturnType<typeof pooled>>;
    beforeAll(async () => {
      bouncer = await pooled(server);
    });
    afterAll(() => bouncer.stop());
    contract(() => openMap(bouncer.url));
    it('takes many statements at once', async () => {
      const maps = await Promise.all([1, 2, 3].map(() => openMap(bouncer.url)));
      onTestFinished(async () => void (await Promise.all(maps.map((map) => map.close()))));
      await maps[0]!.prepare();
      const placed = Array.from({ length: 90 }, (_, index) => file(index + 1));
      const each = (index: number) => maps[index % 3]!;
      await Promise.all(
        placed.flatMap((one, index) => [
          each(index).place({ id: randomBytes(16), fileId: TRUNK }, [one]),
          each(index).gateways(),
          each(index).now(),
        ]),
      );
      const found = await Promise.all(placed.map((one, index) => each(index + 1).find([one.key])));
      expect(found.flat().map((one) => (one as MappedFile).crc32)).toEqual(
        placed.map(({ crc32 }) => crc32),
      );
    });
  });
});

it('refuses a URL that is none, without its password', async () => {
  for (const url of ['mysql://me:secret@host/db', 'postgres://me:secret@/db?spread=yes', 'map']) {
    const error = await openMap(url).catch((reason: Error) => reason);
    expect(error).toMatchObject({ code: 'map_url' });
    expect((error as Error).message).not.toContain('secret');
  }
});
