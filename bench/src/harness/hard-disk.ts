/** Seek and rotation of the modelled hard disk, a single 7,200 rpm drive as in the papers. */
export const SEEK_MS = 8;
