/** Works on the items, some at a time, in order; ends with the first failure. */
export async function inParallel<T>(
  items: readonly T[],
  atATime: number,
  work: (item: T, index: number) => Promise<void>,
): Promise<void> {
  let next = 0;
  let failed = false;
  const worker = async () => {
    while (next < items.length && !failed) {
      const index = next;
      next += 1;
      try {
        await work(items[index]!, index);
      } catch (error) {
        failed = true;
        throw error;
      }
    }
  };
  const workers = await Promise.allSettled(Array.from({ length: atATime }, worker));
  for (const result of workers) if (result.status === 'rejected') throw result.reason;
}
