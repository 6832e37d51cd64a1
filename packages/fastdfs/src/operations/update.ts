import { type FileId, queryUpdate } from '@stevedore/protocol';
import type { Address } from '@stevedore/wire';
import type { Deadline } from '../deadline.js';
import { type Context, nameOf } from './context.js';

/** The storage on which a file may be changed: the tracker's choice, and the only one. */
export async function updateTarget(
  context: Context,
  id: FileId,
  deadline: Deadline,
): Promise<Address> {
  const { reply, tracker } = await context.trackers.ask(queryUpdate, nameOf(id), deadline);
  return context.addresses.of(reply, tracker, deadline);
}
