import { formatBytes } from '@stevedore/options';

/**
 * A progress bar on stderr if that is a terminal; nothing otherwise. It is one line, shorter than
 * the terminal is wide and without a line end, and leaves the cursor at its start: what a terminal
 * shows by itself, as ^C, overwrites the bar and is cleared with it.
 */

interface Output {
  /** A line on stdout, above the bar. */
  print(line: string): void;
  /** A line on stderr, above the bar. */
  warn(line: string): void;
  stop(): void;
}

export interface Progress extends Output {
  update(done: number, all: number): void;
}

/** Of files. */
export interface Transfer extends Output {
  update(doneBytes: number, doneFiles: number): void;
}

/** `what` stands between the share done and the remaining time. */
export function startProgress(what: string): Progress {
  const bar = new Bar();
  return bar.with((done: number, all: number) => bar.show(all > 0 ? done / all : 0, what));
}

/** Shows the bytes and files done, and their rate; `totalBytes` if it is known. */
export function startTransfer(totalBytes?: number): Transfer {
  const bar = new Bar();
  return bar.with((doneBytes: number, doneFiles: number) => {
    const rate = formatBytes(Math.round((doneBytes * 1000) / bar.elapsedMs));
    if (totalBytes) bar.show(doneBytes / totalBytes, `${formatBytes(totalBytes)}, ${rate}/s`);
    else bar.draw(`${formatBytes(doneBytes)}, ${countOf(doneFiles)}, ${rate}/s`);
  });
}

const REDRAW_MS = 100;
const MAX_BAR_WIDTH = 40;
const DEFAULT_COLUMNS = 80;
const CLEAR = '\r\x1b[K';

function isWatched(): boolean {
  return process.stderr.isTTY && process.env.TERM !== 'dumb';
}

/** Removes a bar, and a ^C that the terminal showed there. */
export function clearLine(): void {
  if (isWatched()) process.stderr.write(CLEAR);
}

class Bar {
  readonly #isWatched = isWatched();
  readonly #startedAt = performance.now();
  #drawnAt = Number.NEGATIVE_INFINITY;
  /** The text on the screen; empty if there is none. */
  #shown = '';

  with(update: (done: number, other: number) => void): Output & { update: typeof update } {
    return {
      print: (line) => this.#above(process.stdout, line),
      warn: (line) => this.#above(process.stderr, line),
      update: (done, other) => {
        if (!this.#isWatched || performance.now() - this.#drawnAt < REDRAW_MS) return;
        this.#drawnAt = performance.now();
        update(done, other);
      },
      stop: () => this.draw(''),
    };
  }

  /** Never 0. */
  get elapsedMs(): number {
    return Math.max(performance.now() - this.#startedAt, 1);
  }

  /** A character in the last column may or may not wrap. */
  get #room(): number {
    return (process.stderr.columns || DEFAULT_COLUMNS) - 1;
  }

  show(share: number, what: string): void {
    const done = Math.min(share, 1);
    const left = done > 0 ? `, ${duration((this.elapsedMs * (1 - done)) / done)} left` : '';
    const text = `${Math.floor(done * 100)} % of ${what}${left}`;
    const width = Math.max(0, Math.min(MAX_BAR_WIDTH, this.#room - text.length - 1));
    const full = Math.floor(done * width);
    const bar = '█'.repeat(full) + '░'.repeat(width - full);
    this.draw(`${bar}${bar && ' '}${text}`);
  }

  #above(stream: NodeJS.WriteStream, line: string): void {
    const isHere = this.#isWatched && stream.isTTY;
    // At once: the terminal may show a ^C between two writes.
    stream.write(`${isHere ? CLEAR : ''}${line}\n`);
    if (isHere) this.draw(this.#shown);
  }

  draw(line: string): void {
    const text = line.slice(0, this.#room);
    if (text === '' && this.#shown === '') return;
    process.stderr.write(`${CLEAR}${text}\r`);
    this.#shown = text;
  }
}

/** `8 s`, `3 min 20 s`, `2 h 5 min` */
function duration(ms: number): string {
  const seconds = Math.ceil(ms / 1000);
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${seconds % 60} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** `1 file`, `2 files`. */
export function countOf(files: number): string {
  return `${files} ${files === 1 ? 'file' : 'files'}`;
}
