import sharp, { type Sharp } from 'sharp';
import {
  type EncoderAnswer,
  type EncoderFailure,
  type EncoderJob,
  TOO_MUCH_MEMORY,
} from './encoder-job.js';
import type { Variant } from './variant.js';

/**
 * The process that makes pictures, one at a time. Whatever a file does to the decoder happens here:
 * the parent kills this process if it takes too long, and it exits by itself if it uses too much
 * memory.
 */

const MEMORY_CHECK_MS = 20;
/** The decoders allowed for untrusted bytes; SVG, PDF and the like are not among them. */
const LOADERS = ['Jpeg', 'Png', 'Webp', 'Nsgif', 'Heif'];
const QUALITY = { jpeg: 80, webp: 78, avif: 50 } as const;

sharp.cache(false);
sharp.concurrency(1);
sharp.block({ operation: ['VipsForeignLoad'] });
sharp.unblock({ operation: LOADERS.map((name) => `VipsForeignLoad${name}Buffer`) });

process.on('disconnect', () => process.exit());
process.on('message', async (job: EncoderJob) => {
  const watch = setInterval(() => {
    if (process.memoryUsage.rss() > job.maxMemoryBytes) process.exit(TOO_MUCH_MEMORY);
  }, MEMORY_CHECK_MS);
  process.send?.(await answer(job));
  clearInterval(watch);
});

async function answer(job: EncoderJob): Promise<EncoderAnswer> {
  const { bytes, variant, maxPixels, maxSidePixels } = job;
  try {
    // One that ends too early is shown as far as it goes, as browsers show the file itself.
    const picture = sharp(bytes, { limitInputPixels: maxPixels, failOn: 'none' });
    const { width, height } = await picture.metadata();
    if (Math.max(width, height) > maxSidePixels) {
      const message = `a side of its ${width} x ${height} pixels is longer than ${maxSidePixels}`;
      return { failure: 'picture_too_costly', message };
    }
    return { bytes: await encoded(picture, variant).toBuffer() };
  } catch (error) {
    // libvips adds a line for each step that failed after the first.
    const [message = ''] = (error as Error).message.split('\n');
    return { failure: failureOf(message), message };
  }
}

/** Rotated as its EXIF says, without EXIF, in sRGB; of an animation the first frame. */
function encoded(picture: Sharp, { width, height, fit, format }: Variant): Sharp {
  const sized = picture.autoOrient().resize({
    width,
    height,
    fit,
    withoutEnlargement: fit === 'inside',
    background: format === 'jpeg' ? '#fff' : { r: 0, g: 0, b: 0, alpha: 0 },
  });
  switch (format) {
    case 'avif':
      return sized.avif({ quality: QUALITY.avif, effort: 2 });
    case 'webp':
      return sized.webp({ quality: QUALITY.webp });
    case 'png':
      return sized.png();
    case 'jpeg':
      return sized
        .flatten({ background: '#fff' })
        .jpeg({ quality: QUALITY.jpeg, progressive: true });
  }
}

function failureOf(message: string): EncoderFailure {
  if (/unsupported image format|operation is blocked|no known/i.test(message))
    return 'picture_unsupported';
  return /pixel limit|too large|dimension/i.test(message) ? 'picture_too_costly' : 'picture_broken';
}
