/**
 * Selects the files to move (section 4.2.2): those with the most load for their size. Pure; ids
 * break ties, so the same list gives the same choice.
 */

export interface AccessedFile {
  readonly id: string;
  readonly sizeBytes: number;
  /** Bytes of the file read and written in the interval that ended. */
  readonly loadBytes: number;
}

export interface Selection {
  readonly files: readonly AccessedFile[];
  /** TL: the load of the selected files together. */
  readonly totalLoadBytes: number;
}

/** MP of section 4.2.2: load over size. An empty file counts as one byte. */
export function migrationProfit({ loadBytes, sizeBytes }: AccessedFile): number {
  return loadBytes / Math.max(1, sizeBytes);
}

/**
 * Steps (1) and (2) of section 4.2.2: files by falling MP until TL reaches ML, N files are
 * selected, or the list ends. Files without load are skipped.
 */
export function selectByProfit(
  accessed: readonly AccessedFile[],
  loadToMoveBytes: number,
  maximumFiles: number,
): Selection {
  const files: AccessedFile[] = [];
  let totalLoadBytes = 0;
  const loaded = accessed.filter(({ loadBytes }) => loadBytes > 0);
  for (const file of byFalling(loaded, migrationProfit)) {
    if (totalLoadBytes >= loadToMoveBytes || files.length >= maximumFiles) break;
    files.push(file);
    totalLoadBytes += file.loadBytes;
  }
  return { files, totalLoadBytes };
}

export interface Split {
  readonly toTarget: readonly AccessedFile[];
  readonly rest: readonly AccessedFile[];
}

/**
 * Second half of step (2), and step (3), with Eq. 6: the files with the most load go to the target while its
 * room lasts, the rest to I/O servers. Each file is on exactly one side.
 */
export function splitByRoom(selected: readonly AccessedFile[], targetRoomBytes: number): Split {
  const toTarget: AccessedFile[] = [];
  const rest: AccessedFile[] = [];
  let room = targetRoomBytes;
  for (const file of byFalling(selected, ({ loadBytes }) => loadBytes)) {
    if (file.loadBytes <= room) {
      toTarget.push(file);
      room -= file.loadBytes;
    } else {
      rest.push(file);
    }
  }
  return { toTarget, rest };
}

function byFalling(
  files: readonly AccessedFile[],
  value: (file: AccessedFile) => number,
): AccessedFile[] {
  return files
    .map((file) => ({ file, by: value(file) }))
    .sort((a, b) => b.by - a.by || (a.file.id < b.file.id ? -1 : a.file.id > b.file.id ? 1 : 0))
    .map(({ file }) => file);
}
