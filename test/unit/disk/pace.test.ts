import fs from 'node:fs';
import { storeDisk } from '@stevedore/disk';
import { expect, onTestFinished, test, vi } from 'vitest';
import { Pace, promptly } from '../../../packages/disk/dist/pace.js';

/** Reads that take so long, one after the other; the time at which they end. */
function readAll(pace: Pace, from: number, count: number, tookMs: number): number {
  let now = from;
  for (let read = 0; read < count; read += 1) {
    now += tookMs;
    pace.note(tookMs, now);
  }
  return now;
}

test('short reads stay where they are asked for, whatever one of them takes', () => {
  const pace = new Pace();
  let now = 0;
  for (let turn = 0; turn < 20; turn += 1) {
    now = readAll(pace, now, 100, 0.01);
    pace.note(50, now);
    expect(pace.isShort(now)).toBe(true);
  }
});

test('slow reads go to other threads, for longer each time', () => {
  const pace = new Pace();
  let now = 0;
  let before = 0;
  for (let turn = 0; turn < 5; turn += 1) {
    now = readAll(pace, now, 4, 8);
    expect(pace.isShort(now)).toBe(false);
    let pause = 0;
    while (!pace.isShort(now + pause)) pause += 50;
    expect(pause).toBeGreaterThan(before);
    before = pause;
    now += pause;
  }
  // The disk is quick again, and slow once more after many reads.
  now = readAll(pace, now, 2000, 0.01);
  now = readAll(pace, now, 10, 8);
  expect(pace.isShort(now)).toBe(false);
  expect(pace.isShort(now + 1000)).toBe(true);
});

test('calls go to other threads where they take long', async () => {
  const slow = (): string => {
    const end = performance.now() + 1;
    while (performance.now() < end);
    return 'at once';
  };
  const pace = new Pace();
  const answers: string[] = [];
  for (let call = 0; call < 10; call += 1) {
    answers.push(await promptly(pace, slow, async () => 'later'));
  }
  expect(answers[0]).toBe('at once');
  expect(answers.at(-1)).toBe('later');
});

test('a slow store path leaves the calls to another where they are', async () => {
  let nowMs = 0;
  const { lstatSync } = fs;
  vi.spyOn(performance, 'now').mockImplementation(() => nowMs);
  const looks = vi.spyOn(fs, 'lstatSync').mockImplementation(((path: string, options: object) => {
    if (path.startsWith('/slow/')) nowMs += 1;
    return lstatSync(path, options);
  }) as typeof lstatSync);
  onTestFinished(() => void vi.restoreAllMocks());
  const disk = storeDisk(['/slow', '/quick']);
  for (let call = 0; call < 10; call += 1) await disk.exists('/slow/file');
  looks.mockClear();
  expect(await disk.exists('/slow/file')).toBe(false);
  expect(looks).not.toHaveBeenCalled();
  expect(await disk.exists('/quick/file')).toBe(false);
  expect(looks).toHaveBeenCalledOnce();
});
