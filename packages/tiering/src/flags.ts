import { type OptionTable, option } from '@stevedore/options';

/** The options of the metadata tier that an operator sets. */
export const tierFlags = {
  metadataTier: option.boolean(
    false,
    'keep small files, and slices that are read often, as rows beside their metadata, and move them by size, load and room; off: files in rows are still served',
    { see: '../packages/tiering/FORMAT.md' },
  ),
  metadataTierSize: option.size(
    '4GiB',
    'bytes of files that the rows may hold; beyond 80 % of it slices go, then the files read least',
    { minimum: '1MiB' },
  ),
  moveTo: option.text(
    '',
    'group that takes files which outgrew their rows, or for which there is no room or load to spare: any group of the trackers, one of C storages too; none: they become files here',
    { see: '../packages/tiering/FORMAT.md#files-in-another-group' },
  ),
  shareWith: option.list(
    [],
    'groups of other storages with a metadata tier, which take load while they have room, GROUP,...',
  ),
  smallFileShare: option.integer(
    20,
    'percent of what the storage can serve that small files get at least, however much metadata is asked for',
    { minimum: 1, maximum: 100 },
  ),
  smallFileThreshold: option.size(
    '64KiB',
    'longest file that becomes a row, to begin with; it adapts, up to 2MiB',
    { minimum: '1KiB', maximum: '2MiB' },
  ),
  bandwidth: option.size(0, 'bytes a second that the disk serves; 0 measures and learns it'),
  moveRate: option.integer(50, 'files that move a second, at most', {
    minimum: 1,
    maximum: 100_000,
  }),
} satisfies OptionTable;
