import { type OptionTable, option } from '@stevedore/options';

/** The options of a tracker that an operator sets. */
export const trackerFlags = {
  host: option.text('127.0.0.1', 'address to listen on'),
  port: option.port(22_122, 'port to listen on; 0 picks a free one'),
  storeLookup: option.choice(
    'round-robin',
    ['round-robin', 'group', 'most-free'],
    'storage group of an upload: in turn, always --store-group, or the one with most free space',
  ),
  storeGroup: option.text('', 'storage group for all uploads, with --store-lookup group'),
  storageIds: option.list(
    [],
    'identify storages by id instead of address: "100001 group1 10.0.0.7:23000",...',
  ),
  addressWidth: option.choice(
    'auto',
    ['auto', 'narrow', 'wide'],
    'address fields in answers: narrow for IPv4 only, wide for IPv6 too; auto: what --storage-ids need',
  ),
} satisfies OptionTable;
