import { expect, test } from 'vitest';
import { startGatewayProcess } from '../../support/gateway-process.js';
import { testCluster } from '../../support/interop/cluster/cluster.js';
import {
  Carriers,
  ROUND_OPTIONS,
  type RoundFile,
  roundFiles,
} from '../../support/interop/cluster/round.js';
import { temporaryFolder } from '../../support/temporary.js';

/** The same round over HTTP: a gateway process in front of the cluster. */

const cluster = testCluster();

interface Info {
  readonly fileId?: string;
}

function startGateway() {
  const { trunkSize, smallFileLimit, retain, cacheSize } = ROUND_OPTIONS;
  return startGatewayProcess(
    temporaryFolder(),
    ...['--trackers', cluster.trackers.join(',')],
    ...['--trunk-size', trunkSize, '--small-file-limit', smallFileLimit],
    ...['--retain', retain, '--cache-size', cacheSize],
    ...['--merge-max-age', '500ms', '--id-max-age', '0'],
  );
}

async function upload(url: string, file: RoundFile): Promise<void> {
  const { name, group, bytes } = file;
  const headers: Record<string, string> = { 'x-filename': name };
  if (group !== undefined) headers['x-affinity-group'] = group;
  const response = await fetch(`${url}/files`, { method: 'POST', body: bytes, headers });
  expect(response.status).toBe(201);
  file.key = ((await response.json()) as { readonly key: string }).key;
}

async function expectFile(url: string, { bytes }: RoundFile): Promise<void> {
  const response = await fetch(url);
  expect(response.status, url).toBe(200);
  expect(Buffer.from(await response.arrayBuffer()).equals(bytes), url).toBe(true);
  if (bytes.length < 10) return;
  const part = await fetch(url, { headers: { range: 'bytes=5-9' } });
  expect(part.status).toBe(206);
  expect(Buffer.from(await part.arrayBuffer()).equals(bytes.subarray(5, 10)), url).toBe(true);
}

async function fileIdOf(url: string, key: string): Promise<string> {
  for (;;) {
    const { fileId } = (await (await fetch(`${url}/files/${key}/info`)).json()) as Info;
    if (fileId !== undefined) return fileId;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

test('files go in over HTTP, are merged, are read from the cluster and deleted', async () => {
  const carriers = new Carriers(cluster);
  const files = roundFiles(50);
  const gateway = await startGateway();
  for (const file of files) {
    await upload(gateway.url, file);
    await expectFile(`${gateway.url}/files/${file.key}`, file);
  }
  for (const file of files) {
    file.fileId = await fileIdOf(gateway.url, file.key);
    carriers.add(file.fileId);
  }
  for (const file of files) {
    await expectFile(`${gateway.url}/files/${file.key}`, file);
    await expectFile(`${gateway.url}/${file.fileId}`, file);
  }
  // Another gateway has never seen these files: it reads them from the cluster.
  const stranger = await startGateway();
  for (const file of files) await expectFile(`${stranger.url}/${file.fileId}`, file);
  expect((await fetch(`${stranger.url}/files/${files[0]!.key}`)).status).toBe(404);
  expect(await stranger.stop()).toBe(0);

  for (const { key, fileId } of files) {
    const { status } = await fetch(`${gateway.url}/files/${key}`, { method: 'DELETE' });
    expect(status).toBe(204);
    expect((await fetch(`${gateway.url}/files/${key}`)).status).toBe(404);
    expect((await fetch(`${gateway.url}/${fileId}`)).status).toBe(404);
  }
  await carriers.gone();
  expect(await gateway.stop()).toBe(0);
});
