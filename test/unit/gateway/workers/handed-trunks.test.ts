import { expect, it } from 'vitest';
import { Calls } from '../../../../gateway/dist/workers/calls.js';
import {
  HandedTrunks,
  type TakeCalls,
  takesOf,
  type WriteCalls,
} from '../../../../gateway/dist/workers/handed-trunks.js';

type Take = HandedTrunks['take'];

const trunk = { size: 3, extension: 'merged' };

/** A worker and its primary, whose node is `take`; copies pass between them, later. */
function pair(take: Take | undefined) {
  const toWorker: Calls<WriteCalls> = new Calls(
    (message) => setImmediate(() => toPrimary.take(structuredClone(message))),
    takesOf(take, () => toWorker),
  );
  const toPrimary: Calls<TakeCalls> = new Calls(
    (message) => setImmediate(() => toWorker.take(structuredClone(message))),
    { writeTrunk: (number: number, path: string) => trunks.write(number, path) },
  );
  const trunks = new HandedTrunks(toPrimary);
  return { trunks, toWorker };
}

it('a trunk is written by its worker, where the node of the primary says', async () => {
  const written: string[] = [];
  const { trunks } = pair(async ({ size, extension, write }) => {
    await write(`/store/${size}`);
    return `id.${extension}`;
  });
  const write = async (path: string) => void written.push(path);
  const first = trunks.take({ ...trunk, write });
  const second = trunks.take({ ...trunk, size: 4, write });
  expect(await Promise.all([first, second])).toEqual(['id.merged', 'id.merged']);
  expect(written.sort()).toEqual(['/store/3', '/store/4']);
});

it('what fails at the worker is thrown there as it was, and the primary learns of it', async () => {
  let learned: unknown;
  const { trunks } = pair(async ({ write }) => {
    await write('/store/1').catch((error: unknown) => {
      learned = error;
      throw new Error('refused');
    });
    return 'id';
  });
  const failure = new RangeError('a damaged segment');
  const write = () => Promise.reject(failure);
  await expect(trunks.take({ ...trunk, write })).rejects.toBe(failure);
  expect(learned).toMatchObject({ message: 'a damaged segment' });
});

it('what the node refuses keeps its code; without a node, everything is refused', async () => {
  const stopped = Object.assign(new Error('stopped'), { code: 'embedded_node_stopped' });
  const write = () => Promise.resolve();
  const refused = pair(() => Promise.reject(stopped)).trunks.take({ ...trunk, write });
  await expect(refused).rejects.toMatchObject({ code: 'embedded_node_stopped' });
  const alone = pair(undefined).trunks.take({ ...trunk, write });
  await expect(alone).rejects.toThrow('no embedded node');
});

it('the writing of a worker that ends has failed', async () => {
  let outcome: unknown;
  const { trunks, toWorker } = pair(async ({ write }) => {
    const writing = write('/store/1');
    toWorker.end(new Error('it has ended'));
    await writing.catch((error: unknown) => {
      outcome = error;
    });
    throw outcome;
  });
  trunks.take({ ...trunk, write: () => new Promise(() => undefined) }).catch(() => undefined);
  await expect.poll(() => outcome).toMatchObject({ message: 'it has ended' });
});
