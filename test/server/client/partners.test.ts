import { createServer } from 'node:http';
import { MapError } from '@stevedore/map';
import { expect, it } from 'vitest';
import type { Deployment } from '../../../packages/client/dist/deployment/deployment.js';
import { Gateways, type GatewaysParts } from '../../../packages/client/dist/deployment/gateways.js';
import { Partners } from '../../../packages/client/dist/deployment/partners.js';
import {
  answerProof,
  isPeerToken,
  PEER_HEADER,
} from '../../../packages/client/dist/deployment/peer-seals.js';
import { PEERS } from '../../support/client/peer-answers.js';
import { serving } from '../../support/serving.js';

/** The connection over which a gateway sends its copies to its partner, and who else is there. */

it('a partner proves that it is a gateway of the deployment before it gets any copy', async () => {
  let proof: (token: string) => string | undefined = () => undefined;
  const received: Buffer[] = [];
  const server = createServer();
  server.on('connect', ({ method = '', url = '', headers }, socket) => {
    const token = headers[PEER_HEADER];
    if (!isPeerToken(token, PEERS, method, url)) throw new Error('it has no token');
    const proven = proof(token);
    const head = proven === undefined ? '' : `${PEER_HEADER}: ${proven}\r\n`;
    socket.on('error', () => undefined).on('data', (bytes: Buffer) => received.push(bytes));
    socket.write(`HTTP/1.1 200 OK\r\n${head}\r\n`);
  });
  const url = await serving(server);
  const deployment = { origin: 7, ...PEERS } as unknown as Deployment;
  const partners = new Partners({ url, ownUrl: '', deployment: Promise.resolve(deployment) });
  const connect = () => partners.connect(AbortSignal.timeout(5000));
  const other = { ...PEERS, secret: 'other' };
  for (proof of [() => undefined, () => 'x', (token: string) => answerProof(other, token, 200)]) {
    await expect(connect()).rejects.toThrow(/status 200, without the proof of a gateway/);
  }
  proof = (token) => answerProof(PEERS, token, 200);
  const { stream } = await connect();
  stream.write('copies');
  await expect.poll(() => Buffer.concat(received).toString()).toBe('copies');
  stream.destroy();
});

it('the workers of a server are one server, and who has left or is silent is none', () => {
  const at = (place: string, seenAt = 100_000) => ({ origin: 1, url: null, place, seenAt });
  const gateways = [
    ...[at('host:/one#1-a'), at('host:/one/workers/2#2-b'), at('host:/two#3-c')],
    ...[at('other:/one#1-a'), at('', 100_000), at('host:/three#4-d', 1_000)],
  ];
  const lastRun = { secret: undefined, gateways };
  const joined = new MapError('map_unavailable', 'away');
  const parts = { joined, joining: { origin: 1 }, lastRun };
  expect(new Gateways(parts as unknown as GatewaysParts).countAlive()).toBe(3);
});
