import childProcess from 'node:child_process';
import { syncBuiltinESMExports } from 'node:module';

/**
 * Set-up of the tests that run in one process: they start none beside it. What ends before it
 * returns (`execFileSync`) is a tool, such as unzip, and may be used.
 */

const refuse = (): never => {
  throw new Error('a test that starts a process belongs to test/system');
};

Object.assign(childProcess, { spawn: refuse, fork: refuse, exec: refuse, execFile: refuse });
syncBuiltinESMExports();
