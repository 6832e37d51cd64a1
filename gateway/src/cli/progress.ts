/**
 * A progress bar on stderr if that is a terminal; nothing otherwise. It is one line, shorter than
 * the terminal is wide and without a line end, so that returning to its start and clearing it
 * affects nothing else on the screen.
 */
export interface Progress {
  /** A line on stdout, above the bar. */
  print(line: string): void;
  /** A line on stderr, above the bar. */
  warn(line: string): void;
  readonly update: (done: number, all: number) => void;
  stop(): void;
}

const REDRAW_MS = 100;
const MAX_BAR_WIDTH = 40;
const DEFAULT_COLUMNS = 80;
const CLEAR = '\r\x1b[K';

/** `what` stands between the amount done and the remaining time. */
export function startProgress(what: string): Progress {
  const isWatched = process.stderr.isTTY && process.env.TERM !== 'dumb';
  return isWatched ? new Bar(what) : silentProgress;
}

export const silentProgress: Progress = {
  print: (line) => void process.stdout.write(`${line}\n`),
  warn: (line) => void process.stderr.write(`${line}\n`),
  update: () => {},
  stop: () => {},
};

class Bar implements Progress {
  readonly #what: string;
  readonly #startedAt = performance.now();
  #drawnAt = Number.NEGATIVE_INFINITY;
  /** The text on the screen; empty if there is none. */
  #shown = '';

  constructor(what: string) {
    this.#what = what;
  }

  print(line: string): void {
    this.#above(process.stdout, line);
  }

  warn(line: string): void {
    this.#above(process.stderr, line);
  }

  readonly update = (done: number, all: number): void => {
    const now = performance.now();
    if (now - this.#drawnAt < REDRAW_MS) return;
    this.#drawnAt = now;
    const share = all > 0 ? Math.min(done / all, 1) : 0;
    this.#draw(this.#text(share, now - this.#startedAt));
  };

  stop(): void {
    this.#draw('');
  }

  #above(stream: NodeJS.WriteStream, line: string): void {
    const shown = stream.isTTY ? this.#shown : '';
    if (shown !== '') this.#draw('');
    stream.write(`${line}\n`);
    if (shown !== '') this.#draw(shown);
  }

  #draw(text: string): void {
    if (text === '' && this.#shown === '') return;
    process.stderr.write(CLEAR + text);
    this.#shown = text;
  }

  #text(share: number, elapsedMs: number): string {
    const left = share > 0 ? `, ${duration((elapsedMs * (1 - share)) / share)} left` : '';
    const text = `${Math.floor(share * 100)} % of ${this.#what}${left}`;
    // A character in the last column may or may not wrap.
    const room = (process.stderr.columns || DEFAULT_COLUMNS) - 1;
    const width = Math.min(MAX_BAR_WIDTH, room - text.length - 1);
    if (width < 1) return text.slice(0, room);
    const full = Math.floor(share * width);
    return `${'█'.repeat(full)}${'░'.repeat(width - full)} ${text}`;
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
