import { createReadStream, createWriteStream } from 'node:fs';
import { mkdir, rename, rm, stat, utimes } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { crc32 } from 'node:zlib';
import { type OptionTable, type OptionValues, option } from '@stevedore/options';
import { isError } from '@stevedore/protocol';
import type { Command } from 'commander';
import { createTarPacker } from 'modern-tar';
import { EntryNames, safePath, withKey } from '../entry-names.js';
import { CSV_HEAD, csvRow, hex } from './csv.js';
import { EXIT_FAILED, explain } from './errors.js';
import { filterOptions, listed, save, withClient } from './file-commands.js';
import { endsAll, type GatewayClient } from './gateway-client.js';
import { addOptions, clientOptions, flags, optionsOf } from './options.js';

/** `stevedore export`: writes files of a gateway into a directory or a tar archive. */

const exportOptions = {
  ...clientOptions,
  ...filterOptions,
  ...flags({
    concurrency: option.integer(8, 'downloads at a time', { short: 'c', minimum: 1, maximum: 64 }),
  }),
} satisfies OptionTable;

const HELP = `
The target is a directory, a file that ends in .tar, or - for a tar archive on stdout. Prints CSV
with the columns path, key, size and crc32, a row for each file, except with -. Needs an API key
with the scopes "list" and "read".

Files get the names that they were uploaded with, without what would lead out of the directory;
where two have the same name, one gets its key too. Every file is compared with its CRC-32, and
has the time of its upload. Files that could not be exported are named on stderr, and the exit
code is 1 then. In a directory, a second run skips files that are there with the same bytes.

Examples:
  stevedore export backup/ > keys.csv
  stevedore export --group album-7 album.tar
  stevedore export --since 2026-01-01 - | zstd > new.tar.zst`;

export function configure(command: Command): void {
  addOptions(command, exportOptions)
    .addHelpText('after', HELP)
    .action((target: string) => {
      const options = optionsOf(command, exportOptions);
      return withClient(
        command,
        exportOptions,
        async (client) => {
          const isTar = target === '-' || target.endsWith('.tar');
          const print = target === '-' ? () => {} : (row: string) => process.stdout.write(row);
          print(CSV_HEAD);
          const run = new Export(client, options, print);
          await (isTar ? run.toTar(target) : run.toDirectory(target));
          process.stderr.write(`${run.summary()}\n`);
          if (run.failedFiles > 0) process.exitCode = EXIT_FAILED;
        },
        options.concurrency,
      );
    });
}

/** As listed by the gateway. */
interface ListedFile {
  readonly key: string;
  readonly name: string;
  readonly size: number;
  readonly crc32: string;
  readonly stagedAt: Date;
}

/** Names in an archive that are kept in memory; later ones get their keys, so that they differ. */
const MAX_NAMES = 1_000_000;

class Export {
  readonly #client: GatewayClient;
  readonly #options: OptionValues<typeof exportOptions>;
  readonly #print: (row: string) => void;
  /** Paths being written. */
  readonly #busy = new Set<string>();
  #files = 0;
  failedFiles = 0;

  constructor(
    client: GatewayClient,
    options: OptionValues<typeof exportOptions>,
    print: (row: string) => void,
  ) {
    this.#client = client;
    this.#options = options;
    this.#print = print;
  }

  summary(): string {
    const failed = this.failedFiles > 0 ? `, ${this.failedFiles} failed` : '';
    return `exported ${this.#files} ${this.#files === 1 ? 'file' : 'files'}${failed}`;
  }

  async toDirectory(directory: string): Promise<void> {
    await mkdir(directory, { recursive: true });
    const files = this.#listed();
    const worker = async (): Promise<void> => {
      for await (const file of files) {
        await this.#trying(file, () => this.#toFile(directory, file));
      }
    };
    await Promise.all(Array.from({ length: this.#options.concurrency }, worker));
  }

  async toTar(target: string): Promise<void> {
    const { readable, controller } = createTarPacker();
    const names = new EntryNames();
    const archive = Readable.fromWeb(readable as never);
    const written =
      target === '-' ? pipeline(archive, process.stdout, { end: false }) : save(archive, target);
    const pack = async (): Promise<void> => {
      for await (const file of this.#listed()) {
        await this.#trying(file, async () => {
          const body = await this.#client.get(file.key);
          const path =
            this.#files < MAX_NAMES
              ? names.add(file.name, file.key)
              : withKey(safePath(file.name, file.key), file.key);
          const header = { name: path, size: file.size, mtime: file.stagedAt, mode: 0o644 };
          const writer = controller.add({ ...header, type: 'file' }).getWriter();
          try {
            for await (const chunk of checked(body, file)) await writer.write(chunk);
            await writer.close();
          } catch (error) {
            // Its header is written: the archive cannot continue without its bytes.
            throw new ArchiveError(`${file.key} broke off in the archive`, { cause: error });
          }
          return path;
        });
      }
      controller.finalize();
    };
    const packed = pack().catch((error: unknown) => {
      controller.error(error);
      throw error;
    });
    await Promise.all([packed, written]);
  }

  async *#listed(): AsyncGenerator<ListedFile, void, undefined> {
    for await (const file of listed(this.#client, this.#options)) {
      yield { ...(file as unknown as ListedFile), stagedAt: new Date(String(file.stagedAt)) };
    }
  }

  async #trying(file: ListedFile, write: () => Promise<string>): Promise<void> {
    try {
      const path = await write();
      this.#files += 1;
      this.#print(`${csvRow(path, file)}\n`);
    } catch (error) {
      if (error instanceof ArchiveError || isOfTarget(error)) throw error;
      if (!(error instanceof DamagedError) && endsAll(error)) throw error;
      this.failedFiles += 1;
      process.stderr.write(`${file.key}: ${explain(error)}\n`);
    }
  }

  async #toFile(directory: string, file: ListedFile): Promise<string> {
    const wanted = safePath(file.name, file.key);
    const candidates = [wanted, withKey(wanted, file.key), withKey(lastPart(wanted), file.key)];
    for (const path of candidates) {
      const absolute = join(directory, path);
      if (this.#busy.has(absolute.toLowerCase())) continue;
      this.#busy.add(absolute.toLowerCase());
      try {
        const there = await whatIsThere(absolute);
        if (there === 'blocked' || (there && !(await hasBytes(absolute, there.size, file)))) {
          continue;
        }
        if (!there) await this.#download(absolute, file);
        return path;
      } finally {
        this.#busy.delete(absolute.toLowerCase());
      }
    }
    throw new DamagedError(`other files have the name ${candidates[1]}`);
  }

  async #download(path: string, file: ListedFile): Promise<void> {
    const partial = join(dirname(path), `.${file.key}.${process.pid}.part`);
    try {
      const body = await this.#client.get(file.key);
      await pipeline(checked(body, file), createWriteStream(partial, { flags: 'wx' }));
      await utimes(partial, file.stagedAt, file.stagedAt);
      await rename(partial, path);
    } catch (error) {
      await rm(partial, { force: true });
      throw error;
    }
  }
}

/** The target accepts nothing more, or cannot be continued. */
class ArchiveError extends Error {}
/** One file cannot be exported. */
class DamagedError extends Error {}

/** Errors of this disk: the next file fails too. */
function isOfTarget(error: unknown): boolean {
  return isError(error) && 'syscall' in error && 'path' in error;
}

function lastPart(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1);
}

/** Creates the parent directories. `blocked`: no file can be created there. */
async function whatIsThere(
  path: string,
): Promise<{ readonly size: number } | 'blocked' | undefined> {
  try {
    await mkdir(dirname(path), { recursive: true });
    const found = await stat(path);
    return found.isFile() ? found : 'blocked';
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT') return undefined;
    if (code === 'EEXIST' || code === 'ENOTDIR') return 'blocked';
    throw error;
  }
}

async function hasBytes(path: string, size: number, file: ListedFile): Promise<boolean> {
  if (size !== file.size) return false;
  let sum = 0;
  for await (const chunk of createReadStream(path)) sum = crc32(chunk as Buffer, sum);
  return hex(sum) === file.crc32;
}

/** Rejects at the end if the bytes are not the file's. */
async function* checked(
  body: Readable,
  { size, crc32: wanted }: ListedFile,
): AsyncGenerator<Buffer, void, undefined> {
  let sum = 0;
  let bytes = 0;
  for await (const chunk of body as AsyncIterable<Buffer>) {
    sum = crc32(chunk, sum);
    bytes += chunk.length;
    if (bytes > size) break;
    yield chunk;
  }
  if (bytes === size && hex(sum) === wanted) return;
  throw new DamagedError('the gateway sent other bytes than it lists');
}
