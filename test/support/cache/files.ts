import type { FileCache } from '@stevedore/cache';

/** Files by id, whose bytes say which version they are, and a cache full of them. */

export const KIB = 1024;

export function bytesOf(id: string, version: number, size: number): Buffer {
  const text = `${id}#${version};`;
  const bytes = Buffer.allocUnsafeSlow(Math.max(size, text.length));
  bytes.fill(text);
  return bytes;
}

export async function fill(cache: FileCache, ids: readonly string[], size: number): Promise<void> {
  for (const id of ids) await cache.get(id, async () => bytesOf(id, 0, size));
}

export function idsOf(name: string, count: number): string[] {
  return Array.from({ length: count }, (_, index) => `${name}-${index}`);
}

export function kept(cache: FileCache, ids: readonly string[]): number {
  return ids.filter((id) => cache.has(id)).length;
}
