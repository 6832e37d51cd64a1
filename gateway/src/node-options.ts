import { type OptionTable, option } from '@stevedore/options';
import { storageFlags } from '@stevedore/storage/flags';
import { tierFlags } from '@stevedore/tiering/flags';
import { trackerFlags } from '@stevedore/tracker/flags';

/** The options of a tracker and of a storage that run on their own. */

const commonOptions = {
  clusterSecretFile: option.text(
    '',
    'file of the secret that every connection must begin with, one a line; the first is used for connections to others, all are accepted',
    { see: 'OPERATIONS.md#who-may-use-the-ports-of-trackers-and-storages' },
  ),
  withoutSecret: option.choice(
    'nothing',
    ['nothing', 'read', 'all'],
    'what a client may do that does not show the secret; all: while members are given it',
  ),
  metrics: option.text(
    '',
    'HOST:PORT that answers GET /metrics, for Prometheus; a port alone is one of 127.0.0.1, 0 a free one',
  ),
} satisfies OptionTable;

export const trackerOptions = {
  ...trackerFlags,
  ...commonOptions,
} satisfies OptionTable;

export const storageOptions = {
  ...storageFlags,
  ...tierFlags,
  ...commonOptions,
} satisfies OptionTable;

export type NodeOptions = typeof commonOptions;
