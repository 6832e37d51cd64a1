import { OptionError } from '@stevedore/options';
import { type JoinRequest, listOneGroup, Status } from '@stevedore/protocol';
import { type Peer, StartError, StatusError } from '@stevedore/wire';

/**
 * Why a tracker refuses a storage. All storages of a group have the same port, unless they have
 * ids, the same number of directories per level, and at least as many store paths as the others.
 * A tracker answers with a status alone, so its group is asked for the difference.
 */

/** Statuses of a tracker that is not ready yet. */
const PASSING: ReadonlySet<number> = new Set([Status.tryAgain, Status.busy]);

export function isRefusal(error: unknown): error is StatusError {
  return error instanceof StatusError && !PASSING.has(error.status);
}

/** The error for an operator: OptionError if an option differs from the group. */
export async function refusalOf(
  error: StatusError,
  request: Pick<JoinRequest, 'group' | 'port' | 'storePathCount' | 'subdirectoriesPerPath'>,
  tracker: string,
  client: Pick<Peer, 'ask'>,
): Promise<Error> {
  const { group, port, storePathCount, subdirectoriesPerPath } = request;
  const [has] = await client.ask(listOneGroup, { group }).catch(() => []);
  if (error.status === Status.invalid && has) {
    const must = (option: string, what: unknown) =>
      new OptionError(`${option} must ${what}, as tracker ${tracker} knows ${group}`);
    if (has.subdirectoriesPerPath !== subdirectoriesPerPath) {
      const count = `be ${has.subdirectoriesPerPath}, not ${subdirectoriesPerPath}`;
      return must('subdirectoriesPerPath', count);
    }
    if (has.storePathCount > storePathCount) {
      return must('storePaths', `name ${has.storePathCount} directories, not ${storePathCount}`);
    }
    if (has.storagePort !== port) return must('port', `be ${has.storagePort}, not ${port}`);
  }
  const hint =
    error.status === Status.notFound
      ? '; if it identifies storages by id, add a line for this one to its storage ids'
      : '; its log may say why';
  return new StartError(
    'join_refused',
    `Tracker ${tracker} refuses this storage in ${group}: ${error.message}${hint}`,
    error,
  );
}
