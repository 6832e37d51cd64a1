/** Runs one piece of work after the other. */
export type Serial = <T>(work: () => Promise<T>) => Promise<T>;

/** One that fails is its caller's concern, not the next one's. */
export function serial(): Serial {
  let last: Promise<unknown> = Promise.resolve();
  return (work) => {
    const done = last.then(work);
    last = done.catch(() => undefined);
    return done;
  };
}
