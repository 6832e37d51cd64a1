import { createRequire } from 'node:module';
import { FastdfsClient } from '@stevedore/fastdfs';
import type { StorageOptions } from '@stevedore/node';
import {
  activeTest,
  beginAuthentication,
  clientProof,
  downloadFile,
  encodeFrame,
  encodeHeader,
  encodeReply,
  encodeRequestHead,
  listAllGroups,
  proveAuthentication,
  queryFetch,
  queryStore,
  quit,
  Status,
  serverProof,
  uploadFile,
} from '@stevedore/protocol';
import { askMigration } from '@stevedore/tiering/control';
import { startTracker } from '@stevedore/tracker';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { ScriptedServer } from '../../support/cluster/index.js';
import { fakeClock } from '../../support/fake-clock.js';
import { groupOf, type MemberOfTest } from '../../support/storage/group.js';
import {
  filesIn,
  type RawClient,
  storageOf,
  trackerOf,
  until,
} from '../../support/storage/support.js';

/** Who may use the ports of tracker and storage where the cluster has a secret. */

const SECRET = 'the secret of this cluster';
const OTHER = 'the secret of another cluster';
const NONCE = Buffer.alloc(32, 0xc1);

/** What a connection shows, by hand; undefined where the server ends instead. */
async function show(client: RawClient, secret: string, nonce = NONCE) {
  const begun = await client.ask(beginAuthentication, nonce);
  const nonces = { client: nonce, server: begun.answer! };
  client.send(encodeFrame(proveAuthentication.code, clientProof(secret, nonces)));
  const reply = await client.reply();
  return { nonces, status: reply?.status, proof: reply?.body };
}

async function daemons(options: Partial<StorageOptions> = {}) {
  const access = { secrets: [SECRET], ...options };
  return [await trackerOf(access), await storageOf(access)] as const;
}

function clientOf(port: number, secret?: string): FastdfsClient {
  const client = new FastdfsClient({ trackers: [`127.0.0.1:${port}`], secret });
  onTestFinished(() => client.close());
  return client;
}

describe('a daemon with a secret', () => {
  it('serves who shows it, and shows it too', async () => {
    for (const daemon of await daemons()) {
      const client = await daemon.connect();
      const { nonces, status, proof } = await show(client, SECRET);
      expect(status).toBe(0);
      expect(proof).toEqual(serverProof(SECRET, nonces));
      expect(await client.ask(activeTest, undefined)).toMatchObject({ status: 0 });
      expect(await client.ask(activeTest, undefined)).toMatchObject({ status: 0 });
    }
  });

  it('takes each of its secrets, so that one can follow another', async () => {
    for (const daemon of await daemons({ secrets: [OTHER, SECRET] })) {
      for (const secret of [SECRET, OTHER]) {
        const client = await daemon.connect();
        const { nonces, proof } = await show(client, secret);
        expect(proof).toEqual(serverProof(secret, nonces));
      }
    }
  });

  it('answers no command without it, and closes', async () => {
    const codes = Array.from({ length: beginAuthentication.code }, (_, code) => code);
    for (const daemon of await daemons()) {
      const refused = codes.map(async (code) => {
        if (code === quit.code) return;
        const client = await daemon.connect();
        client.send(encodeFrame(code, Buffer.alloc(0)));
        expect(await client.reply(), String(code)).toMatchObject({ status: Status.accessDenied });
        await client.ended();
      });
      await Promise.all(refused);
    }
  });

  it('stores nothing of a stranger, and takes no content for requests', async () => {
    const storage = await storageOf({ secrets: [SECRET] });
    const client = await storage.connect();
    const content = Buffer.alloc(300_000, encodeFrame(activeTest.code, Buffer.alloc(0)));
    const request = { storePathIndex: 0, size: content.length, extension: 'txt' };
    client.send(Buffer.concat([encodeRequestHead(uploadFile, request), content]));
    expect(await client.reply()).toMatchObject({ status: Status.accessDenied });
    await client.ended();
    expect(await filesIn(storage.folder)).toEqual([]);
  });

  it('refuses a wrong secret and tells of it once', async () => {
    const storage = await storageOf({ secrets: [SECRET] });
    for (let turn = 0; turn < 5; turn++) {
      const client = await storage.connect();
      const { status, proof } = await show(client, OTHER);
      expect(status).toBe(Status.accessDenied);
      expect(proof).toHaveLength(0);
      await client.ended();
    }
    expect(storage.errors.map(({ message }) => message)).toEqual([
      'refused a connection from 127.0.0.1: a wrong secret',
    ]);
  });

  it('refuses a recorded exchange, and its own proof sent back', async () => {
    for (const daemon of await daemons()) {
      const recorded = await show(await daemon.connect(), SECRET);
      const proof = clientProof(SECRET, recorded.nonces);
      for (const shown of [proof, recorded.proof!]) {
        const client = await daemon.connect();
        const begun = await client.ask(beginAuthentication, NONCE);
        expect(begun.answer).not.toEqual(recorded.nonces.server);
        expect((await client.ask(proveAuthentication, shown)).status).toBe(Status.accessDenied);
        await client.ended();
      }
      // The nonce of the server, sent as one's own.
      const client = await daemon.connect();
      const begun = await client.ask(beginAuthentication, recorded.nonces.server);
      expect(begun.answer).not.toEqual(recorded.nonces.server);
      expect((await client.ask(proveAuthentication, recorded.proof!)).status).toBe(13);
    }
  });

  it('refuses what comes out of turn, too short or too long', async () => {
    const begin = encodeFrame(beginAuthentication.code, NONCE);
    const prove = encodeFrame(proveAuthentication.code, NONCE);
    for (const daemon of await daemons()) {
      for (const [frames, status] of [
        [[prove], Status.accessDenied],
        [[begin, begin], Status.accessDenied],
        [[begin, encodeFrame(activeTest.code, Buffer.alloc(0))], Status.accessDenied],
        [[encodeFrame(beginAuthentication.code, Buffer.alloc(0))], Status.invalid],
        [[encodeFrame(beginAuthentication.code, NONCE.subarray(1))], Status.invalid],
        [[begin, encodeFrame(proveAuthentication.code, NONCE.subarray(1))], Status.invalid],
        [[encodeHeader({ bodyBytes: 2 ** 40, command: 220, status: 0 })], Status.invalid],
      ] as const) {
        const client = await daemon.connect();
        let reply: Awaited<ReturnType<RawClient['reply']>>;
        for (const frame of frames) reply = await client.exchange(frame);
        expect(reply!.status).toBe(status);
        await client.ended();
      }
      const client = await daemon.connect();
      await show(client, SECRET);
      expect((await client.exchange(begin)).status).toBe(Status.accessDenied);
      await client.ended();
    }
  });

  it('does not wait for who stalls, at whatever byte, and leaves the others alone', async () => {
    fakeClock();
    for (const daemon of await daemons({ authenticationTimeoutMs: 5_000 })) {
      const friend = await daemon.connect();
      expect((await show(friend, SECRET)).status).toBe(0);
      const begin = encodeFrame(beginAuthentication.code, NONCE);
      const stalled = [Buffer.alloc(0), begin.subarray(0, 5), begin.subarray(0, 40), begin];
      const clients = await Promise.all(
        stalled.map(async (bytes) => {
          const client = await daemon.connect();
          client.send(bytes);
          if (bytes.length === begin.length) expect((await client.reply())?.status).toBe(0);
          return client;
        }),
      );
      await vi.advanceTimersByTimeAsync(5_000);
      for (const client of clients) await client.ended();
      expect(await friend.isOpen()).toBe(true);
    }
  });

  it('may let everybody read, or do everything', async () => {
    const readers = await storageOf({ secrets: [SECRET], withoutSecret: 'read' });
    const friend = await readers.connect();
    await show(friend, SECRET);
    const file = await friend.upload(Buffer.from('read me'));
    const stranger = await readers.connect();
    const request = { ...file, offset: 0, length: 0 };
    expect((await stranger.ask(downloadFile, request)).answer?.toString()).toBe('read me');
    await expect(stranger.upload(Buffer.from('no'))).rejects.toThrow('status 13');
    await stranger.ended();
    const wrong = await readers.connect();
    expect((await show(wrong, OTHER)).status).toBe(13);

    const tracker = await trackerOf({ secrets: [SECRET], withoutSecret: 'read' });
    const asking = await tracker.connect();
    expect((await asking.ask(listAllGroups, undefined)).status).toBe(0);
    expect((await asking.ask(queryFetch, file)).status).toBe(Status.notFound);
    expect((await asking.ask(queryStore, undefined)).status).toBe(Status.accessDenied);

    const open = await storageOf({ secrets: [SECRET], withoutSecret: 'all' });
    const anybody = await open.connect();
    expect(await anybody.upload(Buffer.from('yes'))).toMatchObject({ group: 'group1' });
    expect((await show(await open.connect(), SECRET)).status).toBe(0);
    expect((await show(await open.connect(), OTHER)).status).toBe(13);
  });

  it('does not start with secrets that could be guessed', async () => {
    await expect(startTracker({ secrets: ['short'] })).rejects.toThrow('16 bytes');
    await expect(startTracker({ withoutSecret: 'read' })).rejects.toThrow('needs secrets');
  });
});

it('a daemon without a secret does not know the commands, and serves everybody', async () => {
  const storage = await storageOf();
  const client = await storage.connect();
  expect((await client.ask(beginAuthentication, NONCE)).status).toBe(Status.invalid);
  expect(await (await storage.connect()).upload(Buffer.from('open'))).toBeDefined();
});

describe('a cluster with a secret', () => {
  it('is joined, replicated and used by those who have it, and by nobody else', async () => {
    const group = await groupOf(2, { secrets: [SECRET] }, { secrets: [SECRET] });
    const [first, second] = group.members as [MemberOfTest, MemberOfTest];
    const trackers = [`${group.tracker.host}:${group.tracker.port}`];
    const ours = new FastdfsClient({ trackers, secret: SECRET });
    onTestFinished(() => ours.close());
    const id = await ours.upload(Buffer.from('for two'));
    for (const { host, storage } of [first, second]) {
      const target = { group: 'group1', address: host, port: storage!.port };
      await until(async () => {
        const bytes = ours.downloadBytes(id, { storage: target });
        return (await bytes.catch(() => undefined))?.toString() === 'for two';
      });
    }
    expect(await ours.info(id)).toMatchObject({ size: 7 });

    const outsider = group.add();
    await outsider.start({ secrets: [OTHER] });
    await until(() => outsider.errors.length > 0);
    expect(outsider.errors[0]!.message).toContain('has another secret');
    expect(await ours.listStorages('group1')).toHaveLength(2);
  });

  it('can be given its secret member by member', async () => {
    const access = { secrets: [SECRET], withoutSecret: 'all' } as const;
    const group = await groupOf(1);
    const after = group.add();
    await after.start(access);
    await after.storage!.active();
    const client = new FastdfsClient({ trackers: [`${group.tracker.host}:${group.tracker.port}`] });
    onTestFinished(() => client.close());
    for (let turn = 0; turn < 4; turn++) {
      const id = await client.upload(Buffer.from(`turn ${turn}`));
      expect((await client.downloadBytes(id)).toString()).toBe(`turn ${turn}`);
    }
  });

  it('is asked about its migration with the secret', async () => {
    const storage = await storageOf({ secrets: [SECRET], tiers: { enabled: true } });
    const address = `127.0.0.1:${storage.port}`;
    expect(await askMigration(address, 'status', { secret: SECRET })).toHaveProperty('moves');
    await expect(askMigration(address, 'pause', { secret: OTHER })).rejects.toThrow('another');
    await expect(askMigration(address, 'pause')).rejects.toThrow('asks for the secret');
  });
});

describe('a client', () => {
  it('without the secret, or with another, is told so', async () => {
    const [tracker] = await daemons();
    for (const secret of [undefined, OTHER]) {
      const error = await clientOf(tracker.port, secret)
        .upload(Buffer.from('x'))
        .catch((reason: unknown) => reason);
      expect(error).toMatchObject({ code: 'access_denied' });
    }
  });

  it('of other people is refused', async () => {
    const [tracker] = await daemons();
    const Fdfs = createRequire(import.meta.url)('fdfs') as new (
      options: object,
    ) => { upload(body: Buffer, options: object): Promise<string> };
    const logger = { debug() {}, info() {}, warn() {}, error() {} };
    const trackers = [{ host: '127.0.0.1', port: tracker.port }];
    const client = new Fdfs({ trackers, timeout: 10_000, logger });
    await expect(client.upload(Buffer.from('x'), { ext: 'txt' })).rejects.toBeDefined();
  });

  it('with the secret uses no server that has none, or only says so', async () => {
    const { port } = await trackerOf();
    await expect(clientOf(port, SECRET).ping()).rejects.toMatchObject({ code: 'access_denied' });
    const commands: number[] = [];
    const rogue = await ScriptedServer.listen({
      onRequest({ command, body, socket }) {
        commands.push(command);
        socket.write(encodeReply(0, body));
      },
    });
    onTestFinished(() => rogue.close());
    await expect(clientOf(rogue.port, SECRET).ping()).rejects.toMatchObject({
      code: 'access_denied',
    });
    // It says yes to everything, and gives every proof back. It is asked nothing else.
    expect(commands).toEqual([beginAuthentication.code, proveAuthentication.code]);
  });

  it('goes to the tracker that has the secret when another has not', async () => {
    const without = await trackerOf();
    const having = await trackerOf({ secrets: [SECRET] });
    const trackers = [without.port, having.port].map((port) => `127.0.0.1:${port}`);
    const client = new FastdfsClient({ trackers, secret: SECRET });
    onTestFinished(() => client.close());
    for (let turn = 0; turn < 4; turn++) expect(await client.listGroups()).toEqual([]);
  });
});
