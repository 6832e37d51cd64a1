import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import type { AppOptions } from '../../../gateway/dist/app.js';
import { type Running, running } from '../gateway/harness.js';
import { temporaryFolder } from '../temporary.js';
import { type NaiveServer, startNaiveServer } from './naive-server.js';

/** An attack, run against the gateway, where it must fail, and against a naive server, where not. */

export interface Target {
  readonly url: string;
  readonly port: number;
  /** When to believe that it will wait for ever. */
  readonly patienceMs: number;
  /** How many files were stored. */
  stored(): number;
  /** Answers as it did before. */
  alive(): Promise<boolean>;
}

/** Resolves with true if it succeeded: if the server did what it must not. */
export type Attack = (target: Target) => Promise<boolean>;

const IMAGES = { images: { types: ['image/*'], checkContent: true } } as const;

export function attack(name: string, options: Partial<AppOptions>, run: Attack): void {
  test(`${name}: the gateway holds`, async () => {
    const gateway = await running({ policies: { current: IMAGES }, ...options });
    expect(await run(gatewayTarget(gateway))).toBe(false);
    expect(await gatewayTarget(gateway).alive()).toBe(true);
    expect(gateway.serverErrors).toEqual([]);
    expect(gateway.store.uploadsInFlight).toBe(0);
  });

  test(`${name}: a naive server falls`, async () => {
    const naive = await startNaiveServer(join(temporaryFolder(), 'files'));
    onTestFinished(() => naive.close());
    expect(await run(naiveTarget(naive))).toBe(true);
  });
}

function gatewayTarget(gateway: Running): Target {
  return {
    url: gateway.url,
    port: gateway.port,
    patienceMs: 30_000,
    stored: () => gateway.store.files.size,
    alive: async () => {
      // A connection that was just closed may still count.
      for (let left = 200; left > 0; left -= 1) {
        const answer = await fetch(`${gateway.url}/health/live`).catch(() => undefined);
        if (answer?.status === 200) return true;
      }
      return false;
    },
  };
}

function naiveTarget(naive: NaiveServer): Target {
  return {
    url: naive.url,
    port: naive.port,
    patienceMs: 1500,
    stored: () => naive.files.size,
    alive: async () => true,
  };
}

export async function post(
  target: Target,
  body: string | Buffer,
  headers: Record<string, string> = {},
  path = '/files',
): Promise<{ status: number; key: string; location: string | null }> {
  const bytes = new Uint8Array(Buffer.from(body));
  const response = await fetch(target.url + path, { method: 'POST', body: bytes, headers });
  const text = await response.text();
  const { key = '' } = JSON.parse(text === '' ? '{}' : text) as { key?: string };
  return { status: response.status, key, location: response.headers.get('location') };
}
