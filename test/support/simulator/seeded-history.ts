/** A random history that a seed gives again: its steps are noted as they are done. */
export interface SeededHistory {
  readonly lines: readonly string[];
  run(): Promise<void>;
  readonly host: { dispose(): void | Promise<void> };
}

/** Runs it to its end; what goes wrong is told with the seed and all steps. */
export async function runSeeded<History extends SeededHistory>(
  seed: number,
  history: History,
): Promise<History> {
  try {
    await history.run();
    return history;
  } catch (error) {
    const message = `STEVEDORE_TEST_SEED=${seed}: ${(error as Error).message}\n${history.lines.join('\n')}`;
    throw new Error(message, { cause: error });
  } finally {
    await history.host.dispose();
  }
}
