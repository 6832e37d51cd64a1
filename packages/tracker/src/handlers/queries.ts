import {
  type Command,
  type FetchTarget,
  MAX_GROUP_SERVERS,
  queryFetch,
  queryFetchAll,
  queryStore,
  queryStoreAll,
  queryStoreInGroup,
  queryStoreInGroupAll,
  queryUpdate,
  type ServerAddress,
  Status,
  type StoreTarget,
} from '@stevedore/protocol';
import { control, type Handler, StatusError } from '@stevedore/wire';
import type { Cluster } from '../cluster.js';
import type { Group, StoreChoice } from '../group.js';
import { readName } from '../group.js';
import type { Member } from '../member.js';
import type { TrackerSession } from '../session.js';
import type { TrackerSettings } from '../tracker-options.js';

/** Requests of clients: where to upload, read or change a file. */
export function queryHandlers(
  cluster: Cluster,
  settings: TrackerSettings,
): Handler<TrackerSession>[] {
  const now = (): number => settings.environment.uptimeMs();
  const query = <Request, Answer>(
    command: Command<Request, Answer>,
    choose: (request: Request) => Answer,
  ) => control<TrackerSession, Request, Answer>(command, choose, () => settings.addressWidth);
  return [
    query(queryStore, () => storeTarget(cluster.chooseStore(now()))),
    query(queryStoreInGroup, ({ group }) =>
      storeTarget(inGroup(cluster.group(group), (each) => each.chooseStore(now()))),
    ),
    query(queryStoreAll, () => {
      const { group, members, storePathIndex } = cluster.chooseStoreAll(now());
      return { group: group.name, servers: members.map(address), storePathIndex };
    }),
    query(queryStoreInGroupAll, ({ group: name }) => {
      const group = cluster.group(name);
      const { members, storePathIndex } = inGroup(group, (each) => each.chooseStoreAll(now()));
      return { group: name, servers: members.map(address), storePathIndex };
    }),
    query(queryFetch, (file) => {
      const group = cluster.group(file.group);
      return fetchTarget(group, group.chooseFetch(readName(file), now()));
    }),
    query(queryFetchAll, (file) => {
      const group = cluster.group(file.group);
      const members = group.chooseFetchAll(readName(file), now());
      // A longer list could not be distinguished from one of wide addresses.
      return { group: group.name, servers: members.slice(0, MAX_GROUP_SERVERS).map(address) };
    }),
    query(queryUpdate, (file) => {
      const group = cluster.group(file.group);
      return fetchTarget(group, group.chooseUpdate(readName(file), now()));
    }),
  ];

  /** The group's choice; status 2 without a writable storage, 28 without space. */
  function inGroup<Choice>(group: Group, choose: (group: Group) => Choice | undefined): Choice {
    if (group.writable(now()).length === 0) {
      throw new StatusError(Status.notFound, `no active storage in ${group.name}`);
    }
    const choice = choose(group);
    if (!choice) throw new StatusError(Status.noSpace, `${group.name} is full`);
    return choice;
  }
}

function storeTarget({ group, member, storePathIndex }: StoreChoice): StoreTarget {
  return { ...fetchTarget(group, member), storePathIndex };
}

function fetchTarget(group: Group, member: Member): FetchTarget {
  return { group: group.name, ...address(member) };
}

function address(member: Member): ServerAddress {
  return { address: member.address, port: member.port };
}
