import { createReadStream, fstatSync } from 'node:fs';
import { mkdir, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import type { Readable } from 'node:stream';
import { crc32 } from 'node:zlib';
import { folded } from '@stevedore/client/internal';
import { type OptionTable, option } from '@stevedore/options';
import { isError } from '@stevedore/protocol';
import type { Command } from 'commander';
import { safePath, withKey } from '../entry-names.js';
import { unlessMissing, writeTo } from '../written-file.js';
import { CSV_HEAD, crcOf, csvRow, hex } from './csv.js';
import { complaint, EXIT_FAILED } from './errors.js';
import { filterOptions, listed, withClient } from './file-commands.js';
import { endsAll, type GatewayClient } from './gateway-client.js';
import { clientOptions, define, flags } from './options.js';
import { countOf, startTransfer, type Transfer } from './progress.js';

/** `stevedore export`: writes files of a gateway into a directory. */

const exportOptions = {
  ...clientOptions,
  ...filterOptions,
  ...flags({
    concurrency: option.integer(8, 'downloads at a time', { short: 'c', minimum: 1, maximum: 64 }),
  }),
} satisfies OptionTable;

const HELP = `
The target is a directory. Prints CSV with the columns path, key, size, crc32 and name, a row for
each file. Needs an API key with the scopes "list" and "read".

Files get the names that they were uploaded with. What a name cannot be in the directory is
changed: it gets its key too, or the key alone, and the list has both path and name. A cell that
a spreadsheet would run as a formula has a ' before it. Every file is compared with its CRC-32,
and has the time of its upload. Files that could not be exported are named on stderr, and the
exit code is 1 then. A second run skips files that are there with the same bytes.

Examples:
  stevedore export backup/ > keys.csv
  stevedore export --group album-7 --since 2026-01-01 album/`;

export function configure(command: Command): void {
  define(command, exportOptions, HELP, (options, target: string) =>
    withClient(
      options,
      async (client, stopped, atEnd) => {
        process.stdout.write(CSV_HEAD);
        const progress = startTransfer();
        const { concurrency } = options;
        const files = async function* (): AsyncGenerator<ListedFile, void, undefined> {
          for await (const file of listed(client, options)) {
            yield { ...(file as unknown as ListedFile), stagedAt: new Date(String(file.stagedAt)) };
          }
        };
        const run = new Export(files(), {
          ...progress,
          client,
          stopped,
          concurrency,
          onFile: (path, file) => progress.print(csvRow(path, file)),
        });
        atEnd(() => {
          progress.stop();
          progress.warn(run.summary());
        });
        await run.toDirectory(target);
        if (run.failedFiles > 0) process.exitCode = EXIT_FAILED;
      },
      options.concurrency,
    ),
  );
}

interface ListedFile {
  readonly key: string;
  readonly name: string;
  readonly size: number;
  readonly type: string;
  readonly crc32: string;
  readonly stagedAt: Date;
}

interface ExportParts extends Pick<Transfer, 'warn' | 'update'> {
  readonly client: GatewayClient;
  /** Downloads at a time. */
  readonly concurrency: number;
  /** A file is there, below the target. */
  readonly onFile: (path: string, file: ListedFile) => void;
  readonly stopped: AbortSignal;
}

class Export {
  readonly #source: AsyncGenerator<ListedFile, void, undefined>;
  readonly #parts: ExportParts;
  /** Paths being written, until they are. */
  readonly #busy = new Map<string, Promise<void>>();
  #files = 0;
  #doneBytes = 0;
  #renamedFiles = 0;
  failedFiles = 0;

  constructor(source: AsyncGenerator<ListedFile, void, undefined>, parts: ExportParts) {
    this.#source = source;
    this.#parts = parts;
  }

  summary(): string {
    const parts = [`exported ${countOf(this.#files)}`];
    if (this.#renamedFiles > 0) parts.push(`${this.#renamedFiles} under another name`);
    if (this.failedFiles > 0) parts.push(`${this.failedFiles} failed`);
    if (this.#parts.stopped.aborted) parts.push('stopped: the same command goes on from here');
    return parts.join('; ');
  }

  async toDirectory(directory: string): Promise<void> {
    await mkdir(directory, { recursive: true });
    const worker = async (): Promise<void> => {
      for await (const file of this.#source) {
        if (this.#parts.stopped.aborted) break;
        await this.#trying(file, () => this.#toFile(directory, file));
      }
    };
    await Promise.all(Array.from({ length: this.#parts.concurrency }, worker));
  }

  #advance(bytes: number): void {
    this.#doneBytes += bytes;
    this.#parts.update(this.#doneBytes, this.#files + this.failedFiles);
  }

  async #trying(file: ListedFile, write: () => Promise<string>): Promise<void> {
    try {
      const path = await write();
      this.#files += 1;
      if (path !== file.name) this.#renamedFiles += 1;
      this.#parts.onFile(path, file);
    } catch (error) {
      const isOfFile = error instanceof DamagedError || !(isOfTarget(error) || endsAll(error));
      if (!isOfFile) throw error;
      this.failedFiles += 1;
      this.#parts.warn(complaint(file.key, error));
    }
  }

  /** Tries names until the directory takes one; the key alone must be possible. */
  async #toFile(directory: string, file: ListedFile): Promise<string> {
    const { key } = file;
    const wanted = safePath(file.name, key);
    const paths = [wanted, withKey(wanted, key), withKey(basename(wanted), key), key];
    for (const path of paths) {
      try {
        if (await this.#hasWritten(join(directory, path), file)) return path;
      } catch (error) {
        if (path === key || !isOfName(error)) throw error;
      }
    }
    throw new DamagedError(`other files have the name ${key}`);
  }

  /** False if another file has the path. Files of one name take turns, or the order would decide. */
  async #hasWritten(path: string, file: ListedFile): Promise<boolean> {
    const place = folded(path);
    const before = this.#busy.get(place);
    const turn = (async () => {
      await before;
      return this.#write(path, file);
    })();
    const ended = turn.then(NOTHING, NOTHING);
    this.#busy.set(place, ended);
    try {
      return await turn;
    } finally {
      if (this.#busy.get(place) === ended) this.#busy.delete(place);
    }
  }

  async #write(path: string, file: ListedFile): Promise<boolean> {
    await mkdir(dirname(path), { recursive: true });
    const there = await unlessMissing(stat(path));
    if (there) {
      const list = fstatSync(1);
      // The list that is being written is no file of the gateway, whatever is in it by now.
      const isList = there.dev === list.dev && there.ino === list.ino;
      const isLike = there.isFile() && there.size === file.size && !isList;
      const isSame = isLike && (await crcOf(createReadStream(path))) === file.crc32;
      if (isSame) this.#advance(file.size);
      return isSame;
    }
    const body = await this.#parts.client.get(file.key);
    const content = checked(body, file, (bytes) => this.#advance(bytes));
    await writeTo(path, content, { changedAt: file.stagedAt });
    return true;
  }
}

const NOTHING = (): void => {};

/** One file cannot be exported. */
class DamagedError extends Error {}

/** Errors of this disk: the next file fails too. */
function isOfTarget(error: unknown): boolean {
  return isError(error) && 'syscall' in error && 'path' in error;
}

/** The file system does not take such a name there; it may take another. */
const OF_NAME: ReadonlySet<unknown> = new Set([
  ...['EEXIST', 'ENOTDIR', 'EISDIR', 'ENOTEMPTY', 'ENAMETOOLONG', 'EINVAL', 'EILSEQ', 'ELOOP'],
  ...['ENOENT', 'EACCES', 'EPERM'],
]);

function isOfName(error: unknown): boolean {
  return isOfTarget(error) && OF_NAME.has((error as NodeJS.ErrnoException).code);
}

/** Rejects at the end if the bytes are not the file's. */
async function* checked(
  body: Readable,
  { size, crc32: wanted }: ListedFile,
  advance: (bytes: number) => void,
): AsyncGenerator<Buffer, void, undefined> {
  let sum = 0;
  let bytes = 0;
  for await (const chunk of body as AsyncIterable<Buffer>) {
    sum = crc32(chunk, sum);
    bytes += chunk.length;
    if (bytes > size) break;
    advance(chunk.length);
    yield chunk;
  }
  if (bytes === size && hex(sum) === wanted) return;
  throw new DamagedError('the gateway sent other bytes than it lists');
}
