import { abortable, Listeners, Wakeup } from '@stevedore/async';
import { describe, expect, it } from 'vitest';

describe('a wait for a wake-up', () => {
  it('ends with it for everybody, or after its time', async () => {
    const listeners = new Listeners();
    const both = Promise.all([listeners.next(10_000), listeners.next(10_000)]);
    listeners.wake();
    expect(await both).toEqual([true, true]);
    expect(await listeners.next(1)).toBe(false);
  });

  it('is none if there was some meanwhile, once', async () => {
    const wakeup = new Wakeup();
    wakeup.wake();
    wakeup.wake();
    expect(await wakeup.next(10_000)).toBe(true);
    expect(await wakeup.next(-5)).toBe(false);
  });
});

describe('an abortable promise', () => {
  it('is given up with the reason of the signal, before or after', async () => {
    const stop = new AbortController();
    const waiting = abortable(new Promise(() => {}), stop.signal);
    stop.abort(new Error('enough'));
    await expect(waiting).rejects.toThrow('enough');
    // A failure that nobody waits for any more must not end the process.
    const failing = Promise.reject(new Error('later'));
    await expect(abortable(failing, stop.signal)).rejects.toThrow('enough');
  });

  it('is itself without an abort', async () => {
    const { signal } = new AbortController();
    expect(await abortable(Promise.resolve(1), signal)).toBe(1);
    await expect(abortable(Promise.reject(new Error('no')), signal)).rejects.toThrow('no');
  });
});
