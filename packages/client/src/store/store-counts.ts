import type { StagingStats } from '@stevedore/staging';

/** Counts of files as users see them: what was uploaded, and apart from that what was made of it. */

type Counted = 'waiting' | 'spooled' | 'derivedStaged' | 'derivedMerged';

/** Derived files are in `derivedFiles` and `derivedBytes` alone. */
export interface FileCounts extends Omit<StagingStats, `${Counted}${'Files' | 'Bytes'}`> {
  readonly stagedFiles: number;
  readonly stagedBytes: number;
  readonly derivedFiles: number;
  readonly derivedBytes: number;
}

export function fileCounts(stats: StagingStats): FileCounts {
  const { waitingFiles, waitingBytes, spooledFiles, spooledBytes, ...merged } = stats;
  const { derivedStagedFiles, derivedStagedBytes, ...rest } = merged;
  const { derivedMergedFiles, derivedMergedBytes, ...others } = rest;
  return {
    ...others,
    stagedFiles: waitingFiles + spooledFiles - derivedStagedFiles,
    stagedBytes: waitingBytes + spooledBytes - derivedStagedBytes,
    mergedFiles: others.mergedFiles - derivedMergedFiles,
    mergedBytes: others.mergedBytes - derivedMergedBytes,
    derivedFiles: derivedStagedFiles + derivedMergedFiles,
    derivedBytes: derivedStagedBytes + derivedMergedBytes,
  };
}
