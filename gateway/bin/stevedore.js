#!/usr/bin/env node
// Node reads this when it first hands a file system call to a thread, which loading a module
// does: it has to be set before, hence no `import` statement here. With Node's 4 threads the
// short calls of a storage wait behind the syncs of others.
process.env.UV_THREADPOOL_SIZE ??= '16';
// There before the first build, so that an installation can link it.
import('../dist/main.js');
