import { once } from 'node:events';
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { type Gateway, type GatewayInput, startGateway } from '@stevedore/gateway';
import { describe, expect, onTestFinished, test } from 'vitest';
import { temporaryFolder } from '../../support/temporary.js';

async function start(input: GatewayInput): Promise<Gateway> {
  const gateway = await startGateway({
    idMaxAge: 0,
    port: 0,
    trackerPort: 0,
    storagePort: 0,
    ...input,
  });
  onTestFinished(() => gateway.close());
  return gateway;
}

describe('startGateway', () => {
  test('serves on while clients leave it, then refuses their connections', async () => {
    const gateway = await start({ directory: temporaryFolder() });
    const { hostname, port } = new URL(gateway.url);
    const socket = connect(Number(port), hostname);
    const answered = text(socket);
    await once(socket, 'connect');
    const left = gateway.leave();
    const ready = await fetch(`${gateway.url}/health/ready`);
    expect(ready.status).toBe(503);
    const posted = await fetch(`${gateway.url}/files`, { method: 'POST', body: 'late' });
    expect(posted.status).toBe(201);
    // A connection that was open before is served, too.
    socket.write(`HEAD /health/live HTTP/1.1\r\nHost: ${hostname}\r\n\r\n`);
    await left;
    expect(await answered).toMatch(/^HTTP\/1\.1 200 /);
    await expect(fetch(gateway.url)).rejects.toMatchObject({ cause: { code: 'ECONNREFUSED' } });
  });

  test('leaves nothing open when its port is taken', async () => {
    const first = await start({ directory: temporaryFolder() });
    const path = temporaryFolder();
    const port = new URL(first.url).port;
    await expect(start({ directory: path, port })).rejects.toMatchObject({ code: 'EADDRINUSE' });
    await start({ directory: path });
  });

  test('refuses options that it does not know or cannot reconcile', async () => {
    const unknown = { wrokers: 2 } as GatewayInput;
    await expect(startGateway(unknown)).rejects.toMatchObject({ code: 'invalid_option' });
    for (const input of [
      { port: 70_000 },
      { maxFileSize: '1 parsec' },
      { serveTrunks: 'perhaps' },
      { smallFileLimit: '4MiB', trunkSize: '1MiB' },
    ]) {
      await expect(startGateway(input)).rejects.toMatchObject({ code: 'invalid_option' });
    }
  });
});
