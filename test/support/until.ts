const WAIT_LIMIT_S = 40;

/**
 * Resolves once the condition holds. It fails before the test's own limit does, so that the
 * failure names the line that waited, and what it saw.
 */
export async function until(
  condition: () => boolean | Promise<boolean>,
  seen: () => unknown = () => '',
): Promise<void> {
  const late = new Error(`the condition did not hold within ${WAIT_LIMIT_S} s`);
  // A clock that no test moves.
  const end = process.uptime() + WAIT_LIMIT_S;
  while (!(await condition())) {
    if (process.uptime() > end) {
      late.message += ` ${seen()}`;
      throw late;
    }
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
}
