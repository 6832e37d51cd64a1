// Stages files in the folder named by the first argument and reports each one that
// is acknowledged, until somebody kills the process.
import { createHash, randomBytes, randomFillSync } from 'node:crypto';
import { crc32 } from 'node:zlib';
import { formatKey, Staging, smallFile } from '@stevedore/staging';

const MIB = 2 ** 20;
const staging = await Staging.open({
  directory: process.argv[2],
  connect: async () => ({
    store: () => Promise.reject(new Error('there is no FastDFS')),
    remove: () => Promise.resolve(),
    read: () => Promise.reject(new Error('there is no FastDFS')),
  }),
  trunkSize: MIB,
  mergeMaxAge: 20,
  containerSize: 512 * MIB,
  retain: 0,
  segmentBytes: MIB,
  durability: 'sync',
  now: Date.now,
  randomFill: (target) => randomFillSync(target),
  packingSeed: 1,
});
staging.changes.on('error', () => {});

async function stageForEver() {
  for (;;) {
    const bytes = randomBytes(Math.floor(Math.random() * 20_000));
    const key = staging.keys.next();
    const facts = {
      key,
      name: 'x.bin',
      type: 'application/octet-stream',
      group: undefined,
      size: bytes.length,
      crc32: crc32(bytes),
      stagedAt: Date.now(),
    };
    await staging.acceptance.stage([smallFile(facts, [bytes])]);
    process.send({ key: formatKey(key), hash: createHash('sha256').update(bytes).digest('hex') });
  }
}
for (let lane = 0; lane < 8; lane++) void stageForEver();
