/** What a move sends over the network (section 4.3.1). Pure. */

/**
 * Eq. 15: TD = 2 · RD + FD, active migration: the written bytes go to the metadata
 * server and from there, with what the file had before, to the I/O servers.
 */
export function activeTransferBytes(writtenBytes: number, fileBytes: number): number {
  return 2 * writtenBytes + fileBytes;
}

/** Passive migration: the client sends what it writes straight to the I/O servers. */
export function passiveTransferBytes(writtenBytes: number, fileBytes: number): number {
  return writtenBytes + fileBytes;
}

/**
 * Section 4.3.1: a write that alone exceeds the threshold is worth a passive move; a
 * small one that happens to cross it is not worth the extra exchange.
 */
export function movesPassively(writtenBytes: number, thresholdBytes: number): boolean {
  return writtenBytes > thresholdBytes;
}
