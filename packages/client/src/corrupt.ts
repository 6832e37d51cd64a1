import { StoreError } from '@stevedore/staging';

/** No copy of the file has the bytes that were stored. */
export function corrupt(name: string): StoreError {
  return new StoreError('corrupt', `the bytes of ${name} are not those that were stored`);
}
