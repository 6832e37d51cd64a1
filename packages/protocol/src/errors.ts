/**
 * What was thrown, by its properties. `instanceof` fails for errors of another realm, such as those
 * of Node itself under Jest, and for those that are no classes, such as Fastify's.
 */

export function isError(value: unknown): value is Error {
  return typeof value === 'object' && value !== null && 'name' in value && 'message' in value;
}

export function messageOf(error: unknown): string {
  return isError(error) ? error.message : String(error);
}
