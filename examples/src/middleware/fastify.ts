// Run: npm run fastify (in examples/, after `npm start` or `npm test` has built it once)
//
// Fastify. Files live for a day. Try it:  curl -F a=@photo.jpg localhost:3000/photos
import { open } from '@stevedore/client';
import { stevedore } from '@stevedore/middleware/fastify';
import { fastify } from 'fastify';

const store = await open({ directory: process.env.DIRECTORY ?? './stevedore-data' });
const policy = { types: ['image/*'], maxFileBytes: 10_000_000, ttlMs: 86_400_000 };
const app = fastify();
app.register(stevedore, { prefix: '/photos', store, policy });
await app.listen({ port: Number(process.env.PORT ?? 3000) });
