import { type OptionTable, type OptionValues, option } from '@stevedore/options';

/** The options of the metadata tier that an operator sets. */
export const tierFlags = {
  metadataTier: option.boolean(
    false,
    'keep small files as rows beside their metadata; off: existing rows are still served',
    { see: '../packages/tiering/FORMAT.md' },
  ),
  metadataTierSize: option.size(
    '4GiB',
    'most bytes in rows; above 80 % of it, the files read least leave',
    { minimum: '1MiB' },
  ),
  moveTo: option.text(
    '',
    'storage group for files that outgrow their rows, or the space or load of this storage; none: they become files here',
    { see: '../packages/tiering/FORMAT.md#files-in-another-group' },
  ),
  shareWith: option.list([], 'storage groups with a metadata tier that take load, GROUP,...'),
  smallFileShare: option.integer(
    20,
    "percent of the storage's bandwidth that small files always keep",
    { minimum: 1, maximum: 100 },
  ),
  smallFileThreshold: option.size('64KiB', 'initial size limit for a row; it adapts, up to 2MiB', {
    minimum: '1KiB',
    maximum: '2MiB',
  }),
  bandwidth: option.size(
    0,
    'bytes per second that the disk is taken to serve, from which load is judged; it slows nothing. 0: as measured at the first start',
  ),
  moveRate: option.integer(50, 'most files to move per second', {
    minimum: 1,
    maximum: 100_000,
  }),
} satisfies OptionTable;

/** What an operator has set, as the storage takes it. */
export function tiersOf(flags: OptionValues<typeof tierFlags>) {
  return {
    enabled: flags.metadataTier,
    thresholdBytes: flags.smallFileThreshold,
    roomBytes: flags.metadataTierSize,
    moveTo: flags.moveTo === '' ? undefined : flags.moveTo,
    shareWith: flags.shareWith,
    smallFileShare: flags.smallFileShare / 100,
    bytesPerSecond: flags.bandwidth,
    movesPerSecond: flags.moveRate,
  };
}
