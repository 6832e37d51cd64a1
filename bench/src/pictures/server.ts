/** What the two servers of this benchmark can do in their processes; the rest is HTTP. */
export type ServerHandlers = {
  /** Answers with the port. */
  readonly start: (directory: string) => Promise<number>;
  /** Of the process and of those that make pictures for it. */
  readonly familyCpuSeconds: () => number;
};
