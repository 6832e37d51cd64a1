import { openMap } from '@stevedore/map';
const map = await openMap(`postgres://test@127.0.0.1:55432/postgres`);
await map.prepare();
const before = (await map.now()) - 86_400_000;
let after = { removedAt: 0, key: new Uint8Array(0) }, n = 0, max = 0, sum = 0;
while (after) { const t = performance.now(); after = await map.prune(before, after, 2000); const d = performance.now() - t; max = Math.max(max, d); sum += d; n++; }
console.log({ n, max, sum });
await map.close();
