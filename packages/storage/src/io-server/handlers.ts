import { crc32 } from 'node:zlib';
import {
  activeTest,
  type IoIdentity,
  ioCheck,
  ioClone,
  ioCreate,
  ioDelete,
  ioHello,
  ioList,
  ioRead,
  ioSetSize,
  ioSize,
  ioSync,
  ioWrite,
  Status,
} from '@stevedore/protocol';
import { StatusError } from '../errors.js';
import { control, type Handler, receiving } from '../net/handler.js';
import type { PartStore } from './part-store.js';

/** What an I/O server answers to. `roomFor` throws status 28 where there is none. */
export function ioServerHandlers<Session>(
  parts: PartStore,
  identity: IoIdentity,
  roomFor: (bytes: number) => Promise<void>,
): Handler<Session>[] {
  return [
    control(activeTest, () => undefined),
    control(ioHello, () => identity),
    receiving(ioWrite, async (request, payload) => {
      await roomFor(request.size);
      const bytes: Buffer[] = [];
      while (payload.remaining > 0) bytes.push(...(await payload.next()));
      await parts.write(request, bytes);
      return undefined;
    }),
    control(ioRead, async (request) => {
      const bytes = await parts.read(request);
      // Of a whole stripe it has just been found to be what was asked for.
      const isWhole = bytes.length === request.stripeBytes;
      return { crc32: isWhole ? request.crc32 : crc32(bytes), bytes };
    }),
    control(ioSync, (request) => done(parts.sync(request))),
    control(ioSetSize, async (request) => {
      if (request.keep > request.size) throw new StatusError(Status.invalid, 'a part cut to more');
      await roomFor(request.size - request.keep);
      return done(parts.setSize(request));
    }),
    control(ioClone, async (request) => {
      await roomFor(request.size);
      return done(parts.clone(request));
    }),
    control(ioDelete, (request) => done(parts.delete(request))),
    control(ioCreate, (request) => done(parts.create(request))),
    control(ioSize, (request) => parts.size(request)),
    control(ioList, (request) => parts.list(request)),
    control(ioCheck, (request) => parts.check(request)),
  ];
}

async function done(work: Promise<void>): Promise<undefined> {
  await work;
  return undefined;
}
