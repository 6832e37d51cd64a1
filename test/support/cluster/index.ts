/** For tests of programs that use FastDFS: a tracker and storages, and servers that misbehave. */
export {
  type Answer,
  byteByByte,
  FaultyServer,
  fin,
  MISBEHAVIOURS,
  refuse,
  reset,
  silence,
  splitAt,
  stall,
} from './faults.js';
export { otherEndOf, runOut } from './run-out.js';
export { type FrameHandler, type Received, replyFrame, ScriptedServer } from './scripted-server.js';
export { startTestCluster, type TestCluster, type TestClusterOptions } from './test-cluster.js';
