// Run: npm run load -- http://127.0.0.1:8080 (in examples/, with a gateway running there)
//
// What a gateway does on your machine: autocannon uploads files of 20 KB for five seconds, then
// downloads them for five. It deletes them at the end, except the few whose answers autocannon did
// not wait for. An API key comes from STEVEDORE_API_KEY.
import { randomBytes } from 'node:crypto';
import autocannon from 'autocannon';

const url = process.argv[2] ?? 'http://127.0.0.1:8080';
const key = process.env.STEVEDORE_API_KEY;
const headers = key === undefined ? {} : { authorization: `Bearer ${key}` };
const options = { url, connections: 20, duration: 5 };
const keys: string[] = [];

const uploads = await autocannon({
  ...options,
  requests: [
    {
      method: 'POST',
      path: '/files',
      headers: { ...headers, 'content-type': 'application/octet-stream' },
      body: randomBytes(20_000),
      onResponse: (status, body) => {
        if (status === 201) keys.push((JSON.parse(body) as { key: string }).key);
      },
    },
  ],
});
report('uploads', uploads);
if (keys.length === 0) throw new Error(`nothing could be stored at ${url}`);

report(
  'downloads',
  await autocannon({
    ...options,
    requests: keys.map((each) => ({ method: 'GET', path: `/files/${each}`, headers })),
  }),
);

const waiting = [...keys];
const remove = async (): Promise<void> => {
  for (let each = waiting.pop(); each !== undefined; each = waiting.pop()) {
    await fetch(`${url}/files/${each}`, { method: 'DELETE', headers });
  }
};
await Promise.all(Array.from({ length: 20 }, remove));

function report(what: string, { requests, latency, errors, non2xx }: autocannon.Result): void {
  const failed = errors + non2xx;
  console.log(
    `${what}: ${requests.average.toFixed(0)} a second, p50 ${latency.p50} ms, p99 ${latency.p99} ms, ${failed} failed`,
  );
}
