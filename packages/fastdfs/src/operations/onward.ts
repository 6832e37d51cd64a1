import { crc32 } from 'node:zlib';
import {
  type FileId,
  fileKind,
  ioWrite,
  type OnwardGrant,
  onwardDone,
  Status,
  writeOnward,
} from '@stevedore/protocol';
import type { Address } from '../address.js';
import type { PreparedBody } from '../body.js';
import type { Deadline } from '../deadline.js';
import { FastdfsError } from '../errors.js';
import type { Context } from './context.js';

/**
 * An append that makes a file outgrow its storage's metadata tier is written to the I/O
 * servers by the client itself, where the storage says so: its bytes travel once instead
 * of twice. Until the storage is told that they are there nothing has happened, so
 * whatever goes wrong before that, the bytes are appended as ever.
 */

/** Below this the storage moves the file by itself: little travels twice. */
const MIN_ONWARD_BYTES = 64 * 1024;
/** Pieces on their way at a time. */
const MAX_IN_FLIGHT = 4;
/** Storages that do not know of this; beyond it the list begins anew. */
const MAX_UNKNOWING = 1024;

/** True if the bytes are appended; false: they are to be appended as ever. */
export async function appendOnward(
  context: Context,
  storage: Address,
  id: FileId,
  body: PreparedBody,
  deadline: Deadline,
): Promise<boolean> {
  const { size, payload } = body;
  const isAgain = Buffer.isBuffer(payload) || payload.repeatable;
  if (!context.settings.writesOnward || size < MIN_ONWARD_BYTES || !isAgain) return false;
  if (fileKind(id) !== 'appender' || context.unknowing.has(storage.text)) return false;
  const grant = await ask(context, storage, id.name, size, deadline);
  if (!grant) return false;
  let checks: number[];
  try {
    checks = await writeAll(context, grant, body, storage, deadline);
  } catch (error) {
    deadline.throwIfEnded();
    if (error instanceof FastdfsError && error.code !== 'length_mismatch') return false;
    throw error;
  }
  try {
    const done = { id: grant.id, checks };
    await context.caller.call(storage, onwardDone, done, deadline, { repeatable: false });
    return true;
  } catch (error) {
    // The storage says that nothing has come of it.
    if (error instanceof FastdfsError && error.status === Status.busy) return false;
    throw error;
  }
}

/** Where the bytes go; undefined: not to the I/O servers. */
async function ask(
  context: Context,
  storage: Address,
  name: string,
  size: number,
  deadline: Deadline,
): Promise<OnwardGrant | undefined> {
  try {
    return await context.caller.call(storage, writeOnward, { name, size }, deadline);
  } catch (error) {
    if (!(error instanceof FastdfsError) || error.status !== Status.invalid) throw error;
    if (context.unknowing.size >= MAX_UNKNOWING) context.unknowing.clear();
    context.unknowing.add(storage.text);
    return undefined;
  }
}

/** Writes the body behind what the file has; gives the CRC-32 of every stripe it touches. */
async function writeAll(
  context: Context,
  grant: OnwardGrant,
  { size, payload }: PreparedBody,
  storage: Address,
  deadline: Deadline,
): Promise<number[]> {
  const { owner, handle, stripeBytes, servers, isCreated } = grant;
  const addresses = servers.map(({ host, port }) =>
    context.addresses.of({ address: host, port }, storage, deadline),
  );
  const checks: number[] = [];
  const inFlight = new Set<Promise<void>>();
  let failure: unknown;
  const send = async (stripe: number, from: number, piece: Buffer): Promise<void> => {
    const server = stripe % servers.length;
    const request = {
      owner,
      handle,
      run: servers[server]!.run,
      offset: Math.floor(stripe / servers.length) * stripeBytes + from,
      size: piece.length,
      crc32: crc32(piece),
      create: !isCreated,
      sync: false,
      verify: false,
    };
    let own: Deadline | undefined;
    try {
      own = deadline.branch();
      await context.caller.callWithPayload(addresses[server]!, ioWrite, request, piece, own);
    } catch (error) {
      failure ??= error;
    } finally {
      own?.settle();
    }
  };
  try {
    let at = grant.offset;
    for await (const piece of pieces(payload, at, stripeBytes)) {
      const from = at % stripeBytes;
      checks.push(crc32(piece, from === 0 ? 0 : grant.crc32));
      const sending = send(Math.floor(at / stripeBytes), from, piece);
      inFlight.add(sending);
      void sending.then(() => inFlight.delete(sending));
      while (inFlight.size >= MAX_IN_FLIGHT) await Promise.race(inFlight);
      if (failure !== undefined) throw failure;
      at += piece.length;
    }
    if (at - grant.offset !== size) {
      const message = `the body has ${at - grant.offset} bytes, not ${size}`;
      throw deadline.error('length_mismatch', message);
    }
  } finally {
    await Promise.all(inFlight);
  }
  if (failure !== undefined) throw failure;
  return checks;
}

/** The body in pieces that each lie in one stripe. */
async function* pieces(
  payload: PreparedBody['payload'],
  offset: number,
  stripeBytes: number,
): AsyncGenerator<Buffer> {
  let left = stripeBytes - (offset % stripeBytes);
  if (Buffer.isBuffer(payload)) {
    for (let at = 0; at < payload.length; at += left, left = stripeBytes) {
      const piece = payload.subarray(at, at + left);
      left = piece.length;
      yield piece;
    }
    return;
  }
  let gathered: Uint8Array[] = [];
  for await (const chunk of payload.chunks()) {
    for (let at = 0; at < chunk.length; ) {
      const part = chunk.subarray(at, at + left);
      gathered.push(part);
      at += part.length;
      left -= part.length;
      if (left > 0) continue;
      yield Buffer.concat(gathered);
      gathered = [];
      left = stripeBytes;
    }
  }
  if (gathered.length > 0) yield Buffer.concat(gathered);
}
