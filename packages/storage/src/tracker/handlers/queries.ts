import {
  decodeFields,
  type FetchTarget,
  type FileName,
  ProtocolError,
  parseFileName,
  queryFetch,
  queryStore,
  queryStoreInGroup,
  queryUpdate,
  Status,
  type StoreTarget,
} from '@stevedore/protocol';
import { StatusError } from '../../errors.js';
import { control, type Handler } from '../../net/handler.js';
import type { Cluster } from '../cluster.js';
import type { Group, StoreChoice } from '../group.js';
import type { Member } from '../member.js';
import type { TrackerSettings } from '../options.js';
import type { TrackerSession } from '../session.js';

/** What clients ask: where to put a file, where to read it, where to change it. */
export function queryHandlers(
  cluster: Cluster,
  settings: TrackerSettings,
): Handler<TrackerSession>[] {
  const now = (): number => settings.environment.now();
  const width = () => settings.addressWidth;
  return [
    control(queryStore, () => storeTarget(cluster.chooseStore(now())), width),
    control(queryStoreInGroup, ({ group }) => storeInGroup(cluster.group(group), now()), width),
    control(
      queryFetch,
      (file) => {
        const group = cluster.group(file.group);
        return fetchTarget(group, group.chooseFetch(sourceOf(file), now()));
      },
      width,
    ),
    control(
      queryUpdate,
      (file) => {
        const group = cluster.group(file.group);
        return fetchTarget(group, group.chooseUpdate(sourceOf(file), now()));
      },
      width,
    ),
  ];
}

function storeInGroup(group: Group, nowMs: number): StoreTarget {
  if (group.serving(nowMs).length === 0) {
    throw new StatusError(Status.notFound, `no active storage in ${group.name}`);
  }
  const choice = group.chooseStore(nowMs);
  if (!choice) throw new StatusError(Status.noSpace, `${group.name} is full`);
  return storeTarget(choice);
}

function storeTarget({ group, member, storePathIndex }: StoreChoice): StoreTarget {
  return { ...fetchTarget(group, member), storePathIndex };
}

function fetchTarget(group: Group, member: Member): FetchTarget {
  return { group: group.name, address: member.address, port: member.port };
}

/** Where the file came from; a tracker sends names it cannot read to any storage. */
function sourceOf({ group, name }: FileName): string | undefined {
  const file = parseFileName(group, name);
  if (!file) return undefined;
  try {
    return decodeFields(file.base).source;
  } catch (error) {
    if (error instanceof ProtocolError) return undefined;
    throw error;
  }
}
