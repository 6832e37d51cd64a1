/**
 * Resumable uploads from a web page.
 *
 * @module @stevedore/browser
 */
export { type DroppedFile, droppedFiles } from './dropped-files.js';
export { type UploadCode, UploadError } from './requests.js';
export { type StoredFile, type Upload, type UploadOptions, upload } from './upload.js';
export {
  type AllProgress,
  type UploadAll,
  type UploadAllOptions,
  uploadAll,
} from './upload-all.js';
