import { migrationControl } from '@stevedore/protocol';
import { control, type Handler } from '@stevedore/wire';
import type { Migration } from './migration.js';

/** MIGRATION_CONTROL: status, pause, resume, dry-run, recall. Answers with the status after it. */
export function migrationHandler<Session>(migration: Migration): Handler<Session> {
  return control(migrationControl, (action) => {
    switch (action) {
      case 'pause':
        migration.pause();
        break;
      case 'resume':
        migration.resume();
        break;
      case 'dry-run':
        migration.dryRun();
        break;
      case 'recall':
        migration.recall();
        break;
      case 'status':
        break;
    }
    return Buffer.from(JSON.stringify(migration.status()));
  });
}
