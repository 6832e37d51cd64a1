import { buffer } from 'node:stream/consumers';
import { describe, expect, it } from 'vitest';
import { byteByByte, replyFrame, splitAt } from '../../support/cluster/index.js';
import { Chunks, clientOf, failure, goodServer } from '../../support/fastdfs.js';
import { HELLO, HELLO_ID } from '../../support/good-server.js';
import { fileIdVectors, frameVector } from '../../support/vectors.js';

it('requests to the tracker are byte for byte those of the C client', async () => {
  const server = await goodServer();
  const client = clientOf(server.address);
  await client.upload(HELLO, { extension: 'txt' });
  await client.upload(HELLO, { extension: 'txt', group: 'group1' });
  await client.info(HELLO_ID);
  await client.delete(HELLO_ID);
  await client.ping();
  const sent = new Map(server.requests.map((each) => [each.command, each.frame.toString('hex')]));
  for (const [command, op] of [
    [101, 'tracker.query_store_without_group_one'],
    [104, 'tracker.query_store_with_group_one'],
    [102, 'tracker.query_fetch_one.normal'],
    [103, 'tracker.query_update'],
    [111, 'tracker.active_test'],
  ] as const) {
    expect(sent.get(command)).toBe(frameVector('tracker', op).request_hex);
  }
});

describe.each([
  ['15-byte', false],
  ['45-byte', true],
])('a tracker that answers with %s addresses', (_, wide) => {
  it('serves every call', async () => {
    const server = await goodServer();
    server.wide = wide;
    const client = clientOf(server.address);
    expect(await client.upload(HELLO, { extension: 'txt' })).toBe(HELLO_ID);
    expect(await client.downloadBytes(HELLO_ID)).toEqual(HELLO);
    expect(await buffer((await client.download(HELLO_ID)).stream)).toEqual(HELLO);
    expect(await client.info(HELLO_ID)).toEqual({
      size: 13,
      mtimeSeconds: 1795207297,
      crc32: 3294109476,
      sourceAddress: '127.0.17.3',
    });
    await client.delete(HELLO_ID);
    await client.ping();
  });
});

describe('a reply in pieces', () => {
  const calls = {
    101: (client: ReturnType<typeof clientOf>) => client.upload(HELLO, { extension: 'txt' }),
    11: (client: ReturnType<typeof clientOf>) => client.upload(HELLO, { extension: 'txt' }),
    14: (client: ReturnType<typeof clientOf>) => client.downloadBytes(HELLO_ID),
    22: (client: ReturnType<typeof clientOf>) => client.info(HELLO_ID),
  };
  it.each(Object.entries(calls))(
    'to command %s reads the same at every cut',
    async (code, call) => {
      const server = await goodServer();
      const client = clientOf(server.address);
      const expected = await call(client);
      for (let at = 1; at < 70; at++) {
        server.answers.set(Number(code), splitAt(at));
        expect(await call(client)).toEqual(expected);
      }
      server.answers.set(Number(code), byteByByte);
      expect(await call(client)).toEqual(expected);
      expect(server.server.accepted).toBe(1);
    },
  );

  it('streams the same at every cut', async () => {
    const server = await goodServer();
    const client = clientOf(server.address);
    for (let at = 1; at < 23; at++) {
      server.answers.set(14, splitAt(at));
      expect(await buffer((await client.download(HELLO_ID)).stream)).toEqual(HELLO);
    }
  });
});

describe('numbers', () => {
  it('are exact above 4 GiB, in replies and in requests', async () => {
    const server = await goodServer();
    const big = fileIdVectors().find((vector) => vector.decoded.size_in_name > 2 ** 32)!;
    server.answers.set(22, ({ socket }) =>
      socket.write(Buffer.from(big.query_response_hex, 'hex')),
    );
    server.answers.set(14, ({ socket }) => socket.write(replyFrame(0, Buffer.from('abc'))));
    const client = clientOf(server.address);
    expect((await client.info(big.file_id)).size).toBe(2 ** 32 + 5);
    await client.downloadBytes(big.file_id, { offset: 2 ** 32 + 2, length: 3 });
    const { body } = server.requests.find((request) => request.command === 14)!;
    expect(body.readBigInt64BE(0)).toBe(2n ** 32n + 2n);
  });

  it('are unsigned CRC-32s, whatever the top bit', async () => {
    const server = await goodServer();
    const client = clientOf(server.address);
    const seen = new Set<boolean>();
    for (const vector of fileIdVectors()) {
      server.answers.set(22, ({ socket }) =>
        socket.write(Buffer.from(vector.query_response_hex, 'hex')),
      );
      const { crc32 } = await client.info(vector.file_id);
      expect(crc32).toBe(vector.server_query_file_info.crc32_unsigned);
      seen.add(crc32 > 0x7fff_ffff);
    }
    expect(seen.size).toBe(2);
  });
});

describe('statuses', () => {
  it.each([
    [2, 'not_found', false],
    [28, 'no_space', true],
    [11, 'busy', true],
    [16, 'busy', true],
    [22, 'server_status', false],
    [110, 'server_status', true],
  ] as const)('%i is %s', async (status, code, retryable) => {
    const server = await goodServer();
    for (const command of [11, 12, 14, 22]) {
      server.answers.set(command, ({ socket }) => socket.write(replyFrame(status)));
    }
    const client = clientOf(server.address, { busyRetries: 0 });
    const expected = { code, status, retryable, address: server.address };
    expect(await failure(client.upload(HELLO))).toMatchObject(expected);
    for (const call of [
      () => client.downloadBytes(HELLO_ID),
      () => client.download(HELLO_ID),
      () => client.info(HELLO_ID),
      () => client.delete(HELLO_ID),
    ]) {
      expect(await failure(call())).toMatchObject({
        ...expected,
        fileId: HELLO_ID,
      });
    }
    expect(client.stats().leased).toBe(0);
  });

  it('with a body are read whole, and the connection serves on', async () => {
    const server = await goodServer();
    server.answers.set(12, ({ socket }) => socket.write(replyFrame(2, Buffer.alloc(5000))));
    const client = clientOf(server.address);
    expect((await failure(client.delete(HELLO_ID))).code).toBe('not_found');
    await client.info(HELLO_ID);
    expect(server.server.accepted).toBe(1);
  });
});

it('arguments of every call are checked before any I/O', async () => {
  const server = await goodServer();
  const client = clientOf(server.address);
  const bytes = Buffer.alloc(1);
  const bad: Promise<unknown>[] = [
    client.upload(bytes, { extension: 'toolong' }),
    client.upload(bytes, { extension: 'a/b' }),
    client.upload(bytes, { group: 'no group' }),
    client.upload(bytes, { group: '' }),
    client.upload(new Chunks([]), { size: -1 }),
    client.upload(new Chunks([]), { size: 1.5 }),
    client.upload('text' as unknown as Uint8Array, { size: 4 }),
    client.upload(null as unknown as Uint8Array, { size: 4 }),
    client.upload(bytes, { deadlineMs: 0 }),
    client.upload(bytes, { deadlineMs: Number.NaN }),
    client.download(HELLO_ID, { offset: -1 }),
    client.download(HELLO_ID, { length: 0.5 }),
    client.downloadBytes(HELLO_ID, { maxBytes: -1 }),
    ...['', 'group1', '/etc/passwd', `${HELLO_ID}\0`, HELLO_ID.replace('M00', '..')].flatMap(
      (id) => [client.download(id), client.downloadBytes(id), client.info(id), client.delete(id)],
    ),
  ];
  for (const call of bad) expect((await failure(call)).code).toBe('invalid_argument');
  expect((await failure(client.upload(bytes, { size: 2 }))).code).toBe('length_mismatch');
  expect(server.server.accepted).toBe(0);
});
