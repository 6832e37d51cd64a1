import { dirname, join } from 'node:path';
import { crc32 } from 'node:zlib';
import { type Disk, type DiskFile, hasCode } from '@stevedore/disk';
import {
  type IoCheckRequest,
  type IoCloneRequest,
  type IoHandles,
  type IoListRequest,
  type IoReadRequest,
  type IoSizeRequest,
  type IoSyncRequest,
  type IoWriteRequest,
  isIoName,
  MAX_IO_HANDLES,
  type PartName,
  Status,
} from '@stevedore/protocol';
import { StatusError } from '../errors.js';
import { PARTS_DIRECTORY, PREFIX_CHARS } from './constants.js';

/**
 * The parts of an I/O server: plain files, named by owner and handle. What was written
 * with a sync is durable when it is answered, its name included; what was written
 * without one belongs to this run of the server, and a request that relies on it says
 * which run it means. A part is never shorter than what was synced of it, and a stripe
 * whose bytes do not have the CRC-32 that the reader expects is not sent.
 */

const COPY_BYTES = 2 ** 20;

export class PartStore {
  readonly #disk: Disk;
  readonly #root: string;
  readonly #run: string;
  /** Directories that are there, durably. */
  readonly #made = new Map<string, Promise<void>>();
  /** Parts whose names are not durable yet. */
  readonly #unnamed = new Set<string>();

  /** `run` tells this run of the server from all others. */
  constructor(disk: Disk, directory: string, run: string) {
    this.#disk = disk;
    this.#root = join(directory, PARTS_DIRECTORY);
    this.#run = run;
  }

  /** Makes the directory of the parts durable. */
  async prepare(): Promise<void> {
    await this.#disk.makeDirectory(this.#root);
    await this.#disk.syncDirectory(dirname(this.#root));
  }

  /** `bytes` are the request's; status 5 if they are not what was sent. */
  async write(request: IoWriteRequest, bytes: readonly Buffer[]): Promise<void> {
    this.#sameRun(request.run);
    const sum = bytes.reduce((before, chunk) => crc32(chunk, before), 0);
    if (sum !== request.crc32) {
      throw new StatusError(Status.ioError, 'bytes that were damaged on their way');
    }
    const path = request.create ? await this.#create(request) : await this.#existing(request);
    await this.#with(this.#disk.openToUpdate(path), async (file) => {
      await file.writeAt(bytes, request.offset);
      if (request.sync) await file.sync();
      if (request.verify) {
        const copy = await readExactly(file, request.offset, request.size);
        if (crc32(copy) !== request.crc32) {
          throw new StatusError(Status.ioError, 'the disk does not give back what was written');
        }
      }
    });
    if (request.sync) await this.#named(path);
  }

  async sync(request: IoSyncRequest): Promise<void> {
    this.#sameRun(request.run);
    const path = await this.#existing(request);
    await this.#with(this.#disk.openToUpdate(path), async (file) => {
      const { size } = await file.stat();
      if (size < request.size) {
        throw new StatusError(Status.ioError, `a part has ${size} of ${request.size} bytes`);
      }
      await file.sync();
    });
    await this.#named(path);
  }

  /** The wanted bytes of a stripe; status 5 if the stripe is not what it is to be. */
  async read(request: IoReadRequest): Promise<Buffer> {
    return this.#with(this.#disk.openToRead(this.#path(request)), async (file) => {
      const stripe = await readExactly(file, request.offset, request.stripeBytes);
      if (crc32(stripe) !== request.crc32) {
        throw new StatusError(Status.ioError, `a stripe of ${request.handle} is damaged`);
      }
      return stripe.subarray(request.from, request.from + request.bytes);
    });
  }

  async check({ offset, bytes, ...part }: IoCheckRequest): Promise<number> {
    return this.#with(this.#disk.openToRead(this.#path(part)), async (file) =>
      crc32(await readExactly(file, offset, bytes)),
    );
  }

  async setSize({ keep, size, ...part }: IoSizeRequest): Promise<void> {
    const path = await this.#create(part);
    await this.#with(this.#disk.openToUpdate(path), async (file) => {
      if ((await file.stat()).size > keep) await file.truncate(keep);
      await file.truncate(size);
      await file.sync();
    });
    await this.#named(path);
  }

  async clone({ to, offset, size, ...part }: IoCloneRequest): Promise<void> {
    const target = await this.#create({ owner: part.owner, handle: to });
    await this.#with(this.#disk.openToRead(this.#path(part)), (from) =>
      this.#with(this.#disk.openToUpdate(target), async (file) => {
        const end = offset + size;
        for (let at = offset; at < end; at += COPY_BYTES) {
          const chunk = await readExactly(from, at, Math.min(COPY_BYTES, end - at));
          await file.writeAt([chunk], at);
        }
        await file.sync();
      }),
    );
    await this.#named(target);
  }

  async create({ owner, handles }: IoHandles): Promise<void> {
    const directories = new Set<string>();
    for (const handle of handles) {
      const path = await this.#create({ owner, handle });
      await (await this.#disk.openToUpdate(path)).close();
      directories.add(dirname(path));
    }
    for (const directory of directories) await this.#disk.syncDirectory(directory);
    for (const handle of handles) this.#unnamed.delete(this.#path({ owner, handle }));
  }

  async delete({ owner, handles }: IoHandles): Promise<void> {
    const directories = new Set<string>();
    for (const handle of handles) {
      const path = this.#path({ owner, handle });
      try {
        await this.#disk.unlink(path);
        directories.add(dirname(path));
      } catch (error) {
        if (!hasCode(error, 'ENOENT')) throw error;
        // An earlier request may have got as far as this, and not been synced.
        if (await this.#disk.exists(dirname(path))) directories.add(dirname(path));
      }
      this.#unnamed.delete(path);
    }
    for (const directory of directories) await this.#disk.syncDirectory(directory);
  }

  /** Status 2 if there is no such part. */
  async size(part: PartName): Promise<number> {
    return this.#with(
      this.#disk.openToRead(this.#path(part)),
      async (file) => (await file.stat()).size,
    );
  }

  /** The owner's handles behind `after`, in their order, as many as an answer takes. */
  async list({ owner, after }: IoListRequest): Promise<string[]> {
    const found: string[] = [];
    const first = Number.parseInt(after.slice(0, PREFIX_CHARS) || '0', 16);
    for (let prefix = first; prefix < 16 ** PREFIX_CHARS; prefix += 1) {
      const folder = prefix.toString(16).padStart(PREFIX_CHARS, '0');
      const names = await this.#disk.list(join(this.#root, owner, folder));
      found.push(...names.filter((name) => isIoName(name) && name > after).sort());
      if (found.length >= MAX_IO_HANDLES) break;
    }
    return found.slice(0, MAX_IO_HANDLES);
  }

  #path({ owner, handle }: PartName): string {
    return join(this.#root, owner, handle.slice(0, PREFIX_CHARS), handle);
  }

  async #existing(part: PartName): Promise<string> {
    const path = this.#path(part);
    if (!(await this.#disk.exists(path))) throw new StatusError(Status.notFound, part.handle);
    return path;
  }

  /** The path of a part that is there or may be made now; its directory is there durably. */
  async #create(part: PartName): Promise<string> {
    const path = this.#path(part);
    const directory = dirname(path);
    let making = this.#made.get(directory);
    if (!making) {
      making = this.#makeDirectory(directory);
      this.#made.set(directory, making);
      making.catch(() => this.#made.delete(directory));
    }
    await making;
    if (!(await this.#disk.exists(path))) this.#unnamed.add(path);
    return path;
  }

  async #makeDirectory(directory: string): Promise<void> {
    await this.#disk.makeDirectory(directory);
    await this.#disk.syncDirectory(dirname(directory));
    await this.#disk.syncDirectory(this.#root);
  }

  async #named(path: string): Promise<void> {
    if (!this.#unnamed.has(path)) return;
    await this.#disk.syncDirectory(dirname(path));
    this.#unnamed.delete(path);
  }

  async #with<Result>(
    opening: Promise<DiskFile>,
    use: (file: DiskFile) => Promise<Result>,
  ): Promise<Result> {
    const file = await opening;
    try {
      return await use(file);
    } finally {
      await file.close();
    }
  }

  #sameRun(run: string): void {
    if (run !== this.#run) {
      throw new StatusError(Status.tryAgain, 'the I/O server was started again meanwhile');
    }
  }
}

/** Status 5 where the file ends before. */
async function readExactly(file: DiskFile, offset: number, bytes: number): Promise<Buffer> {
  const target = Buffer.allocUnsafe(bytes);
  const read = await file.readAt(target, offset);
  if (read < bytes) throw new StatusError(Status.ioError, `a part is ${bytes - read} bytes short`);
  return target;
}
