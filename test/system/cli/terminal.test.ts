import { spawn } from 'node:child_process';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Terminal } from '@xterm/headless';
import { describe, expect, test } from 'vitest';
import { keyedGateway } from '../../support/cli/keyed-gateway.js';
import { commandEnvironment, MAIN } from '../../support/cli/run.js';
import { running } from '../../support/gateway/harness.js';
import { hasCommand, requirement } from '../../support/requirements.js';
import { temporaryFolder } from '../../support/temporary.js';

/** What `put` leaves on a terminal: `script` gives it one, xterm shows what is to be seen. */

const { missing } = requirement('script', () => hasCommand('script', '--version'));
const COLUMNS = 60;
const ROWS = 10;

interface Screen {
  readonly code: number | null;
  /** All lines, those that have scrolled away too; wrapped ones are one. */
  readonly lines: readonly string[];
  readonly raw: string;
}

/** `typed` gets all that was shown so far, and returns what is typed then. */
async function onTerminal(
  command: string,
  cwd: string,
  url: string,
  typed?: (shown: string) => string,
  cols = COLUMNS,
): Promise<Screen> {
  const size = `stty cols ${cols} rows ${ROWS}`;
  const child = spawn('script', ['-qec', `${size}; ${command}`, '/dev/null'], {
    cwd,
    env: commandEnvironment({ STEVEDORE_URL: url, TERM: 'xterm' }),
    stdio: [typed ? 'pipe' : 'ignore', 'pipe', 'inherit'],
  });
  child.stdin?.on('error', () => {});
  const chunks: Buffer[] = [];
  child.stdout!.on('data', (chunk: Buffer) => {
    chunks.push(chunk);
    const keys = typed?.(Buffer.concat(chunks).toString());
    if (keys) child.stdin?.write(keys);
  });
  const code = await new Promise<number | null>((done) => child.once('close', done));
  const terminal = new Terminal({
    cols,
    rows: ROWS,
    scrollback: 10_000,
    allowProposedApi: true,
  });
  const bytes = Buffer.concat(chunks);
  await new Promise<void>((done) => terminal.write(bytes, done));
  const lines: string[] = [];
  const { active } = terminal.buffer;
  for (let index = 0; index < active.length; index++) {
    const row = active.getLine(index)!;
    if (row.isWrapped) lines.push(lines.pop() + row.translateToString(true));
    else lines.push(row.translateToString(true));
  }
  return { code, lines: lines.filter((line) => line !== ''), raw: bytes.toString() };
}

const PUT = `${process.execPath} ${MAIN} put`;
const CTRL_C = '\x03';
const FILL = `for i in $(seq ${ROWS + 3}); do echo before $i; done`;
const before = Array.from({ length: ROWS + 3 }, (_, index) => `before ${index + 1}`);

describe.skipIf(missing)('on a terminal', () => {
  test.each([
    ['in the middle of the screen', 'echo before 1', before.slice(0, 1)],
    ['on its last line', FILL, before],
  ])('receipts stay that begin %s', async (_where, fill, filled) => {
    const { store, url } = await running();
    const cwd = temporaryFolder();
    await mkdir(join(cwd, 'd'));
    const names = Array.from({ length: 30 }, (_, index) => `${index}`.padEnd(index * 3, 'x'));
    for (const name of names) await writeFile(join(cwd, 'd', name), Buffer.alloc(100_000));
    const { code, lines, raw } = await onTerminal(`${fill}; ${PUT} d`, cwd, url);
    expect(code).toBe(0);
    const receipts = [...store.files].map(([key, { info }]) => `${key}  100000  ${info.name}`);
    expect(receipts).toHaveLength(30);
    expect(lines.slice(0, filled.length)).toEqual(filled);
    expect(lines.slice(filled.length, -1).sort()).toEqual(receipts.sort());
    expect(lines.at(-1)).toBe('stored 30 files, 2.9 MiB');
    expect(raw).toMatch(/\d [KM]iB, \d+ files?, \S+ [KM]?i?B\/s/);
  });

  test('one file leaves its receipt alone, and its second put says that it was there', async () => {
    const { store, url } = await running();
    const cwd = temporaryFolder();
    await writeFile(join(cwd, 'photo.jpg'), Buffer.alloc(300_000));
    const { lines } = await onTerminal(`${PUT} photo.jpg`, cwd, url);
    const [key] = store.files.keys();
    expect(lines).toEqual([`${key}  300000  photo.jpg`]);
    const again = await onTerminal(`${FILL}; ${PUT} photo.jpg`, cwd, url);
    expect(again.lines.slice(before.length)).toEqual([
      `${key}  300000  photo.jpg  (there already)`,
      '1 file there already',
    ]);
  });

  test('complaints stay as well', async () => {
    const { url } = await running({ limits: { maxFileBytes: 1000 } });
    const cwd = temporaryFolder();
    await mkdir(join(cwd, 'd'));
    for (let index = 0; index < 9; index++) {
      await writeFile(join(cwd, 'd', `${index}`.repeat(50)), Buffer.alloc(index % 2 ? 512 : 5000));
    }
    const { code, lines } = await onTerminal(`${FILL}; ${PUT} d`, cwd, url);
    expect(code).toBe(1);
    const told = lines.slice(before.length);
    expect(told.filter((line) => line.endsWith('longer than 1000 bytes.'))).toHaveLength(5);
    expect(told.filter((line) => /^\S{22} {2}512 {2}d\/(\d)\1{49}$/.test(line))).toHaveLength(4);
    expect(told.at(-1)).toBe('stored 4 files, 2 KiB; 5 files failed');
    expect(told).toHaveLength(10);
  });

  test.each([
    [1, COLUMNS],
    [2, COLUMNS],
    // The bar is as long as it may be: ^C behind it would not fit on its line.
    [2, 40],
  ])(
    'Ctrl-C, %i times in %i columns, says how far it got, and the prompt has a line of its own',
    async (times, columns) => {
      const { url } = await running();
      const cwd = temporaryFolder();
      await mkdir(join(cwd, 'd'));
      for (let index = 0; index < 500; index++) {
        await writeFile(join(cwd, 'd', String(index)), String(index));
      }
      let count = 0;
      const command = `bash -c '${PUT} d -c 1; echo never'`;
      const press = (shown: string): string => {
        const isDue =
          count === 0 ? /\S{22} {2}\d.* \d+ files?, /s.test(shown) : shown.includes('^C');
        if (!isDue || count === times) return '';
        count += 1;
        return CTRL_C;
      };
      const { code, lines: shown } = await onTerminal(command, cwd, url, press, columns);
      // The shell around it ends by the signal too.
      expect(code).toBe(130);
      // A terminal can echo between a line and its end, and a second one when the command has ended.
      const lines = shown.map((line) => line.replace(/(?<=.)\^C$/, ''));
      if (times === 2 && lines.at(-1) === '^C') lines.pop();
      expect(lines.at(-1)).toMatch(
        /^stored \d+ files?, .*; stopped: the same command goes on from here$/,
      );
      // Nothing is left of the bar, nor of ^C.
      expect(lines.slice(0, -1).filter((line) => !/^\S{22} {2}\d {2}d\/\d+$/.test(line))).toEqual(
        [],
      );
    },
  );

  test('ls has sizes for people and a total, get -o a bar that goes', async () => {
    const { put, env } = await keyedGateway();
    const cwd = temporaryFolder();
    const one = await put('one', 'x'.repeat(3000));
    const two = await put('two', 'y');
    const command = `STEVEDORE_API_KEY=${env.STEVEDORE_API_KEY} ${process.execPath} ${MAIN}`;
    const both = `${command} ls; ${command} get ${one.key} -o one; echo end`;
    const { lines, raw } = await onTerminal(both, cwd, env.STEVEDORE_URL);
    expect(lines).toEqual([
      `${one.key}    2.9 KiB  ${one.stagedAt}  one`,
      `${two.key}        1 B  ${two.stagedAt}  two`,
      '2 files, 2.9 KiB',
      'end',
    ]);
    expect(raw).toMatch(/ 100 % of 2\.9 KiB, \S+ [KMG]?i?B\/s, 0 s left/);
  });

  test('text is shown, and binary bytes are not', async () => {
    const { store, url } = await running();
    const cwd = temporaryFolder();
    const text = await store.put('plain text\n');
    const binary = await store.put(Buffer.from('PNG\x1b[2J\0'));
    const get = (key: string) => `${process.execPath} ${MAIN} get ${key}`;
    const shown = await onTerminal(`${get(text.key)}; ${get(binary.key)}`, cwd, url);
    expect([shown.code, shown.lines]).toEqual([
      2,
      [
        'plain text',
        'stevedore: the file is not text; write it to a file with -o FILE, or pipe it on',
      ],
    ]);
    const piped = await onTerminal(`${get(binary.key)} | wc -c`, cwd, url);
    expect(piped.lines).toEqual(['8']);
  });
});
