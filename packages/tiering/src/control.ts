/** What a storage with a metadata tier tells of it; the daemons need nothing of this. */
export { askMigration, NoMigrationError } from './migration/ask.js';
export { type ClassStatus, type MigrationStatus, prometheusText } from './migration/status.js';
