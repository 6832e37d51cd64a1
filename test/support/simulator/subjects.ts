import { STAGING } from './staging/subject.js';
import { STORAGE } from './storage/subject.js';
import type { AnySubject } from './subject.js';

/** All that is simulated. */
export const SUBJECTS: readonly (readonly [name: string, subject: AnySubject])[] = [
  ['staging', STAGING],
  ['a storage', STORAGE],
];
