import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { request as httpRequest, type IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { inspectDeployment, tunnelName } from '@stevedore/client/internal';
import { openDatabase } from '@stevedore/disk/sqlite';
import type { Gateway } from '@stevedore/gateway';
import { expect, it } from 'vitest';
import {
  isAnswerProof,
  PEER_FILE_HEADER,
  PEER_HEADER,
  type PeerSecret,
  peerToken,
} from '../../../packages/client/dist/holders/peer-seals.js';
import { deployedGateway, deployedPair } from '../../support/deployment.js';
import { tus as tusOf } from '../../support/gateway/tus.js';
import { quiet } from '../../support/quiet.js';
import { soon } from '../../support/soon.js';
import { ofSuite, temporaryFolder } from '../../support/temporary.js';

/** Gateways of one deployment, by HTTP: what is staged at one is read at each of them. */

const shared = await deployedPair({ smallFileLimit: '1MiB' }, {}, ofSuite);

async function upload({ url }: Gateway, content: Buffer, name = 'f.bin'): Promise<string> {
  const headers = { 'x-filename': name, 'content-type': 'image/png' };
  const response = await fetch(`${url}/files`, { method: 'POST', body: content, headers });
  expect(response.status).toBe(201);
  return ((await response.json()) as { key: string }).key;
}

const read = ({ url }: Gateway, path: string, headers: Record<string, string> = {}) =>
  fetch(`${url}${path}`, { headers });

async function bytesOf(response: Response): Promise<Buffer> {
  return Buffer.from(await response.arrayBuffer());
}

it('an upload in several requests goes on at any gateway', async () => {
  const { first, second } = await deployedPair(
    { smallFileLimit: '1MiB' },
    { trustProxy: ['loopback'] },
  );
  const prefix = { 'x-forwarded-prefix': '/storage' };
  const tus: typeof tusOf = (url, method, more, ...rest) =>
    tusOf(url, method, { ...prefix, ...more }, ...rest);
  const content = randomBytes(3_000_000);
  const begun = await tus(`${first.url}/uploads`, 'POST', { 'upload-length': '3000000' });
  const path = begun.headers.get('location')!;
  const key = path.slice(path.lastIndexOf('/') + 1);
  let last: string | null = null;
  for (const [index, { url }] of [second, first, second].entries()) {
    const offset = index * 1_000_000;
    const at = { 'upload-offset': String(offset) };
    const answer = await tus(url + path, 'PATCH', at, content.subarray(offset, offset + 1_000_000));
    expect(answer.status).toBe(204);
    expect(answer.headers.get('upload-offset')).toBe(String(offset + 1_000_000));
    last = answer.headers.get('content-location');
    const head = await tus(url + path, 'HEAD', {});
    expect(head.headers.get('upload-offset')).toBe(String(offset + 1_000_000));
  }
  // The prefix is that of the gateway which was asked, not of the one that has the bytes.
  expect(last).toBe(`/storage/files/${key}`);
  expect((await bytesOf(await read(second, `/files/${key}`))).equals(content)).toBe(true);
  // One hop: who was asked by another gateway answers for itself.
  const nobody = `/uploads/${'A'.repeat(22)}`;
  expect((await tus(second.url + nobody, 'HEAD', {})).status).toBe(404);
  const other = await tus(`${first.url}/uploads`, 'POST', { 'upload-length': '5' });
  const at = other.headers.get('location')!;
  const token = peerToken(first.store.deployment!, 'HEAD', at);
  expect((await tus(second.url + at, 'HEAD', { [PEER_HEADER]: token })).status).toBe(404);
  expect((await tus(first.url + at, 'HEAD', { [PEER_HEADER]: token })).status).toBe(200);
  // Only a gateway passes requests on.
  expect((await tus(first.url + at, 'HEAD', { [PEER_HEADER]: 'x' })).status).toBe(404);
  await first.close();
  const away = await tus(second.url + at, 'PATCH', { 'upload-offset': '0' }, content);
  expect([away.status, away.code]).toEqual([503, 'storage_unavailable']);
});

it('an upload in several requests waits for its gateway to restart', async () => {
  const directory = temporaryFolder();
  const { map, first, second } = await deployedPair({}, { directory });
  const content = randomBytes(200_000);
  const begun = await tusOf(`${second.url}/uploads`, 'POST', { 'upload-length': '200000' });
  const path = begun.headers.get('location')!;
  const head = () => tusOf(first.url + path, 'HEAD');
  expect((await head()).headers.get('upload-offset')).toBe('0');
  await second.close();
  const patched = tusOf(first.url + path, 'PATCH', { 'upload-offset': '0' }, content);
  await quiet();
  const trackers = first.store.trackers.join(',');
  const port = Number(new URL(second.url).port);
  const again = await deployedGateway({ map, port, peerUrl: second.url, trackers, directory });
  expect((await patched).status).toBe(204);
  const key = path.slice(path.lastIndexOf('/') + 1);
  expect((await bytesOf(await read(again, `/files/${key}`))).equals(content)).toBe(true);
});

it('a file that is staged at one gateway is the same at the other one', async () => {
  const { first, second } = shared;
  for (const size of [0, 1, 20_480, 5_000_000]) {
    const content = randomBytes(size);
    const key = await upload(first, content, `ü ${size}.png`);
    const [own, foreign] = [
      await read(first, `/files/${key}`),
      await read(second, `/files/${key}`),
    ];
    expect(foreign.status).toBe(200);
    for (const name of [
      'etag',
      'content-type',
      'content-disposition',
      'content-length',
      'last-modified',
      'cache-control',
    ]) {
      expect(foreign.headers.get(name), name).toBe(own.headers.get(name));
    }
    expect((await bytesOf(foreign)).equals(content)).toBe(true);
    expect((await bytesOf(own)).equals(content)).toBe(true);
    if (size < 20_000) continue;
    const part = await read(second, `/files/${key}`, { range: 'bytes=100-10099' });
    expect(part.status).toBe(206);
    expect((await bytesOf(part)).equals(content.subarray(100, 10_100))).toBe(true);
    const known = await read(second, `/files/${key}`, {
      'if-none-match': own.headers.get('etag')!,
    });
    expect(known.status).toBe(304);
    const info = await (await read(second, `/files/${key}/info`)).json();
    expect(info).toEqual(await (await read(first, `/files/${key}/info`)).json());
  }
});

it('while its gateway is away a staged file is 503, a merged one is read, and only what is nowhere is 404', async () => {
  const { first, second } = await deployedPair({ stagedCopies: 1 });
  const content = randomBytes(3000);
  // The tracker and the storage stay: the second gateway has them.
  const merged = await upload(second, content);
  const staged = await upload(second, randomBytes(10));
  await second.store.stat(merged);
  await second.store.flush();
  const later = await upload(second, randomBytes(10));
  expect((await read(first, `/files/${staged}`)).status).toBe(200);
  await second.close();
  const answer = await read(first, `/files/${later}`);
  expect(answer.status).toBe(503);
  expect(Number(answer.headers.get('retry-after'))).toBeGreaterThan(0);
  expect(await bytesOf(await read(first, `/files/${merged}`))).toEqual(content);
  // A key of an origin that the deployment does not have, and one of its own that was never given out.
  const unknown = Buffer.from(merged, 'base64url');
  unknown.writeUInt16BE(unknown.readUInt16BE(6) ^ 1, 6);
  expect((await read(first, `/files/${unknown.toString('base64url')}`)).status).toBe(404);
  const own = Buffer.from(await upload(first, content), 'base64url');
  own[15] = own[15]! ^ 1;
  expect((await read(first, `/files/${own.toString('base64url')}`)).status).toBe(404);
});

it('a gateway takes copies over a connection of a gateway of the deployment alone', async () => {
  const { first } = shared;
  const peers = first.store.deployment!;
  const path = tunnelName(peers.origin ^ 1);
  const connect = async (by: PeerSecret, name = path) => {
    const headers = { [PEER_HEADER]: peerToken(by, 'CONNECT', name) };
    const asked = httpRequest(first.url, { method: 'CONNECT', path, headers }).end();
    const [answer, socket] = (await once(asked, 'connect')) as [IncomingMessage, Duplex];
    socket.on('error', () => undefined).destroy();
    const proof = answer.headers[PEER_HEADER];
    return [answer.statusCode, isAnswerProof(proof, peers, headers[PEER_HEADER]!, 200)];
  };
  expect(await connect(peers)).toEqual([200, true]);
  const late = { secret: peers.secret, mapNow: () => peers.mapNow() - 61_000 };
  expect(await connect(late)).toEqual([404, false]);
  expect(await connect({ ...late, secret: 'other' })).toEqual([404, false]);
  expect(await connect(peers, tunnelName(peers.origin ^ 2))).toEqual([404, false]);
});

it('a gateway proves its answers, and says nothing of the keys of others', async () => {
  const { first, second } = shared;
  const peers = first.store.deployment!;
  const kept = await upload(first, randomBytes(1000));
  const gone = await upload(first, randomBytes(1000));
  await first.store.delete(gone);
  const foreign = await upload(second, randomBytes(1000));
  const ask = async (method: string, key: string, by: PeerSecret = peers) => {
    const path = `/peer/files/${key}`;
    const token = peerToken(by, method, path);
    const { status, headers } = await fetch(first.url + path, {
      method,
      headers: { [PEER_HEADER]: token },
    });
    const facts = headers.get(PEER_FILE_HEADER) ?? undefined;
    const proof = headers.get(PEER_HEADER);
    return [status, proof !== null && isAnswerProof(proof, peers, token, status, facts)];
  };
  expect(await ask('GET', kept)).toEqual([200, true]);
  for (const method of ['GET', 'DELETE']) {
    expect(await ask(method, gone)).toEqual([404, true]);
    expect(await ask(method, foreign)).toEqual([503, true]);
    for (const ms of [-61_000, 61_000]) {
      const early = { secret: peers.secret, mapNow: () => peers.mapNow() + ms };
      expect(await ask(method, kept, early)).toEqual([404, false]);
    }
    const stranger = { secret: 'other', mapNow: () => peers.mapNow() };
    expect(await ask(method, gone, stranger)).toEqual([404, false]);
  }
  const bare = { headers: { [PEER_HEADER]: 'A'.repeat(43) } };
  for (const init of [{}, bare, { ...bare, method: 'DELETE' }]) {
    expect((await fetch(`${first.url}/peer/files/${kept}`, init)).status).toBe(404);
  }
  for (const key of [kept, foreign]) {
    expect((await read(first, `/files/${key}`)).status).toBe(200);
  }
});

it('gateways say who does not reach whom, in both directions, and are ready nevertheless', async () => {
  const { map, first, second } = await deployedPair(
    {},
    { peerUrl: 'http://127.0.0.1:1', stagedCopies: 2 },
  );
  const problems = async ({ url }: Gateway, part: string) => {
    const answer = await read({ url } as Gateway, '/health/ready');
    expect(answer.status).toBe(200);
    expect(((await answer.json()) as { problems: string[] }).problems.join()).toContain(part);
  };
  await soon(() => problems(first, 'http://127.0.0.1:1 cannot be reached'));
  await soon(() => problems(second, `${first.url} does not reach this one`));
  // The second reaches its partner, which reads its staged files from the copies.
  const keys = await Promise.all([0, 1].map((n) => upload(second, Buffer.from(`file ${n}`))));
  for (const key of keys) expect((await read(first, `/files/${key}`)).status).toBe(200);
  const deleted = await fetch(`${first.url}/files/${keys[0]}`, { method: 'DELETE' });
  expect(deleted.status).toBe(204);
  await soon(async () => expect((await read(second, `/files/${keys[0]}`)).status).toBe(404));
  // Of two with one URL, the others would ask only one.
  const { trackers } = second.options;
  const twice = deployedGateway({ map, trackers, peerUrl: first.url });
  await expect(twice).rejects.toMatchObject({ code: 'url_taken' });
  const { peerUrl } = second.options;
  const found = await inspectDeployment(
    { map, peerUrl, directory: second.options.directory },
    true,
  );
  expect(found).toMatchObject({ gateways: 1, reach: [{ url: first.url }] });
  expect(found.reach[0]!.back).toContain('127.0.0.1:1');
  const other = { map, peerUrl: first.url, directory: temporaryFolder() };
  expect(await inspectDeployment(other, false)).toMatchObject({
    reach: [{ url: peerUrl, to: expect.stringContaining('') }],
  });
});

it('a row of the map with a URL that is none concerns nothing but the files staged there', async () => {
  const { first, second, map, trackers } = await deployedPair({ stagedCopies: 1 });
  const key = await upload(first, randomBytes(1000));
  const lost = await upload(second, randomBytes(1000));
  const { origin } = second.store.deployment!;
  const directory = temporaryFolder();
  for (const bad of ['ftp://10.0.0.5', 'http://[', 'http://10.0.0.5:8080/?secret=1', 'no URL']) {
    const database = openDatabase(map.slice('sqlite:'.length));
    database.prepare('UPDATE stevedore_gateway SET url = ? WHERE origin = ?').run(bad, origin);
    database.close();
    const third = await deployedGateway({ directory, map, trackers });
    expect((await read(third, `/files/${key}`)).status, bad).toBe(200);
    const answer = await read(third, `/files/${lost}`);
    expect([answer.status, (await answer.text()).includes(bad)], bad).toEqual([503, false]);
    const page = await third.store.list();
    expect([page.files.map((file) => file.key), page.away], bad).toEqual([[key], [origin]]);
    await third.close();
  }
});
