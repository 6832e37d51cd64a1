/** Files dropped on a page, including those in dropped folders. */

export interface DroppedFile {
  readonly file: File;
  /** Its path within the dropped folder: `holiday/day 1/a.jpg`. */
  readonly path: string;
}

/**
 * Call it in the handler of `drop`, before any `await`: the browser forgets the dropped items when
 * the handler returns.
 */
export async function droppedFiles(transfer: DataTransfer): Promise<DroppedFile[]> {
  const dropped = [...transfer.items].map((item) => item.webkitGetAsEntry() ?? item.getAsFile());
  const files: DroppedFile[] = [];
  for (const each of dropped) {
    // What a script drops has no entry.
    if (each instanceof File) files.push({ file: each, path: each.name });
    else if (each) await collect(each, '', files);
  }
  return files;
}

async function collect(entry: FileSystemEntry, above: string, files: DroppedFile[]): Promise<void> {
  const path = above + entry.name;
  if (entry.isFile) {
    const file = await new Promise<File>((resolve, reject) => {
      (entry as FileSystemFileEntry).file(resolve, reject);
    });
    files.push({ file, path });
    return;
  }
  const reader = (entry as FileSystemDirectoryEntry).createReader();
  for (;;) {
    // `readEntries` returns some at a time, and none at the end.
    const some = await new Promise<FileSystemEntry[]>((resolve, reject) => {
      reader.readEntries(resolve, reject);
    });
    if (some.length === 0) return;
    for (const each of some) await collect(each, `${path}/`, files);
  }
}
