/** A bar on stderr while somebody watches; nothing otherwise. */

export interface Progress {
  /** Lines on stdout go between two drawings of the bar. */
  print(line: string): void;
  advance(bytes: number): void;
  stop(): void;
}

export async function startProgress(totalBytes: number, totalFiles: number): Promise<Progress> {
  const [{ default: progress }, { formatBytes }] = await Promise.all([
    import('cli-progress'),
    import('@stevedore/client'),
  ]);
  const bar = new progress.SingleBar({
    format: `{bar} {percentage}% of ${formatBytes(totalBytes)} in ${totalFiles} files, {eta_formatted} left`,
    stream: process.stderr,
    hideCursor: true,
    clearOnComplete: true,
  });
  bar.start(Math.max(totalBytes, 1), 0);
  return {
    print: (line) => {
      if (process.stdout.isTTY) process.stderr.write('\r\x1b[K');
      process.stdout.write(`${line}\n`);
    },
    advance: (bytes) => bar.increment(bytes),
    stop: () => bar.stop(),
  };
}

export const silentProgress: Progress = {
  print: (line) => void process.stdout.write(`${line}\n`),
  advance: () => {},
  stop: () => {},
};
