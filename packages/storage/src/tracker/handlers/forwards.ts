import { forwardReport } from '@stevedore/protocol';
import { control, type Handler } from '../../net/handler.js';
import type { Forwards } from '../forwards.js';
import type { TrackerSession } from '../session.js';

/** What storages tell of files that others answer for. */
export function forwardHandlers(forwards: Forwards): Handler<TrackerSession>[] {
  return [
    control(forwardReport, (report, { session }: { session: TrackerSession }) => {
      forwards.report(report, session.address, session);
      return undefined;
    }),
  ];
}
