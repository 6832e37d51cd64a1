import { crc32 } from 'node:zlib';
import { deferred } from '@stevedore/async';
import { type Disk, type DiskFile, decoratedDisk, decoratedFile, localDisk } from '@stevedore/disk';
import { expect, test } from 'vitest';
import { Changes } from '../../../../packages/staging/dist/changes.js';
import { Container } from '../../../../packages/staging/dist/container/container.js';
import { smallFile } from '../../../../packages/staging/dist/container/records.js';
import { quiet } from '../../../support/quiet.js';
import { temporaryFolder } from '../../../support/temporary.js';

/**
 * Syncs over a disk that behaves as the system does: what it could not bring to the medium
 * it gives up, and says so once, to the first sync that ends behind it.
 */

interface Write {
  readonly at: number;
  readonly bytes: Buffer;
}

class ForgetfulDisk {
  /** Written, and not on the medium yet. */
  #dirty: Write[] = [];
  /** Bytes on the medium, as far as a sync has brought them there. */
  medium: Buffer = Buffer.alloc(0);
  /** What the coming write-backs lose. */
  losesNext = false;
  failsWrites = false;
  #untold = false;
  #gate: Promise<void> | undefined;
  syncs = 0;
  underWay = 0;
  mostUnderWay = 0;

  readonly disk: Disk = decoratedDisk(localDisk, {
    create: async (path) => this.#wrap(await localDisk.create(path)),
  });

  /** Syncs end when the function that it gives is called. */
  holdSyncs(): () => void {
    const { promise, resolve } = deferred<void>();
    this.#gate = promise;
    return () => {
      this.#gate = undefined;
      resolve();
    };
  }

  #wrap(file: DiskFile): DiskFile {
    return decoratedFile(file, {
      writeAt: async (chunks, at) => {
        if (this.failsWrites) throw Object.assign(new Error('ENOSPC: full'), { code: 'ENOSPC' });
        await file.writeAt(chunks, at);
        this.#dirty.push({ at, bytes: Buffer.concat(chunks) });
      },
      sync: async () => {
        this.syncs += 1;
        this.underWay += 1;
        this.mostUnderWay = Math.max(this.mostUnderWay, this.underWay);
        this.#writeBack();
        await this.#gate;
        this.underWay -= 1;
        if (!this.#untold) return;
        this.#untold = false;
        throw Object.assign(new Error('EIO: i/o error'), { code: 'EIO' });
      },
    });
  }

  #writeBack(): void {
    for (const { at, bytes } of this.#dirty.splice(0)) {
      if (this.losesNext) {
        this.#untold = true;
        continue;
      }
      const size = Math.max(this.medium.length, at + bytes.length);
      this.medium = Buffer.concat([this.medium, Buffer.alloc(size - this.medium.length)]);
      this.medium.set(bytes, at);
    }
    this.losesNext = false;
  }
}

function open() {
  const forgetful = new ForgetfulDisk();
  const container = new Container({
    ...{ disk: forgetful.disk, folder: temporaryFolder(), origin: 1, sync: true },
    ...{ now: Date.now, segmentBytes: 2 ** 20, nextSegment: 1, tailBytes: 0 },
    fileMap: {
      apply: () => undefined,
      setSynced: () => ({ changes: 0 }),
      oldestNeededSegment: () => null,
    },
    changes: new Changes(),
  });
  const append = (text: string, sync: boolean) => {
    const bytes = Buffer.from(text);
    const key: Buffer = Buffer.alloc(16, text);
    const about = { key, name: 'a', type: 'b', group: undefined, stagedAt: 1 };
    const facts = { ...about, size: bytes.length, crc32: crc32(bytes) };
    return container.append([smallFile(facts, [bytes])], sync);
  };
  return { forgetful, container, append };
}

test('a sync does not pass while what another one was told of is lost', async () => {
  const { forgetful, container, append } = open();
  await append('first, not waited for', false);
  forgetful.losesNext = true;
  const release = forgetful.holdSyncs();
  const before = forgetful.syncs;
  const syncs: Promise<unknown>[] = [container.sync()];
  await expect.poll(() => forgetful.syncs).toBeGreaterThan(before);
  const second = append('second', true);
  syncs.push(second);
  await quiet();
  release();
  const outcomes = await Promise.allSettled(syncs);
  expect(forgetful.mostUnderWay).toBe(1);
  expect(outcomes[0]!.status).toBe('rejected');
  // Who was told that all is durable was told the truth.
  expect(outcomes[1]!.status).toBe('fulfilled');
  expect(forgetful.medium.includes('first, not waited for')).toBe(true);
  expect(forgetful.medium.includes('second')).toBe(true);
  await container.close();
});

test('what the cut behind a failed write is told of is not forgotten', async () => {
  const { forgetful, container, append } = open();
  await append('acknowledged, not synced', false);
  forgetful.losesNext = true;
  forgetful.failsWrites = true;
  await expect(append('refused', true)).rejects.toMatchObject({ code: 'disk_full' });
  forgetful.failsWrites = false;
  expect(forgetful.medium.includes('acknowledged, not synced')).toBe(false);
  await container.sync();
  expect(forgetful.medium.includes('acknowledged, not synced')).toBe(true);
  await container.close();
});
