/**
 * What gateway and middleware share: plain functions over node's request and
 * response, or over values, bound to no framework.
 */
export type { ByteRange } from '@stevedore/client';
export {
  presignedUpload,
  type QueryValues,
  type SignedMethod,
  type SignOptions,
  SKEW_MS,
  signedDownload,
  signQuery,
  type UploadConditions,
  uploadPath,
  type Verified,
  verifyQuery,
} from './access/signed-url.js';
export { type Validators, type Wanted, wanted } from './http/conditions.js';
export type { Disposition } from './http/content-disposition.js';
export {
  answerFile,
  cacheControl,
  type FileAnswer,
  type FileRequest,
  type Presentation,
  type ResourcePolicy,
  sendAnswer,
} from './http/file-answer.js';
export { checkKey } from './http/key.js';
export { closeAfterReply, hasUnreadBody } from './http/linger.js';
export { DEFAULT_TYPE, essence } from './http/media-type.js';
export { type ProblemAnswer, problemAnswer } from './http/problem-answer.js';
export { MAX_RANGES, type WantedRanges } from './http/ranges.js';
export {
  fileUrl,
  type InfoJson,
  infoJson,
  type ReceiptJson,
  receiptJson,
} from './http/receipt-json.js';
export { Turns } from './http/turns.js';
export { UnsentBytes, type UnsentLimits, type UnsentStats } from './http/unsent-bytes.js';
export {
  type BodyLimits,
  defaultBodyLimits,
  defaultUnsentLimits,
  maxFormBytes,
} from './limits.js';
export {
  isStoreError,
  PROBLEM_TYPE,
  type ProblemBody,
  type ProblemCode,
  ProblemError,
  problemBody,
  problemCodes,
  toProblem,
} from './problems.js';
export type { BodyChecks } from './upload/checked-body.js';
export { ClientRoom, type UploadRoom } from './upload/client-room.js';
export { DIGEST_HEADERS, digestCheck, type HeaderValues } from './upload/digests.js';
export { Form, type FormOptions } from './upload/form.js';
export type { FormPart } from './upload/form-parts.js';
export {
  IdempotentUploads,
  type IdempotentUploadsOptions,
  type Repeatable,
  uploadMark,
} from './upload/idempotency.js';
export { checkPolicy, narrowPolicy, type UploadPolicy } from './upload/policy.js';
export { ProgressGuard } from './upload/progress-guard.js';
export { receiveUpload, type UploadContext } from './upload/receive.js';
export { type BodyOptions, RequestBody, readWhole, tooLarge } from './upload/request-body.js';
