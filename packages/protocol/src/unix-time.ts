/**
 * The system's clock in Unix milliseconds, never before 1970: keys and FastDFS ids have no such
 * times. A clock that was never set counts from the start of the process.
 */
export function unixTime(): number {
  const now = Date.now();
  return now < 0 ? Math.floor(performance.now()) : now;
}
