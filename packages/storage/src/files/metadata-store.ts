import {
  MAX_METADATA_KEY_BYTES,
  MAX_METADATA_VALUE_BYTES,
  type MetadataMode,
} from '@stevedore/protocol';
import { METADATA_SUFFIX } from '../layout.js';
import { notFound } from '../refusals.js';
import type { Change } from '../replication/journal.js';
import type { FileBackend, StoredMetadata } from './file-backend.js';
import type { FileLocks } from './store-paths.js';

/**
 * Metadata of files: the wire text, sorted by the bytes of the names. It is always replaced
 * as a whole, and durable before the request is answered.
 */

/** A file and its name. */
export interface DescribedFile {
  readonly path: string;
  readonly name: string;
}

export interface MetadataUpdate {
  readonly metadata: Buffer;
  readonly mode: MetadataMode;
}

const RECORD_SEPARATOR = '\x01';
const FIELD_SEPARATOR = '\x02';

export class MetadataStore {
  readonly #backend: FileBackend;
  readonly #locks: FileLocks;

  constructor(backend: FileBackend, locks: FileLocks) {
    this.#backend = backend;
    this.#locks = locks;
  }

  /** The metadata of the data file at `path`; status 2 without a file or metadata. */
  get(path: string): Promise<Buffer> {
    return this.#locks.run(path, async () => {
      const isThere = await this.#backend.exists(path);
      const metadata = isThere ? await this.#backend.metadata(path) : undefined;
      if (!metadata) throw notFound(`no metadata of ${path}`);
      return metadata.text;
    });
  }

  /** Status 2 if there is no data file at `path`. */
  set({ path, name }: DescribedFile, update: MetadataUpdate, change: Change): Promise<void> {
    const { metadata, mode } = update;
    const noted = name + METADATA_SUFFIX;
    return this.#locks.run(path, async () => {
      if (!(await this.#backend.exists(path))) throw notFound(path);
      const records = parse(metadata);
      if (mode === 'merge' && records.size === 0) return;
      const before = await this.#backend.metadata(path);
      if (records.size === 0) {
        if (!before) return;
        await change.note('D', noted);
        await this.#backend.setMetadata(path, undefined);
        return;
      }
      await change.note(before ? 'U' : 'C', noted);
      const kept = mode === 'merge' && before ? parse(before.text) : [];
      await this.#write(path, new Map([...kept, ...records]), change.seconds());
    });
  }

  /**
   * Applies another member's metadata, or its removal, unless the metadata here is newer and
   * `countsMore` is false. The file itself may arrive later. Status 2 for a removal of nothing.
   */
  receive(
    { path, name }: DescribedFile,
    metadata: Buffer | undefined,
    change: Change,
    countsMore: boolean,
  ): Promise<void> {
    const noted = name + METADATA_SUFFIX;
    return this.#locks.run(path, async () => {
      const before = await this.#backend.metadata(path);
      if (before && !countsMore && before.mtimeSeconds > change.seconds()) return;
      if (metadata) {
        await change.note(before ? 'U' : 'C', noted);
        await this.#write(path, parse(metadata), change.seconds());
      } else {
        if (!before) throw notFound(`no metadata of ${path}`);
        await change.note('D', noted);
        await this.#backend.setMetadata(path, undefined);
      }
    });
  }

  /** The metadata to send to other members, read between two changes of the file. */
  toSend(path: string): Promise<StoredMetadata | undefined> {
    return this.#locks.run(path, () => this.#backend.metadata(path));
  }

  #write(path: string, records: ReadonlyMap<string, string>, seconds: number): Promise<void> {
    return this.#backend.setMetadata(path, { text: format(records), mtimeSeconds: seconds });
  }
}

/** Treats bytes as characters, so that any bytes survive a round trip. */
function parse(text: Buffer): Map<string, string> {
  const records = new Map<string, string>();
  if (text.length === 0) return records;
  for (const record of text.toString('latin1').split(RECORD_SEPARATOR)) {
    const [name = '', ...values] = record.split(FIELD_SEPARATOR);
    records.set(
      name.slice(0, MAX_METADATA_KEY_BYTES),
      values.join(FIELD_SEPARATOR).slice(0, MAX_METADATA_VALUE_BYTES),
    );
  }
  return records;
}

function format(records: ReadonlyMap<string, string>): Buffer {
  const sorted = [...records].sort(([one], [other]) => (one < other ? -1 : 1));
  return Buffer.from(
    sorted.map(([name, value]) => name + FIELD_SEPARATOR + value).join(RECORD_SEPARATOR),
    'latin1',
  );
}
