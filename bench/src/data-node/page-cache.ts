import { type Disk, type DiskFile, decoratedDisk, decoratedFile, localDisk } from '@stevedore/disk';

/**
 * A page cache of a bounded size in front of a disk. Node has no say in how much memory the system's
 * own page cache takes, so which pages of 4 KiB are in memory is decided here: those used last. A read
 * whose pages are all there is a plain buffered one, with all that such a read costs, and the system
 * has the bytes, because every file is read once when it is opened. Any other read goes to the disk,
 * as whole units of `fetchBytes`: a page, or the system's read-ahead.
 *
 * In favour of what it stands for: its bookkeeping takes no memory, what is written takes no room, and
 * a read waits for pages that are on their way instead of reading them again. Against it: the system's
 * own cache also tells pages that are used often from those that were used last.
 */

const PAGE_BYTES = 4096;
/** More than a file has pages: the place of a page among those of all files. */
const PAGES_PER_FILE = 2 ** 32;
const READ_BYTES = 2 ** 20;

interface OpenedFile {
  readonly number: number;
  readonly size: number;
  readonly file: DiskFile;
  readonly buffered: DiskFile;
}

export class PageCache {
  readonly disk: Disk;
  /** Reads that needed no disk, and those that did. */
  hits = 0;
  misses = 0;
  readonly #maxPages: number;
  readonly #fetchBytes: number;
  /** Last used last; a page that is on its way has the read that brings it. */
  readonly #pages = new Map<number, Promise<unknown> | undefined>();
  readonly #files = new Map<string, number>();

  constructor(disk: Disk, maxBytes: number, fetchBytes = PAGE_BYTES) {
    this.#maxPages = Math.floor(maxBytes / PAGE_BYTES);
    this.#fetchBytes = fetchBytes;
    this.disk = decoratedDisk(disk, { openToRead: (path) => this.#open(disk, path) });
  }

  async #open(disk: Disk, path: string): Promise<DiskFile> {
    const file = await disk.openToRead(path);
    const buffered = await localDisk.openToRead(path);
    const { size } = await buffered.stat();
    const number = this.#files.get(path) ?? this.#files.size;
    if (!this.#files.has(path)) {
      this.#files.set(path, number);
      await readAll(buffered, size);
    }
    const opened = { number, size, file, buffered };
    return decoratedFile(file, {
      readAt: (target, position) => this.#read(opened, target, position),
      close: async () => {
        await buffered.close();
        await file.close();
      },
    });
  }

  async #read(opened: OpenedFile, target: Buffer, position: number): Promise<number> {
    const start = opened.number * PAGES_PER_FILE;
    const pageOf = (at: number) => start + Math.floor(at / PAGE_BYTES);
    const coming = this.#pagesComing(pageOf(position), pageOf(position + target.length - 1));
    if (coming) {
      this.hits += 1;
      for (const each of coming) await each;
      return opened.buffered.readAt(target, position);
    }
    this.misses += 1;
    const unit = this.#fetchBytes;
    const from = position - (position % unit);
    const end = Math.min(Math.ceil((position + target.length) / unit) * unit, opened.size);
    const all = Buffer.allocUnsafe(Math.max(end - from, 0));
    const reading = opened.file.readAt(all, from);
    const [first, last] = [pageOf(from), pageOf(end - 1)];
    this.#keep(first, last, reading);
    try {
      const count = await reading;
      return all.copy(target, 0, position - from, count);
    } finally {
      for (let page = first; page <= last; page += 1) {
        if (this.#pages.get(page) === reading) this.#pages.set(page, undefined);
      }
    }
  }

  /** The reads that bring the pages, none for those that are there; undefined if one is missing. */
  #pagesComing(first: number, last: number): Set<Promise<unknown>> | undefined {
    const coming = new Set<Promise<unknown>>();
    for (let page = first; page <= last; page += 1) {
      const reading = this.#pages.get(page);
      if (reading) coming.add(reading);
      else if (!this.#pages.has(page)) return undefined;
    }
    for (let page = first; page <= last; page += 1) {
      const reading = this.#pages.get(page);
      this.#pages.delete(page);
      this.#pages.set(page, reading);
    }
    return coming;
  }

  #keep(first: number, last: number, reading: Promise<unknown>): void {
    for (let page = first; page <= last; page += 1) {
      this.#pages.delete(page);
      this.#pages.set(page, reading);
    }
    for (const oldest of this.#pages.keys()) {
      if (this.#pages.size <= this.#maxPages) return;
      this.#pages.delete(oldest);
    }
  }
}

async function readAll(file: DiskFile, size: number): Promise<void> {
  const target = Buffer.allocUnsafe(READ_BYTES);
  for (let at = 0; at < size; at += READ_BYTES) await file.readAt(target, at);
}
