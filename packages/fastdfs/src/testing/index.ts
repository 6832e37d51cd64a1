/** For tests of programs that use FastDFS: a cluster in memory, and servers that misbehave. */
export { CommandCode } from '@stevedore/protocol';
export { MemoryCluster, type MemoryClusterOptions, startMemoryCluster } from './memory-cluster.js';
export {
  type Answer,
  byteByByte,
  fin,
  garbage,
  type LastReply,
  longReply,
  type MemoryNode,
  MISBEHAVIOURS,
  type Misbehaviour,
  refuse,
  reset,
  shortReply,
  splitAt,
  stall,
  wrongCommand,
} from './memory-node.js';
export type { MemoryFile, MemoryFiles } from './memory-storage.js';
export { type FrameHandler, type Received, replyFrame, ScriptedServer } from './scripted-server.js';
