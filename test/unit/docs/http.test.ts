import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { digestCheck, SKEW_MS } from '@stevedore/middleware/core';
import { describe, expect, test } from 'vitest';
import { policyOptions } from '../../../gateway/dist/access/policies.js';
import { defaultLimits } from '../../../gateway/dist/options.js';
import { ROOT } from '../../support/paths.js';

const HTTP = readFileSync(join(ROOT, 'docs/HTTP.md'), 'utf8');

describe('the page on HTTP', () => {
  test('lists every key of a policy, and no other', () => {
    const section = HTTP.slice(HTTP.indexOf('### Policies'), HTTP.indexOf('## Pictures'));
    const listed = [...section.matchAll(/^\| `(\w+)` \|/gm)].map(([, key]) => key);
    expect(listed.sort()).toEqual(Object.keys(policyOptions).sort());
  });

  test('names checksum headers that are verified', () => {
    const row = HTTP.split('\n').find((line) => line.startsWith('| `Content-MD5`')) ?? '';
    const names = [...row.matchAll(/`([\w-]+)`/g)].map(([, name]) => name!.toLowerCase());
    expect(names.length).toBe(4);
    for (const name of names) {
      expect(() => digestCheck({ [name]: '?' }), name).toThrow(/malformed/);
    }
  });

  test('tells the bounds that the code has', () => {
    const kib = (bytes: number) => `${bytes / 1024} KiB`;
    const seconds = (ms: number) => `${ms / 1000} s`;
    const limits = defaultLimits;
    const text = HTTP.replace(/\s+/g, ' ');
    const sentences = [
      `${limits.maxParts} parts, ${limits.maxPartHeaders} headers and ${kib(limits.maxPartHeaderBytes)} of them for each, fields of ${kib(limits.maxFieldBytes)}`,
      `headers of a request | ${seconds(limits.headerTimeoutMs)}`,
      `${kib(limits.minBodyBytesPerSecond)}/s in any ${seconds(limits.bodyWindowMs)}`,
      `takes nothing of a download | ${seconds(limits.downloadStallMs)}`,
      `${seconds(limits.idleMs)}; without a request ${seconds(limits.keepAliveMs)}`,
      `connections | ${limits.maxConnections.toLocaleString('en')}`,
      `unix seconds; the URL is refused ${seconds(SKEW_MS)} later`,
    ];
    for (const sentence of sentences) expect(text).toContain(sentence);
  });

  test('a connection without a request outlives that of a proxy in front', () => {
    // nginx and the load balancer of AWS keep theirs for a minute, and may use it in its last second.
    expect(defaultLimits.keepAliveMs).toBeGreaterThanOrEqual(75_000);
  });
});
