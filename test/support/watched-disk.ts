import { type Disk, type DiskFile, decoratedDisk, decoratedFile, localDisk } from '@stevedore/disk';

/** A disk whose every operation passes a test, which may note it, hold it up or fail it. */

export interface DiskCall {
  readonly operation: keyof Disk | 'readAt' | 'writeAt' | 'truncate' | 'sync' | 'close';
  /** Of a rename or link: where it leads. */
  readonly path: string;
  readonly given: readonly unknown[];
}

export type Watch = <Result>(call: DiskCall, run: () => Promise<Result>) => Promise<Result>;

type Call = (...given: unknown[]) => Promise<unknown>;

export function watchedDisk(watch: Watch, disk: Disk = localDisk): Disk {
  // Nothing could hold up or fail what is done at once.
  const names = Object.keys(decoratedDisk(disk, {})) as (keyof Disk)[];
  const watched = names.map((operation) => [
    operation,
    (...given: unknown[]) => {
      const isTwo = operation === 'rename' || operation === 'makeLink';
      const path = given[isTwo ? 1 : 0] as string;
      return watch({ operation, path, given }, async () => {
        const result = await (disk[operation] as Call).apply(disk, given);
        return isFile(result) ? watchedFile(result, path, watch) : result;
      });
    },
  ]);
  return decoratedDisk(disk, Object.fromEntries(watched) as Partial<Disk>);
}

function watchedFile(file: DiskFile, path: string, watch: Watch): DiskFile {
  const names = ['readAt', 'writeAt', 'truncate', 'sync', 'close'] as const;
  const watched = names.map((operation) => [
    operation,
    (...given: unknown[]) =>
      watch({ operation, path, given }, () => (file[operation] as Call).apply(file, given)),
  ]);
  return decoratedFile(file, Object.fromEntries(watched) as Partial<DiskFile>);
}

function isFile(value: unknown): value is DiskFile {
  return typeof value === 'object' && value !== null && 'writeAt' in value;
}
