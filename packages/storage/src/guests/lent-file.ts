import { sep } from 'node:path';
import { decodeFields, parseFileName } from '@stevedore/protocol';
import type { Identity } from '../storage/identity.js';
import { dataDirectory } from '../storage/layout.js';
import { Place } from '../tiers/constants.js';
import type { Tier } from '../tiers/tier.js';
import { parsePlace } from './guest-name.js';
import type { LentFile } from './leases.js';

/**
 * A file as the storage that has its bytes needs to know it to answer for it; undefined if
 * none has, or none may. Only the source of a file lets another one: it alone changes the
 * file while it is current, so no two members of a group ever let somebody answer for the
 * same one.
 */
export function lentFile(
  { group, storePaths }: { readonly group: string; readonly storePaths: readonly string[] },
  tiers: readonly Tier[],
  identity: Pick<Identity, 'isSource' | 'addressOf'>,
  path: string,
): LentFile | undefined {
  const tier = tiers.find(({ data }) => path.startsWith(data));
  if (!tier) return undefined;
  const name = path.slice(tier.data.length);
  const record = tier.records.find(name);
  if (record?.place !== Place.guest || record.guest === undefined) return undefined;
  const storePath = storePaths.findIndex((each) => dataDirectory(each) + sep === tier.data);
  const prefix = storePath.toString(16).toUpperCase().padStart(2, '0');
  const id = parseFileName(group, `M${prefix}/${name}`);
  if (!id) return undefined;
  const { source } = decodeFields(id.base);
  if (!identity.isSource(source)) return undefined;
  const place = parsePlace(record.guest);
  return {
    at: { group: place.group, id: place.id },
    file: {
      name: id.name,
      guest: place.name,
      size: record.size,
      mtimeSeconds: record.mtimeSeconds,
      crc32: record.crc32,
      sourceAddress: identity.addressOf(source),
      metadata: tier.records.metadata(name),
    },
  };
}
