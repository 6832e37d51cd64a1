import { crc32, deflateSync } from 'node:zlib';
import { deferred } from '@stevedore/async';
import { open } from '@stevedore/client';
import { type Gateway, type GatewayInput, startGateway } from '@stevedore/gateway';
import { ProblemError, queryOf, signedDownload } from '@stevedore/middleware/core';
import { type PictureOptions, Pictures } from '@stevedore/pictures';
import sharp, { type Sharp } from 'sharp';
import { afterAll, expect, onTestFinished, test } from 'vitest';
import { RefusedPictures } from '../../../packages/pictures/dist/refused-pictures.js';
import { execFileSync } from '../../support/child-process.js';
import { running } from '../../support/gateway/harness.js';
import { startGatewayProcess } from '../../support/gateway-process.js';
import { TEST } from '../../support/paths.js';
import { soon } from '../../support/soon.js';
import { ofSuite, temporaryFolder } from '../../support/temporary.js';

/** Pictures as clients get them; their bytes are read by sharp, apart from the product's encoders. */

const SECRET = 'a secret of signed URLs';

function started(directory: string, input: GatewayInput = {}): Promise<Gateway> {
  const ports = { port: 0, trackerPort: 0, storagePort: 0 } as const;
  const pictureSizes = '320,x100,64x64';
  return startGateway({ ...ports, pictureSizes, directory, ...input });
}

/** Of the tests that need none of their own. */
const gateway = await started(temporaryFolder(ofSuite), { idMaxAge: 0 });
const store = await open({ directory: temporaryFolder(ofSuite) });
afterAll(async () => {
  await gateway.close();
  await store.close();
});

/** Red on the left, blue on the right. */
function photograph(width = 800, height = 600): Sharp {
  const half = { width: Math.floor(width / 2), height, channels: 3, background: 'blue' } as const;
  return sharp({ create: { ...half, width, background: 'red' } }).composite([
    { input: { create: half }, left: Math.ceil(width / 2), top: 0 },
  ]);
}

async function upload({ url }: Gateway, body: Buffer, type: string, group = ''): Promise<string> {
  const response = await fetch(`${url}/files`, {
    method: 'POST',
    body: new Uint8Array(body),
    headers: { 'content-type': type, 'x-filename': 'photo', ...(group && { 'x-group': group }) },
  });
  expect(response.status).toBe(201);
  return ((await response.json()) as { key: string }).key;
}

async function picture(gateway: Gateway, path: string, accept = '*/*') {
  const response = await fetch(`${gateway.url}${path}`, { headers: { accept } });
  const bytes = Buffer.from(await response.arrayBuffer());
  return { response, bytes };
}

async function problem(gateway: Gateway, path: string): Promise<[number, string]> {
  const { response, bytes } = await picture(gateway, path);
  return [response.status, (JSON.parse(bytes.toString()) as { code: string }).code];
}

test('a picture has the size, the shape and the format that were asked for', async () => {
  const key = await upload(gateway, await photograph().jpeg().toBuffer(), 'image/jpeg');
  const wide = await picture(gateway, `/files/${key}?w=320`, 'image/avif,image/webp,*/*');
  expect(wide.response.status).toBe(200);
  expect(wide.response.headers.get('content-type')).toBe('image/avif');
  expect(wide.response.headers.get('vary')).toContain('Accept');
  expect(await sharp(wide.bytes).metadata()).toMatchObject({ width: 320, height: 240 });
  const square = await picture(gateway, `/files/${key}?w=64&h=64&fit=cover&format=png`);
  expect(square.response.headers.get('vary')).toBeNull();
  expect(await sharp(square.bytes).metadata()).toMatchObject({
    width: 64,
    height: 64,
    format: 'png',
  });
  const low = await picture(gateway, `/files/${key}?h=100`);
  expect(low.response.headers.get('content-type')).toBe('image/jpeg');
  expect(await sharp(low.bytes).metadata()).toMatchObject({ width: 133, height: 100 });
  // Left and right are where they were.
  const { data, info } = await sharp(low.bytes).raw().toBuffer({ resolveWithObject: true });
  const pixel = (x: number) => [...data.subarray(x * info.channels, x * info.channels + 3)];
  expect(pixel(5)[0]).toBeGreaterThan(200);
  expect(pixel(127)[2]).toBeGreaterThan(200);
  // Conditions and ranges are those of any file; the file itself is as it was.
  const etag = wide.response.headers.get('etag')!;
  const again = await fetch(`${gateway.url}/files/${key}?w=320`, {
    headers: { accept: 'image/avif', 'if-none-match': etag },
  });
  expect(again.status).toBe(304);
  const range = await fetch(`${gateway.url}/files/${key}?w=320&format=avif`, {
    headers: { range: 'bytes=0-9' },
  });
  expect(Buffer.from(await range.arrayBuffer())).toEqual(wide.bytes.subarray(0, 10));
  const original = await picture(gateway, `/files/${key}`);
  expect(await sharp(original.bytes).metadata()).toMatchObject({ width: 800, height: 600 });
});

test('a photograph is turned as its EXIF says, and loses it', async () => {
  const withPlace = { IFD0: { Orientation: '6', Copyright: 'somebody' } };
  const body = await photograph()
    .withExif(withPlace)
    .withMetadata({ orientation: 6 })
    .jpeg()
    .toBuffer();
  expect((await sharp(body).metadata()).orientation).toBe(6);
  const key = await upload(gateway, body, 'image/jpeg');
  const { bytes } = await picture(gateway, `/files/${key}?w=320`);
  const metadata = await sharp(bytes).metadata();
  expect(metadata).toMatchObject({ width: 320, height: 427 });
  expect(metadata.exif).toBeUndefined();
  expect(metadata.orientation).toBeUndefined();
});

test('moving pictures, print colours and 16 bits become still pictures in sRGB with 8', async () => {
  const frames = await Promise.all(
    ['red', 'blue'].map((background) =>
      sharp({ create: { width: 80, height: 60, channels: 3, background } })
        .png()
        .toBuffer(),
    ),
  );
  const moving = sharp(frames, { join: { animated: true } }).gif();
  const print = photograph().toColourspace('cmyk').jpeg();
  const deep = photograph().toColourspace('rgb16').png();
  const bodies = { 'image/gif': moving, 'image/jpeg': print, 'image/png': deep };
  for (const [type, body] of Object.entries(bodies)) {
    const key = await upload(gateway, await body.toBuffer(), type);
    const { response, bytes } = await picture(gateway, `/files/${key}?w=64&h=64&format=png`);
    expect(response.status, type).toBe(200);
    const metadata = await sharp(bytes).metadata();
    expect(metadata, type).toMatchObject({ width: 64, height: 48, space: 'srgb', depth: 'uchar' });
    expect(metadata.pages ?? 1, type).toBe(1);
    // The first frame, and the left of the photographs, is red.
    const [red, , blue] = await sharp(bytes).raw().toBuffer();
    expect(red! - blue!, type).toBeGreaterThan(100);
  }
});

test('only sizes of the list are made, and any for a signed URL', async () => {
  const body = await photograph().png().toBuffer();
  const key = await upload(gateway, body, 'image/png');
  expect(await problem(gateway, `/files/${key}?w=321`)).toEqual([403, 'picture_size_not_allowed']);
  expect(await problem(gateway, `/files/${key}?format=webp`)).toEqual([
    403,
    'picture_size_not_allowed',
  ]);
  expect(await problem(gateway, `/files/${key}?w=many`)).toEqual([400, 'bad_request']);
  const signing = await started(temporaryFolder(), { urlSecret: SECRET });
  onTestFinished(() => signing.close());
  const own = await upload(signing, body, 'image/png');
  const ends = new Date(Date.now() + 60_000);
  const signed = signedDownload(SECRET, own, ends, { w: '77', format: 'webp' });
  const { response, bytes } = await picture(signing, signed);
  expect(response.status).toBe(200);
  expect(await sharp(bytes).metadata()).toMatchObject({ width: 77, format: 'webp' });
  expect(await problem(signing, signed.replace('w=77', 'w=78'))).toEqual([
    403,
    'signature_invalid',
  ]);
});

test('what is no picture, is broken or costs too much is refused, and nothing is lost', async () => {
  const jpeg = await photograph().jpeg().toBuffer();
  const svg = Buffer.from('<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>');
  const bodies = [
    ['picture_unsupported', 415, Buffer.from('no picture'), 'image/jpeg'],
    ['picture_unsupported', 415, svg, 'image/svg+xml'],
    ['picture_broken', 422, jpeg.subarray(0, 100), 'image/jpeg'],
    ['picture_too_costly', 422, bomb(60_000, 60_000), 'image/png'],
    ['picture_too_costly', 422, bomb(1, 40_000_000), 'image/png'],
    ['picture_too_costly', 422, bomb(32_769, 1), 'image/png'],
  ] as const;
  for (const [code, status, body, type] of bodies) {
    const key = await upload(gateway, body, type);
    expect(await problem(gateway, `/files/${key}?w=320`)).toEqual([status, code]);
    const same = await picture(gateway, `/files/${key}`);
    expect(same.bytes.equals(body)).toBe(true);
  }
  const key = await upload(gateway, jpeg, 'image/jpeg');
  expect((await picture(gateway, `/files/${key}?w=320`)).response.status).toBe(200);
});

test('a JPEG that was cut in half is shown as far as it goes', async () => {
  const noise = { create: { width: 400, height: 300, channels: 3, background: 'red' } } as const;
  const grain = { type: 'gaussian', mean: 128, sigma: 60 } as const;
  const jpeg = await sharp({ create: { ...noise.create, noise: grain } })
    .jpeg()
    .toBuffer();
  const key = await upload(gateway, jpeg.subarray(0, jpeg.length / 2), 'image/jpeg');
  const { response, bytes } = await picture(gateway, `/files/${key}?w=320&format=png`);
  expect(response.status).toBe(200);
  const deviations = [0, 180].map(async (top) => {
    const part = sharp(bytes).extract({ left: 0, top, width: 320, height: 50 });
    const { channels } = await sharp(await part.toBuffer()).stats();
    return channels[0]!.stdev;
  });
  const [upper, lower] = await Promise.all(deviations);
  expect(upper).toBeGreaterThan(10);
  expect(lower).toBeLessThan(1);
});

/** A PNG that says it is large; its pixels are zeros and compress to little. */
function bomb(width: number, height: number): Buffer {
  const chunk = (type: string, data: Buffer): Buffer => {
    const head = Buffer.alloc(8);
    head.writeUInt32BE(data.length, 0);
    head.write(type, 4, 'latin1');
    const sum = Buffer.alloc(4);
    sum.writeUInt32BE(crc32(Buffer.concat([head.subarray(4), data])));
    return Buffer.concat([head, data, sum]);
  };
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  header.writeUInt8(8, 8);
  return Buffer.concat([
    Buffer.from('89504e470d0a1a0a', 'hex'),
    chunk('IHDR', header),
    chunk('IDAT', deflateSync(Buffer.alloc(Math.min(height, 1000) * (width + 1)))),
    chunk('IEND', Buffer.alloc(0)),
  ]);
}

test('a picture is made once, lies beside its original, and goes with it', async () => {
  const store = await open({ directory: temporaryFolder() });
  onTestFinished(() => store.close());
  const pictures = new Pictures({ store, sizes: ['320'] });
  onTestFinished(() => pictures.close());
  const { key } = await store.put(await photograph().jpeg().toBuffer(), {
    ...{ name: 'a.jpg', type: 'image/jpeg', group: 'album' },
  });
  const show = async () =>
    pictures.shown(queryOf(`/${key}?w=320`), 'image/webp', await store.get(key), false, 'a');
  const shown = await Promise.all(Array.from({ length: 20 }, show));
  const keys = new Set(shown.map((each) => each!.file.key));
  expect(keys.size).toBe(1);
  expect(store.stats()).toMatchObject({ acknowledgedFiles: 1, stagedFiles: 1, derivedFiles: 1 });
  const [made] = keys;
  expect(await store.stat(made!)).toMatchObject({
    ...{ name: 'a.webp', type: 'image/webp', group: 'album', pictureOf: key },
    expiresAt: expect.any(Date),
  });
  expect((await show())!.file.key).toBe(made);
  await store.delete(key);
  await expect(store.get(made!)).rejects.toMatchObject({ code: 'not_found' });
});

test('a picture that two processes made at once goes with its original, both times', async () => {
  const workers = [1, 2].map(() => new Pictures({ store, sizes: ['320'] }));
  for (const pictures of workers) onTestFinished(() => pictures.close());
  const { key } = await store.put(await photograph().jpeg().toBuffer());
  const original = await store.get(key);
  const shown = await Promise.all(
    workers.map((pictures) =>
      pictures.shown(queryOf(`/${key}?w=320`), undefined, original, false, 'a'),
    ),
  );
  const made = new Set(shown.map((each) => each!.file.key!));
  expect(made.size).toBe(2);
  await store.delete(key);
  for (const each of made) {
    await expect(store.get(each)).rejects.toMatchObject({ code: 'not_found' });
  }
});

test('an original that is deleted while its picture is made takes it along', async () => {
  const store = await open({ directory: temporaryFolder() });
  onTestFinished(() => store.close());
  const pictures = new Pictures({ store, sizes: ['320'] });
  onTestFinished(() => pictures.close());
  const { key } = await store.put(await photograph().jpeg().toBuffer());
  const file = await store.get(key);
  const original = {
    ...file,
    key,
    bytes: async () => {
      const bytes = await file.bytes();
      await store.delete(key);
      return bytes;
    },
  };
  const shown = pictures.shown(queryOf(`/${key}?w=320`), undefined, original, false, 'a');
  await expect(shown).rejects.toMatchObject({ code: 'not_found' });
  expect(store.stats()).toMatchObject({ stagedFiles: 0, derivedFiles: 0 });
});

test('a gateway that deletes a file shows no picture of it', async () => {
  const key = await upload(gateway, await photograph().jpeg().toBuffer(), 'image/jpeg');
  expect((await picture(gateway, `/files/${key}?w=320`)).response.status).toBe(200);
  const before = gateway.store.stats().derivedFiles;
  expect((await fetch(`${gateway.url}/files/${key}`, { method: 'DELETE' })).status).toBe(204);
  expect(await problem(gateway, `/files/${key}?w=320`)).toEqual([404, 'not_found']);
  expect(gateway.store.stats().derivedFiles).toBe(before - 1);
});

test('by its FastDFS id too, a picture has its own type, and goes with the original', async () => {
  const key = await upload(gateway, await photograph().jpeg().toBuffer(), 'image/jpeg');
  await gateway.store.flush();
  const fileId = await gateway.store.settled(key);
  const { response, bytes } = await picture(gateway, `/${fileId}?w=320`, 'image/webp');
  expect(response.headers.get('content-type')).toBe('image/webp');
  expect(await sharp(bytes).metadata()).toMatchObject({ width: 320, format: 'webp' });
  const before = gateway.store.stats().derivedFiles;
  expect((await fetch(`${gateway.url}/${fileId}`, { method: 'DELETE' })).status).toBe(204);
  expect(gateway.store.stats().derivedFiles).toBe(before - 1);
});

test('originals are read when an encoder has its turn, not while they wait', async () => {
  const pictures = new Pictures({ store, sizes: ['10'], processes: 1 });
  onTestFinished(() => pictures.close());
  const { key } = await store.put(await photograph(40, 30).jpeg().toBuffer());
  const file = await store.get(key);
  let [reading, most] = [0, 0];
  const original = {
    ...file,
    key,
    bytes: async () => {
      reading += 1;
      most = Math.max(most, reading);
      const bytes = await file.bytes();
      reading -= 1;
      return bytes;
    },
  };
  const ask = (format: string) =>
    pictures.shown(queryOf(`/${key}?w=10&format=${format}`), undefined, original, false, 'a');
  await Promise.all(['jpeg', 'png', 'webp', 'avif'].map(ask));
  expect(most).toBe(1);
});

test('the decoder, and what answers its messages, is in no process but its own', () => {
  const script = `await import('@stevedore/pictures');
    console.log(process.listenerCount('message'), process.listenerCount('disconnect'),
      (await import('node:fs')).readFileSync('/proc/self/maps', 'utf8').includes('sharp'));`;
  const args = ['--input-type=module', '--eval', script];
  const cwd = TEST;
  expect(execFileSync(process.execPath, args, { cwd, encoding: 'utf8' })).toBe('0 0 false\n');
});

test('with workers, pictures are made and found whichever worker is asked', async () => {
  const gateway = await startGatewayProcess(
    temporaryFolder(),
    ...['--workers', '2', '--picture-sizes', '320'],
  );
  const body = new Uint8Array(await photograph().jpeg().toBuffer());
  const posted = await fetch(`${gateway.url}/files`, { method: 'POST', body });
  const { key } = (await posted.json()) as { key: string };
  const etags = new Set<string>();
  for (let count = 0; count < 8; count += 1) {
    // A connection of its own: they are dealt out in turn.
    const headers = { connection: 'close' };
    const response = await fetch(`${gateway.url}/files/${key}?w=320`, { headers });
    expect(response.status).toBe(200);
    await response.arrayBuffer();
    etags.add(response.headers.get('etag')! + response.headers.get('last-modified'));
  }
  expect(etags.size).toBe(1);
});

test('an encoder that takes too long or too much memory is ended, and the next is served', async () => {
  const { key } = await store.put(await photograph(4000, 3000).jpeg().toBuffer());
  const file = await store.get(key);
  const small = await store.put(await photograph(40, 30).jpeg().toBuffer());
  for (const limit of [
    { timeoutMs: 1 },
    { maxMemoryBytes: 1 },
    { maxPixels: 1000 },
    { maxBytes: 9 },
  ]) {
    const pictures = new Pictures({ store, sizes: ['2000'], processes: 1, ...limit });
    onTestFinished(() => pictures.close());
    const costly = pictures.shown(
      queryOf(`/${key}?w=2000&format=avif`),
      undefined,
      file,
      false,
      'a',
    );
    await expect(costly, JSON.stringify(limit)).rejects.toMatchObject({
      code: 'picture_too_costly',
    });
  }
  const pictures = new Pictures({ store, sizes: ['10'], processes: 1, maxWaiting: 1 });
  onTestFinished(() => pictures.close());
  const original = await store.get(small.key);
  const ask = (fit: string) =>
    pictures.shown(queryOf(`/${key}?w=10&format=${fit}`), undefined, original, false, 'a');
  const asked = await Promise.allSettled(['jpeg', 'png', 'webp', 'avif'].map(ask));
  const refused = asked.flatMap((each) => (each.status === 'rejected' ? [each.reason.code] : []));
  expect(refused).toEqual(['pictures_busy', 'pictures_busy']);
  expect((await ask('avif'))?.file.type).toBe('image/avif');
});

/** One encoder, and originals whose bytes it gets when the test lets it go on. */
async function held(limits: Partial<PictureOptions> = {}, body?: Buffer) {
  const pictures = new Pictures({ store, sizes: [], processes: 1, ...limits });
  onTestFinished(() => pictures.close());
  const { key } = await store.put(body ?? (await photograph(40, 30).png().toBuffer()));
  const file = await store.get(key);
  const { promise: gate, resolve: goOn } = deferred<void>();
  /** Widths in the order in which their originals were read. */
  const read: number[] = [];
  const ask = (client: string, width: number) => {
    const bytes = async () => {
      read.push(width);
      await gate;
      return file.bytes();
    };
    const url = `/${key}?w=${width}&format=png`;
    const shown = pictures.shown(queryOf(url), undefined, { ...file, key, bytes }, true, client);
    return shown.then(
      () => 'shown',
      (error: { code: string }) => error.code,
    );
  };
  return { ask, goOn, read };
}

test('a client with many requests does not hold up one that has a few', async () => {
  const { ask, goOn, read } = await held();
  const greedy = [1, 2, 3, 4, 5].map((width) => ask('greedy', width));
  await soon(() => expect(read).toEqual([1]));
  const others = [ask('b', 11), ask('c', 21), ask('b', 12)];
  goOn();
  expect(await Promise.all([...greedy, ...others])).toEqual(Array(8).fill('shown'));
  expect(read).toEqual([1, 2, 11, 21, 3, 12, 4, 5]);
});

test('a full queue takes a place from the client that has most, for one that has fewer', async () => {
  const { ask, goOn, read } = await held({ maxWaiting: 3 });
  const greedy = [1, 2, 3, 4, 5].map((width) => ask('greedy', width));
  expect(await greedy[4]).toBe('pictures_busy');
  const other = [ask('b', 11)];
  expect(await greedy[3]).toBe('pictures_busy');
  // Two of one and one of the other: taking another place would only turn that round.
  expect(await ask('b', 12)).toBe('pictures_busy');
  expect(await ask('greedy', 6)).toBe('pictures_busy');
  goOn();
  expect(await Promise.all([...greedy.slice(0, 3), ...other])).toEqual(Array(4).fill('shown'));
  expect(read).toEqual([1, 2, 11, 3]);
});

test('a picture that was refused costs no encoder again until ten minutes have passed', async () => {
  let now = Date.now();
  const { ask, goOn, read } = await held({ now: () => now }, bomb(1, 40_000_000));
  goOn();
  for (let count = 0; count < 5; count += 1) expect(await ask('a', 10)).toBe('picture_too_costly');
  expect(await ask('b', 10)).toBe('picture_too_costly');
  expect(read).toEqual([10]);
  expect(await ask('a', 20)).toBe('picture_too_costly');
  now += 600_000;
  expect(await ask('a', 10)).toBe('picture_too_costly');
  expect(read).toEqual([10, 20, 10]);
});

test('the oldest refusals are forgotten, and those that pass are never kept', () => {
  const refusals = new RefusedPictures({ maxEntries: 2, maxAgeMs: 1000 }, () => 0);
  for (const name of ['a', 'b', 'c']) {
    refusals.add(name, new ProblemError('picture_broken', `${name} is broken`));
  }
  refusals.add('d', new ProblemError('pictures_busy', 'busy'));
  refusals.add('e', new Error('of the disk'));
  for (const name of ['a', 'd', 'e']) refusals.demandNone(name);
  for (const name of ['b', 'c'])
    expect(() => refusals.demandNone(name)).toThrow(`${name} is broken`);
});

test('clients of a gateway are told apart by the address that a trusted proxy names', async () => {
  const clients: string[] = [];
  const pictures = {
    shown: async (...asked: readonly unknown[]) => void clients.push(String(asked[4])),
    remove: async () => {},
    close: () => {},
  };
  const { url, store } = await running({ pictures, trustProxy: ['loopback'] });
  const { key } = await store.put(Buffer.from('x'));
  for (const client of ['203.0.113.1', '2001:db8::1']) {
    await fetch(`${url}/files/${key}?w=1`, { headers: { 'x-forwarded-for': client } });
  }
  await fetch(`${url}/files/${key}?w=1`);
  expect(clients).toEqual(['203.0.113.1', '2001:db8::1', '127.0.0.1']);
});
