/** The first of all items that agree in what tells them apart. */
export function differentOf<T>(items: readonly T[], agreement: (item: T) => string): T[] {
  const found = new Map<string, T>();
  for (const item of items) {
    const of = agreement(item);
    if (!found.has(of)) found.set(of, item);
  }
  return [...found.values()];
}
