/** Where a command answers, if this line says that it is ready; in either format of its output. */
export function readyAddress(line: string): string | undefined {
  if (line.startsWith('ready ')) return line.slice('ready '.length);
  if (!line.includes('"msg":"ready"')) return undefined;
  return (JSON.parse(line) as { readonly address: string }).address;
}
